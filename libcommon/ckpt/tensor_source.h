// TensorSource: named tensors in one or several files, whatever their format: which there are, and
// any part of any of them.  It knows no model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace mt {

// Bytes of one file that hold an item: the elements, or an archive of ckpt/torch_file.h.
struct ItemPlace {
  std::string file;  // below the checkpoint's folder
  std::uint64_t offset = 0, length = 0;
};

struct DistChunk {
  Shape offset, size;
  ItemPlace place;
};

struct DistTensor {
  std::string key;
  std::optional<DType> dtype;  // nothing: an element type that DType lacks
  std::string dtype_name;      // PyTorch's, as "float32"; where DType lacks it, as the file has it
  Shape shape;
  std::vector<DistChunk> chunks;  // tile the tensor
  // The tensor's own shape where `shape` is Megatron's reformulated one (v0.12 distributed
  // optimizer).
  std::optional<Shape> original_shape = {};

  const Shape& own_shape() const { return original_shape ? *original_shape : shape; }
};

// Elements as they lie in a mapped file, maybe unaligned.
struct MappedTensor {
  const MappedFile* file;
  ConstTensor tensor;

  // Their pages leave memory, until they are read again.
  void forget() const {
    file->forget({static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
  }
};

// Several threads may read at once.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual const std::string& path() const = 0;  // of a file or folder, for errors
  virtual const std::map<std::string, DistTensor>& tensors() const = 0;
  const DistTensor* find(const std::string& key) const;  // null if there is no such tensor
  // Exit::bad_data for a tensor that is not there or whose elements DType lacks.
  const DistTensor& at(const std::string& key) const;

  // Fills `out` (host memory) with the elements [offset, offset + out.shape()) of the tensor `key`,
  // in terms of its own_shape().  The element types are equal, or both are of floating point; then
  // values are rounded.  What was read of a mapped file leaves memory again.
  virtual void read_original(const std::string& key, const Shape& offset, Tensor out) const = 0;
  // The elements [offset, offset + shape) without copying them, where they lie one after another in
  // a mapped file; else nothing.
  virtual std::optional<MappedTensor> view(const std::string&, const Shape& /*offset*/,
                                           const Shape& /*shape*/) const {
    return {};
  }

 protected:
  // The tensor `key`, of which read_original(key, offset, out) may be asked; else Exit::bad_data.
  const DistTensor& readable(const std::string& key, const Shape& offset, ConstTensor out) const;
};

// Exit::bad_data unless [offset, offset + out.shape()) lies in `whole`.
void check_region(const std::string& where, const Shape& whole, const Shape& offset,
                  ConstTensor out);

// The first element of a tensor of this rank.
Shape origin_of(int rank);

// What a path names, by its content: a folder of Megatron's checkpoints or one of them
// (ckpt/megatron_checkpoint.h; RankTensors of the torch format, and of Meta's), a plain distributed
// checkpoint of PyTorch (ckpt/dist_checkpoint.h); a safetensors file (ckpt/safetensors.h), one of
// torch.save (ckpt/torch_tensors.h), an index that names several of either
// (ckpt/indexed_tensors.h), or a folder with the one that Hugging Face's names there:
// model.safetensors.index.json, model.safetensors, pytorch_model.bin.index.json or
// pytorch_model.bin, or llama.cpp's model.gguf (ckpt/gguf.h).  Exit::no_input or bad_data if it is
// none.
std::unique_ptr<TensorSource> open_tensors(const std::string& path);

// A safetensors file, one of torch.save or a GGUF file.
std::unique_ptr<TensorSource> open_tensor_file(const std::string& path);

}  // namespace mt
