// What the operations share: shape checks, and the way to a device's kernel.
#pragma once

#include <type_traits>

#include "kernels/cuda_types.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// Whether this is the kind of the library that runs on GPUs too.
#ifdef MT_WITH_CUDA
inline constexpr bool kWithCuda = true;
#else
inline constexpr bool kWithCuda = false;
#endif

inline void check_shape(const char* operation, const char* name, const ConstTensor& tensor,
                        const Shape& expected) {
  if (!(tensor.shape() == expected))
    fail(Exit::internal, operation, ": ", name, " is ", tensor.shape(), ", expected ", expected);
}

// body.operator()<T>() for the type T that a GPU computes with.
template <class Body>
void with_gpu_type(DType dtype, const Body& body) {
  if (dtype == DType::f32) return body.template operator()<float>();
  if (dtype == DType::bf16) return body.template operator()<__nv_bfloat16>();
  if (dtype == DType::f16) return body.template operator()<__half>();
  fail(Exit::internal, "an operation on a GPU got ", name_of(dtype),
       ", expected float32, bfloat16 or float16");
}

// Calls body.operator()<G>() with the type G of a gradient that a GPU adds to while it computes
// with T: float, or bf16 where T is that too.
template <class T, class Body>
void with_gradient_type(const ConstTensor& gradient, const Body& body) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    if (gradient.dtype() == DType::bf16) return body.template operator()<T>();
  body.template operator()<float>();
}

// Counts on meta; on the CPU calls cpu.operator()<T>() on the stream, T being the dtype's type; on
// a GPU gpu.operator()<T>(), which queues a kernel.
template <class Cpu, class Gpu>
void dispatch(Family family, const ConstTensor& like, const Cost& cost, Stream& stream,
              const Cpu& cpu, const Gpu& gpu) {
  if (like.device() == Device::meta) return stream.count(cost, family);
  const Stream::Working working(stream, family);
  if constexpr (kWithCuda)
    if (like.device() == Device::cuda) return with_gpu_type(like.dtype(), gpu);
  stream.run([&] { with_float_type(like.dtype(), cpu); });
}

// dispatch() for an operation that has no kernel for GPUs.
template <class Cpu>
void dispatch_cpu(Family family, const char* operation, const ConstTensor& like, const Cost& cost,
                  Stream& stream, const Cpu& cpu) {
  if (like.device() == Device::cuda) fail(Exit::internal, operation, ": not for GPUs");
  if (like.device() == Device::meta) return stream.count(cost, family);
  const Stream::Working working(stream, family);
  stream.run([&] { with_float_type(like.dtype(), cpu); });
}

// dispatch_cpu() for an operation that computes in float alone.
template <class Body>
void dispatch_floats(Family family, const char* operation, const ConstTensor& like,
                     const Cost& cost, Stream& stream, const Body& body) {
  if (like.dtype() != DType::f32)
    fail(Exit::internal, operation, ": of ", name_of(like.dtype()), ", expected float32");
  dispatch_cpu(family, operation, like, cost, stream, [&]<class T>() { body(); });
}

// Scratch for a kernel, bytes() of it; on meta it is noted that a GPU, which does not compute in
// f64, would need so much.
template <class Bytes>
void* gpu_work(const ConstTensor& like, Stream& stream, const Bytes& bytes) {
  if constexpr (kWithCuda)
    if (like.device() != Device::cpu && like.dtype() != DType::f64) return stream.work(bytes());
  return nullptr;
}

// gpu_work() of bytes.operator()<T>() bytes, where T is the type that a GPU computes with.
template <class Bytes>
void* typed_gpu_work(const ConstTensor& like, Stream& stream, const Bytes& bytes) {
  return gpu_work(like, stream, [&] {
    std::size_t size = 0;
    with_gpu_type(like.dtype(), [&]<class T>() { size = bytes.template operator()<T>(); });
    return size;
  });
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
