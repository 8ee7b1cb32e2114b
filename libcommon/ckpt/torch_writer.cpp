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

static void begin_archive(ZipWriter& zip, const PyValue& value) {
  zip.add("data.pkl", write_pickle(value));
  zip.add(".format_version", "1");
  zip.add(".storage_alignment", "64");
  zip.add("byteorder", "little");
}

static void end_archive(ZipWriter& zip) {
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
  ZipWriter zip(root, sink);
  begin_archive(zip, value);
  for (std::size_t i = 0; i < storages_.size(); ++i) zip.add(concat("data/", i), storages_[i]);
  end_archive(zip);
}

PyValue TorchStream::declare(DType dtype, const Shape& shape) {
  declared_.push_back({dtype, shape});
  return tensor_value(std::to_string(declared_.size() - 1), dtype, shape);
}

void TorchStream::begin(const PyValue& value, const std::string& root, const Sink& sink) {
  begin_archive(zip_.emplace(root, sink), value);
}

void TorchStream::add(ConstTensor tensor) {
  const Declared& declared = declared_.at(added_);
  if (tensor.dtype() != declared.dtype || !(tensor.shape() == declared.shape))
    fail(Exit::internal, "tensor ", added_, " of an archive is ", name_of(tensor.dtype()),
         tensor.shape(), ", declared as ", name_of(declared.dtype), declared.shape);
  zip_->add(concat("data/", added_++), bytes_of(tensor));
}

void TorchStream::append(Bytes elements) {
  if (elements.empty()) return;
  const std::uint64_t size = declared_.at(added_).bytes();
  if (appended_ == 0) zip_->begin(concat("data/", added_), size);
  zip_->append(elements);
  appended_ += elements.size();
  if (appended_ < size) return;
  ++added_;
  appended_ = 0;
}

void TorchStream::finish() {
  if (added_ != declared_.size())
    fail(Exit::internal, added_, " tensors in an archive for ", declared_.size());
  end_archive(*zip_);
}

void write_torch_tensor(ConstTensor tensor, const Sink& sink) {
  TorchStream stream;
  stream.begin(stream.declare(tensor.dtype(), tensor.shape()), "archive", sink);
  stream.add(tensor);
  stream.finish();
}

}  // namespace mt
