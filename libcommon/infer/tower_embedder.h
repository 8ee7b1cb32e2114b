// TowerEmbedder: vectors of texts by one of the towers of a trained model of two, by whose products
// queries find contexts.  On the CPU a text's depends neither on the number of threads nor on the
// texts beside it.  Not thread-safe but for checked().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/load_model.h"
#include "infer/encoder_pass.h"

namespace mt {

class TowerEmbedder {
 public:
  struct Options {
    bool of_contexts = false;  // else of queries
    std::int64_t batch = 128;  // texts of the longest kind at a time, of shorter ones more
    int threads = 0;           // of the CPU; 0: one a core
  };
  // The model, loaded as use() says, must outlive this.
  TowerEmbedder(const LoadedModel& loaded, const Options& options);

  static ModelUse use();

  std::int64_t columns() const { return columns_; }
  std::int64_t max_tokens() const { return pass_.max_tokens(); }
  // The ids of a text (text/bert/tower_text.h).  Exit::bad_data, behind `place`, for one that the
  // model has not.
  std::vector<std::int32_t> checked(std::vector<std::int32_t> ids, std::string_view place) const;
  // [texts, columns], of texts of 1 to max_tokens() ids.
  std::vector<float> embed(std::span<const std::vector<std::int32_t>> texts);

 private:
  std::int64_t vocab_size_, columns_;
  EncoderPass pass_;
};

}  // namespace mt
