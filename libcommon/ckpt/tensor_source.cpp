#include "ckpt/tensor_source.h"

#include <filesystem>

#include "base/error.h"
#include "ckpt/gguf.h"
#include "ckpt/indexed_tensors.h"
#include "ckpt/megatron_checkpoint.h"
#include "ckpt/safetensors.h"
#include "ckpt/torch_pickles.h"
#include "ckpt/torch_tensors.h"

namespace mt {

namespace fs = std::filesystem;

const DistTensor* TensorSource::find(const std::string& key) const {
  const auto found = tensors().find(key);
  return found == tensors().end() ? nullptr : &found->second;
}

const DistTensor& TensorSource::at(const std::string& key) const {
  const DistTensor* const tensor = find(key);
  if (tensor == nullptr) fail(Exit::bad_data, path(), ": has no tensor ", key);
  if (!tensor->dtype)
    fail(Exit::bad_data, path(), ": ", key, ": elements of type ", tensor->dtype_name,
         " are not supported");
  return *tensor;
}

void check_region(const std::string& where, const Shape& whole, const Shape& offset,
                  ConstTensor out) {
  bool fits = offset.rank() == whole.rank() && out.shape().rank() == whole.rank();
  for (int axis = 0; fits && axis < whole.rank(); ++axis)
    fits = offset[axis] >= 0 && out.shape()[axis] <= whole[axis] &&
           offset[axis] <= whole[axis] - out.shape()[axis];
  if (!fits)
    fail(Exit::bad_data, where, ": has shape ", whole, ", expected one with ", out.shape(), " at ",
         offset);
  if (out.device() != Device::cpu) fail(Exit::internal, where, ": read to no host memory");
}

const DistTensor& TensorSource::readable(const std::string& key, const Shape& offset,
                                         ConstTensor out) const {
  const DistTensor& tensor = at(key);
  if (*tensor.dtype != out.dtype() && !(is_float(*tensor.dtype) && is_float(out.dtype())))
    fail(Exit::bad_data, path(), ": ", key, ": is ", tensor.dtype_name, ", expected ",
         name_of(out.dtype()));
  check_region(concat(path(), ": ", key), tensor.own_shape(), offset, out);
  return tensor;
}

Shape origin_of(int rank) {
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(rank), 0);
  return Shape(std::span<const std::int64_t>(zeros));
}

// --- Opening ------------------------------------------------------------------------------------

// The first eight bytes; zeros of a shorter file.
static std::string beginning_of(const std::string& path) {
  const File file = File::open_regular(path);
  std::byte first[8] = {};
  if (file.size() >= sizeof first) file.read_at(0, first);
  return std::string(as_text(first));
}

bool is_gguf_file(const std::string& path) { return is_gguf(beginning_of(path)); }

std::unique_ptr<TensorSource> open_tensor_file(const std::string& path) {
  const std::string beginning = beginning_of(path);
  if (beginning.starts_with("PK\3\4") || are_torch_pickles(as_bytes(beginning)))
    return std::make_unique<TorchTensors>(path);
  if (is_gguf(beginning)) return std::make_unique<GgufReader>(path);
  return std::make_unique<SafetensorsReader>(path);
}

// A safetensors file begins with the size of its header, of which the upper bytes are zero.
static std::unique_ptr<TensorSource> open_file(const std::string& path) {
  const std::string beginning = beginning_of(path);
  if (beginning.starts_with('{') && beginning.find('\0') == std::string::npos)
    return std::make_unique<IndexedTensors>(path);
  return open_tensor_file(path);
}

static std::unique_ptr<TensorSource> open_checkpoint(const std::string& folder) {
  if (detect_checkpoint_format(folder) == CheckpointFormat::torch)
    return std::make_unique<RankTensors>(folder);
  return std::make_unique<DistReader>(folder);
}

std::unique_ptr<TensorSource> open_tensors(const std::string& path) {
  if (!fs::is_directory(path)) return open_file(path);
  // In the order of transformers: one file goes before an index that was left of others.
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json", "model.gguf"})
    if (fs::exists(path + "/" + name)) return open_file(path + "/" + name);
  if (fs::exists(path + "/consolidated.00.pth")) return std::make_unique<RankTensors>(path);
  if (fs::exists(path + "/.metadata")) return open_checkpoint(path);
  if (const auto place = find_checkpoint(path)) return open_checkpoint(place->folder);
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin"})  // PEFT's
    if (fs::exists(concat(path, "/", name))) return open_file(concat(path, "/", name));
  if (fs::exists(path + "/config.json"))
    fail(Exit::no_input, path,
         ": has config.json, but no weights beside it; expected model.safetensors or "
         "pytorch_model.bin, or an index of several");
  fail(Exit::no_input, path, ": no checkpoint there");
}

}  // namespace mt
