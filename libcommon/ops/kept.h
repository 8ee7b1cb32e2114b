// What Adam keeps, moments and masters, in host memory, whatever it is kept in (kernels/adam.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "base/half.h"
#include "kernels/adam.h"
#include "tensor/host_copy.h"
#include "tensor/tensor.h"

namespace mt {

// Whether what is kept in this type has a scale for each parameter.
constexpr bool is_scaled(DType dtype) { return dtype == DType::f16 || dtype == DType::f8; }

// The scale with which elements of which none is larger are kept; 1 if they are not scaled.
inline float kept_scale_of(DType dtype, double largest) {
  if (!is_scaled(dtype)) return 1;
  const float range = dtype == DType::f16 ? kFp16Range : kFp8Range;
  return kept_scale(static_cast<float>(largest), range);
}

// body(q), an empty number of the type that is kept in other than T.
template <class Body>
void with_narrow_type(DType dtype, const Body& body) {
  if (dtype == DType::bf16) return body(Bf16());
  if (dtype == DType::f16) return body(Fp16());
  if (dtype == DType::f8) return body(Fp8());
  fail(Exit::internal, "an optimizer keeps nothing in ", name_of(dtype));
}

// Some elements of what is kept, from `at` on, as T, float or double; and back, rounded.
template <class T>
void read_kept(std::span<T> to, const ConstTensor& kept, std::int64_t at, float scale) {
  if (kept.dtype() == dtype_of<T>()) {
    std::copy_n(kept.as<T>() + at, to.size(), to.begin());
    return;
  }
  with_narrow_type(kept.dtype(), [&]<class Q>(Q) {
    const auto* from = static_cast<const Q*>(kept.data()) + at;
    for (T& x : to) x = static_cast<float>(*from++) * scale;
  });
}
template <class T>
void write_kept(const Tensor& kept, std::int64_t at, std::span<const T> from, float scale) {
  if (kept.dtype() == dtype_of<T>()) {
    std::ranges::copy(from, kept.as<T>() + at);
    return;
  }
  const float inverse = 1 / scale;
  with_narrow_type(kept.dtype(), [&]<class Q>(Q) {
    auto* to = static_cast<Q*>(kept.data()) + at;
    for (const T x : from) *to++ = Q(static_cast<float>(x) * inverse);
  });
}

// All elements of a parameter as f32, and back, with the scale that they then have.  scale: [1] f32
// if they are scaled.
inline void read_all(std::span<float> to, const Tensor& kept, const Tensor& scale) {
  const float factor = scale ? HostCopy::of(scale).tensor().span<float>()[0] : 1;
  read_kept(to, HostCopy::of(kept).tensor(), 0, factor);
}
inline void write_all(const Tensor& kept, const Tensor& scale, std::span<const float> from) {
  float largest = 0;
  for (const float x : from) largest = std::max(largest, std::abs(x));
  const float factor = kept_scale_of(kept.dtype(), largest);
  const HostCopy here = HostCopy::for_writing(kept);
  write_kept(here.tensor(), 0, from, factor);
  here.upload();
  if (!scale) return;
  const HostCopy scale_here = HostCopy::for_writing(scale);
  scale_here.tensor().span<float>()[0] = factor;
  scale_here.upload();
}

}  // namespace mt
