// ChunkEmbedder: embeddings of chunks' texts, as Megatron-LM core_v0.12.1 makes them for Retro
// (tools/bert_embedding): a BERT's ids of a text, cut to a length with [CLS] and [SEP], a text
// without any being one padding; of these the mean (infer/text_embedder.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/threads.h"
#include "infer/text_embedder.h"
#include "model/config/launch_flags.h"
#include "tensor/device_options.h"

namespace mt {

class CommandLine;

struct ChunkEmbedderOptions {
  std::string load;
  std::int64_t batch = 128;
  std::optional<std::int64_t> max_length = {};  // ids; absent: 256, or all that the model takes
  DeviceOptions compute{.dtype = ""};           // completed
  TokenizerOptions tokenizer = {};              // in place of the model's and the project's
  LaunchFlags launch = {};                      // which the model must fit
  int threads = 0;
  void add_to(CommandLine& cl);  // all but the tokenizer and the launch flags
};

class ChunkEmbedder {
 public:
  // `tokenizer`: BERT's, for a model with which none travels.
  ChunkEmbedder(const ChunkEmbedderOptions& options, const TokenizerOptions& tokenizer);

  std::int64_t columns() const { return embedder_.columns(); }
  // A hash of what embeddings depend on: the model's values, its tokenizer, the length.
  const std::string& identity() const { return identity_; }
  // [texts, columns].
  std::vector<float> embed(std::span<const std::string> texts);

 private:
  std::vector<std::int32_t> ids_of(const std::string& text) const;

  Workers workers_;
  LoadedModel loaded_;
  TextEmbedder embedder_;
  std::int64_t max_length_;
  std::string identity_;
};

}  // namespace mt
