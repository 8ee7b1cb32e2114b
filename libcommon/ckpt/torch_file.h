// torch.save files: a zip archive (ckpt/zip.h) of the records, in this order,
//   data.pkl               the object, pickle protocol 2; storages are persistent ids
//                          ('storage', GLOBAL torch FloatStorage, key str, 'cpu', numel)
//   .format_version `1`, .storage_alignment `64`, byteorder `little`
//   data/0, data/1, ...    raw storages, by key
//   version `3\n`, .data/serialization_id (40 digits; zeros here, informative only)
// under one root folder: the file's base name without extension, or `archive` inside a .distcp.
// A tensor is torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad,
// OrderedDict()), offset and strides in elements.  Files of older releases are read, too
// (ckpt/torch_pickles.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ckpt/pickle.h"
#include "ckpt/zip.h"
#include "tensor/tensor.h"

namespace mt {

// A tensor inside an archive: where its elements lie.  Its bytes may be unaligned.
struct StoredTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::int64_t> strides;  // in elements, not negative
  Bytes bytes;                        // from the first element to the last one; views the archive
  bool big_endian = false;

  bool contiguous() const;         // row-major
  void copy_to(Tensor out) const;  // the same dtype and shape
  // The elements from `offset` on, as many as `out` takes; they must be there.  The element types
  // are equal or both of floating point.
  void copy_to(const Shape& offset, Tensor out) const;
  // copy_to() for a tensor of a mapped file, whose pages leave memory as soon as they are copied.
  void copy_once(const MappedFile& file, const Shape& offset, Tensor out) const;
};

// A tensor whose elements lie one after another.
StoredTensor dense(DType dtype, const Shape& shape, Bytes bytes);

// A file that lies in memory.  It must outlive the reader and every StoredTensor.
class TorchReader {
 public:
  TorchReader(Bytes file, std::string name);

  const PyValue& value() const { return value_; }
  Allowance& allowance() { return allowance_; }  // what is left of the file's

  // Whether `value` stands for a tensor, a parameter or a tensor with attributes.
  static bool is_tensor(const PyValue& value);
  // Which.  Exit::bad_data if it is none, does not fit its storage, or DType lacks its elements.
  StoredTensor tensor(const PyValue& value) const;

 private:
  struct Storage {
    Bytes bytes;
    std::string_view type;  // its class
    std::int64_t numel;     // the class's elements
  };
  Storage storage(const PyValue& value) const;

  std::string name_;
  Allowance allowance_;
  std::optional<ZipReader> zip_;           // of an archive
  std::map<std::string, Bytes> storages_;  // of an older file
  PyValue value_;
  bool big_endian_ = false;
};

// What torch.save would be given: a value, and the tensors that it refers to.
class TorchWriter {
 public:
  // A value that stands for a copy of `tensor` (host memory).
  PyValue tensor(ConstTensor tensor);
  void write(const PyValue& value, const std::string& root, const Sink& sink) const;

 private:
  std::vector<std::string> storages_;
};

// TorchStream: a file of torch.save whose tensors come one after another, when the value that
// refers to them is known: declare() all, begin(), add() each in the order of its declaration,
// finish().
class TorchStream {
 public:
  PyValue declare(DType dtype, const Shape& shape);  // a value that stands for the next tensor
  void begin(const PyValue& value, const std::string& root, const Sink& sink);
  void add(ConstTensor tensor);  // in host memory, as it was declared
  void append(Bytes elements);   // the next ones of a tensor that comes in pieces
  void finish();

 private:
  struct Declared {
    DType dtype;
    Shape shape;
    std::uint64_t bytes() const {
      return static_cast<std::uint64_t>(shape.numel()) * size_of(dtype);
    }
  };
  std::vector<Declared> declared_;
  std::size_t added_ = 0;
  std::uint64_t appended_ = 0;  // bytes of the tensor after those
  std::optional<ZipWriter> zip_;
};

// The archive of one tensor, as an item of a .distcp: its elements go straight to the sink.
void write_torch_tensor(ConstTensor tensor, const Sink& sink);

}  // namespace mt
