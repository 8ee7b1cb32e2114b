#include <algorithm>

#include "base/error.h"
#include "ckpt/strided_copy.h"
#include "ckpt/torch_file.h"
#include "ckpt/torch_types.h"

namespace mt {

static PyValue tensor_value(const std::string& key, DType dtype, const Shape& shape) {
  const auto* const known = std::find_if(std::begin(kStorageClasses), std::end(kStorageClasses),
                                         [&](const StorageClass& c) { return c.dtype == dtype; });
  PyValue storage = PyValue::persistent(PyValue::tuple(
      {"storage", PyValue::global("torch", known->name), key, "cpu", shape.numel()}));
  std::vector<PyValue> size(shape.extents().begin(), shape.extents().end());
  const std::vector<std::int64_t> steps = row_major_strides(shape);
  std::vector<PyValue> strides(steps.begin(), steps.end());
  return PyValue::call(
      PyValue::global("torch._utils", "_rebuild_tensor_v2"),
      {std::move(storage), 0, PyValue::tuple(std::move(size)), PyValue::tuple(std::move(strides)),
       false, PyValue::call(PyValue::global("collections", "OrderedDict"), {})});
}

static void write_archive(const PyValue& value, const std::vector<Bytes>& storages,
                          const std::string& root, const Sink& sink) {
  ZipWriter zip(root, sink);
  zip.add("data.pkl", write_pickle(value));
  zip.add(".format_version", "1");
  zip.add(".storage_alignment", "64");
  zip.add("byteorder", "little");
  for (std::size_t i = 0; i < storages.size(); ++i)
    zip.add("data/" + std::to_string(i), storages[i]);
  zip.add("version", "3\n");
  zip.add(".data/serialization_id", std::string(40, '0'));
  zip.finish();
}

static Bytes bytes_of(ConstTensor tensor) {
  if (tensor.device() != Device::cpu)
    fail(Exit::internal, "a tensor outside host memory cannot be written");
  return {static_cast<const std::byte*>(tensor.data()), tensor.bytes()};
}

PyValue TorchWriter::tensor(ConstTensor tensor) {
  const std::string key = std::to_string(storages_.size());
  storages_.emplace_back(as_text(bytes_of(tensor)));
  return tensor_value(key, tensor.dtype(), tensor.shape());
}

void TorchWriter::write(const PyValue& value, const std::string& root, const Sink& sink) const {
  std::vector<Bytes> storages;
  for (const std::string& storage : storages_) storages.push_back(as_bytes(storage));
  write_archive(value, storages, root, sink);
}

void write_torch_tensor(ConstTensor tensor, const Sink& sink) {
  write_archive(tensor_value("0", tensor.dtype(), tensor.shape()), {bytes_of(tensor)}, "archive",
                sink);
}

}  // namespace mt
