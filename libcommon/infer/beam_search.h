// BeamSearch: the likeliest texts behind a prompt, as Megatron's
// beam_search_and_return_on_first_stage finds them (core_v0.12, generation.py and beam_utils.py):
// each step keeps the `width` likeliest continuations; one that ends with the stop token becomes a
// result, whose score is the sum of its log-probabilities over its length to the power of the
// penalty.  It asks for logits and knows no model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mt {

class BeamSearch {
 public:
  struct Options {
    std::int64_t width = 1, num_tokens = 64;
    std::int32_t stop_token = 0;
    double length_penalty = 1;
  };
  struct Text {
    std::vector<std::int32_t> ids;  // the prompt, too, and no stop token
    double score = 0;
  };
  BeamSearch(const Options& options, std::vector<std::int32_t> prompt);

  // The texts whose next token's logits are wanted; none once the search is over.
  const std::vector<Text>& open() const { return open_; }
  // Takes the logits of each text of open(), in their order.
  void take(std::span<const std::vector<double>> logits);
  const std::vector<Text>& found() const { return found_; }  // once it is over, the best first

 private:
  void find(const Text& text, std::int64_t length);

  Options options_;
  std::size_t prompt_;
  std::vector<Text> open_, found_;  // scores of open_ are sums
};

}  // namespace mt
