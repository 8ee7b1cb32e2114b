// A model in a GGUF file of llama.cpp's, of what formats/names/gguf.h names, as a ModelSource. What
// lies in blocks there is read as float32, or as it is.  Vectors, positions and routers, which are
// float32 there whatever the matrices are, count as of the matrices' type where that has all their
// numbers.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "ckpt/gguf.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/names/gguf.h"

namespace mt {

// The GGUF file that a path names: itself, or the model.gguf of a folder without config.json.
std::optional<std::string> find_gguf(const std::string& path);

class GgufSource : public HuggingFaceSource {
 public:
  GgufSource(const std::string& path, const ModelSourceOptions& options);

  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  void read_blocks(const Param& row, std::uint8_t* packed) const override;
  // Exit::bad_config for one that is there but has a problem.
  std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& others) const override;

 protected:
  std::vector<ForeignName> names_of(const Param& row) const override {
    if (lacking_.has(row.place)) return {};
    const auto joined = joined_gguf_qkv(architecture_, *config_, row);
    if (joined && tensors_->find(joined->name) != nullptr) return {*joined};
    return gguf_tensors(architecture_, *config_, row);
  }
  std::optional<StoredBlocks> stored_blocks_of(const DistTensor& tensor) const override;

 private:
  void take_frequencies(double attention_factor);

  std::string architecture_;
  std::set<std::string> exact_;  // tensors whose numbers dtype() has
};

}  // namespace mt
