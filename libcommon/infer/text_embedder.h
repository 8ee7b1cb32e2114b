// TextEmbedder: embeddings of texts by a trained BERT.  A text's is the mean of the last hidden
// states of its tokens, those of [CLS] and [SEP] apart (zeros where it has no others), or what the
// model's pooler makes of [CLS].  On the CPU it depends neither on the number of threads nor on the
// texts beside it.  Not thread-safe but for ids().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/load_model.h"
#include "infer/bert_text.h"
#include "infer/encoder_pass.h"

namespace mt {

class TextEmbedder {
 public:
  struct Options {
    bool pooled = false;
    std::int64_t batch = 4;  // texts of the longest kind at a time, of shorter ones more
    int threads = 0;         // of the CPU; 0: one a core
  };
  // Exit::bad_config where the model has no pooler and that is asked for.  The model, loaded as
  // use() says, must outlive this.
  TextEmbedder(const LoadedModel& loaded, const Options& options);

  static ModelUse use();

  std::int64_t columns() const { return columns_; }
  std::int64_t max_tokens() const { return pass_.max_tokens(); }
  // [CLS] text [SEP].  Exit::bad_data, behind `place`, for a token that the model has not.
  std::vector<std::int32_t> ids(std::string_view text, std::string_view place) const;
  // The embeddings of texts of 2 to max_tokens() ids: [texts, columns].
  std::vector<float> embed(std::span<const std::vector<std::int32_t>> texts);

 private:
  std::vector<std::int32_t> asked_of(const std::vector<std::int32_t>& ids) const;

  bool pooled_;
  std::int64_t vocab_size_, columns_;
  BertText words_;
  EncoderPass pass_;
};

}  // namespace mt
