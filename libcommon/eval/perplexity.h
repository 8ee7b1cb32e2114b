// Perplexity of texts under a language model that is given as a function.
//   nll = sum over tokens of -log p(token | those before it in its window), in nats
// A text is its tokens.  Those that its tokenizer puts in front of every text are context and are
// not scored, wherever they stand; a text that does not begin with them has the end-of-document
// token in front, which is context too.
// Windows (eval/windows.h) of several texts are scored together.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "eval/eval_input.h"
#include "eval/windows.h"

namespace mt {

// nll[i][j], the last of which belongs to the last token of ids[i]: -log p(token | all before it in
// ids[i]), of as many of the last tokens as nll[i] has elements.
using Score = std::function<void(std::span<const std::span<const std::int32_t>> ids,
                                 std::span<const std::span<double>> nll)>;

struct TextScore {
  double nll = 0;
  std::int64_t tokens = 0, words = 0, bytes = 0;
  TextScore& operator+=(const TextScore& other);
  double nats_per_token() const { return nll / static_cast<double>(tokens); }
  double perplexity() const;
  double bits_per_byte() const;
  // Perplexity by words instead of tokens (Megatron's "adjusted ppl"), which can be compared
  // between tokenizers: exp(nats_per_token token_ratio).
  double token_ratio() const { return static_cast<double>(tokens) / static_cast<double>(words); }
  double adjusted_perplexity() const;
};

// Scores texts in the order in which they come.  Not thread-safe.
class TextScorer {
 public:
  // in_front: what the tokenizer puts there (text/put_in_front.h).
  TextScorer(std::int32_t eod, std::vector<std::int32_t> in_front, const Windows& windows,
             Score score, std::function<void(const TextScore&)> emit)
      : eod_(eod),
        in_front_(std::move(in_front)),
        windows_(windows),
        score_(std::move(score)),
        emit_(std::move(emit)) {}

  // Takes a copy of the text.  When enough windows have come together they are scored, and
  // `emit` is called for each text that is complete.  Exit::bad_data if a score is not finite.
  void add(const EvalText& text);
  void finish();  // scores and emits what is left

 private:
  struct Text {
    std::vector<std::int32_t> ids;
    TextScore score;
  };
  struct Pending {
    Text* text;
    Window window;
  };
  void flush();
  void emit_front();

  bool is_context(std::int32_t token) const;

  std::int32_t eod_;
  std::vector<std::int32_t> in_front_;
  Windows windows_;
  Score score_;
  std::function<void(const TextScore&)> emit_;
  std::deque<Text> texts_;  // not yet emitted; pending windows point into it
  std::vector<Pending> pending_;
  std::int64_t pending_tokens_ = 0;
};

}  // namespace mt
