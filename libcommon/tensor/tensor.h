// Tensor and ConstTensor: views of contiguous row-major elements that somebody else owns (a Buffer
// or an Arena).  Copying one copies the view.  A default-constructed tensor is empty: it has no
// address.
//
// Devices: `cpu` is host memory; `cuda` a GPU's; `meta` has addresses but no memory, and operations
// on it check shapes and count work (DESIGN D3).
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace mt {

enum class Device : std::uint8_t { cpu, cuda, meta };

class ConstTensor {
 public:
  ConstTensor() = default;
  ConstTensor(const void* data, DType dtype, const Shape& shape, Device device = Device::cpu)
      : data_(const_cast<void*>(data)), shape_(shape), dtype_(dtype), device_(device) {}

  explicit operator bool() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  std::int64_t numel() const { return shape_.numel(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  const void* data() const { return data_; }

  template <class T>
  const T* as() const {
    assert(dtype_ == dtype_of<T>());
    return static_cast<const T*>(data_);
  }
  template <class T>
  std::span<const T> span() const {
    return {as<T>(), static_cast<std::size_t>(numel())};
  }

  ConstTensor reshape(const Shape& shape) const {
    assert(shape.numel() == numel());
    return {data_, dtype_, shape, device_};
  }
  ConstTensor rows(std::int64_t begin, std::int64_t end) const {  // [begin, end) of the first axis
    return {row_address(begin), dtype_, rows_shape(begin, end), device_};
  }

 protected:
  void* row_address(std::int64_t row) const {
    const std::int64_t elements = shape_[0] == 0 ? 0 : row * (numel() / shape_[0]);
    return static_cast<std::byte*>(data_) + elements * static_cast<std::int64_t>(size_of(dtype_));
  }
  Shape rows_shape(std::int64_t begin, std::int64_t end) const {
    assert(0 <= begin && begin <= end && end <= shape_[0]);
    return Shape(shape_.extents().subspan(1)).with_front(end - begin);
  }

  void* data_ = nullptr;
  Shape shape_{0};
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
};

class Tensor : public ConstTensor {
 public:
  Tensor() = default;
  Tensor(void* data, DType dtype, const Shape& shape, Device device = Device::cpu)
      : ConstTensor(data, dtype, shape, device) {}

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    assert(dtype_ == dtype_of<T>());
    return static_cast<T*>(data_);
  }
  template <class T>
  std::span<T> span() const {
    return {as<T>(), static_cast<std::size_t>(numel())};
  }
  Tensor reshape(const Shape& shape) const {
    assert(shape.numel() == numel());
    return {data_, dtype_, shape, device_};
  }
  Tensor rows(std::int64_t begin, std::int64_t end) const {
    return {row_address(begin), dtype_, rows_shape(begin, end), device_};
  }
};

}  // namespace mt
