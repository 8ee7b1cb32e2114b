// What the operations share: shape checks, and the way to a device's kernel.
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

inline void check_shape(const char* operation, const char* name, const ConstTensor& tensor,
                        const Shape& expected) {
  if (!(tensor.shape() == expected))
    fail(Exit::internal, operation, ": ", name, " is ", tensor.shape(), ", expected ", expected);
}

// Counts on meta; elsewhere calls body.operator()<T>() on the stream, T being the dtype's type.
template <class Body>
void dispatch(const ConstTensor& like, const Cost& cost, Stream& stream, const Body& body) {
  if (like.device() == Device::meta) return stream.count(cost);
  stream.run([&] { with_float_type(like.dtype(), body); });
}

// The cost of an operation that reads and writes these tensors once.
template <class... Tensors>
Cost moves(const Tensors&... tensors) {
  return {.bytes = (static_cast<double>(tensors.bytes()) + ...)};
}

inline std::int64_t columns(const ConstTensor& tensor) { return tensor.shape()[-1]; }
inline std::int64_t row_count(const ConstTensor& tensor) {
  return columns(tensor) == 0 ? 0 : tensor.numel() / columns(tensor);
}

template <class T>
const T* or_null(const ConstTensor& tensor) {
  return tensor ? tensor.as<T>() : nullptr;
}

}  // namespace mt
