// TextReader: a model in float32 that reads sequences of a text, all of one length.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/model_source.h"
#include "model/pass.h"
#include "tensor/stream.h"

namespace mt {

// Sequences of tokens of the beginning of a text, each begun as the model's tokenizer begins a
// text: one behind another.
struct TextSequences {
  std::vector<std::int32_t> ids = {};
  std::int64_t length = 0, count = 0;

  std::span<const std::int32_t> at(std::int64_t i) const {
    return std::span(ids).subspan(static_cast<std::size_t>(i * length),
                                  static_cast<std::size_t>(length));
  }
};

struct TextOptions {
  std::string text;                           // a file
  std::int64_t size = 512, seq_length = 512;  // sequences at most, and tokens of each
  Device device = Device::cpu;
  bool device_was_given = false;  // else a GPU without room for the model is left aside
};

// `flag` stands in errors.  Exit::bad_config for a model without a tokenizer; Exit::bad_data for a
// file whose beginning is no text of a whole sequence.
TextSequences read_sequences(const ModelSource& source, const TextOptions& options,
                             const char* flag);

class TextReader {
 public:
  // `models` such readers are to lie in memory together.  Exit::bad_data for a model whose weights
  // are not finite.
  TextReader(const ModelSource& source, const TextOptions& options, Probe* probe = nullptr,
             int models = 1);

  const ParamTable& table() const { return model_->table(); }
  // The logits of what follows each of the last `rows` tokens, [rows, vocab_size], until the next
  // call.
  std::span<const float> read(std::span<const std::int32_t> tokens, std::int64_t rows);

 private:
  std::int64_t vocab_size_;
  std::unique_ptr<Model> model_;
  Stream stream_;
  Pass pass_;
  PassSize reserved_ = {.length = 0};
};

}  // namespace mt
