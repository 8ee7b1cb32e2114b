// TextEmbedder: embeddings of texts by a trained BERT, made of the last hidden states of its tokens
// (TextPooling).  On the CPU it depends neither on the number of threads nor on the
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

enum class TextPooling : std::uint8_t {
  words,  // the mean of those of its tokens, but of [CLS] and [SEP]; zeros where it has no others
  mean,   // the mean of all
  cls,    // that of [CLS]
  pooler  // what the model's pooler makes of that
};

class TextEmbedder {
 public:
  struct Options {
    TextPooling pooling = TextPooling::words;
    bool normalize = false;  // each has the length 1
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

  TextPooling pooling_;
  bool normalize_;
  std::int64_t vocab_size_, columns_;
  BertText words_;
  EncoderPass pass_;
};

}  // namespace mt
