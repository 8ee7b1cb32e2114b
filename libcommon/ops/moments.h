// Adam's moments in host memory, whatever they are kept in (kernels/adam.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/adam.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

namespace mt {

// Whether a moment of this type has a scale for each parameter.
constexpr bool is_scaled(DType dtype) { return dtype == DType::f16 || dtype == DType::f8; }

// The scale with which elements of which none is larger are kept; 1 if they are not scaled.
inline float moment_scale_of(DType dtype, double largest) {
  if (!is_scaled(dtype)) return 1;
  const float range = dtype == DType::f16 ? kFp16MomentRange : kFp8MomentRange;
  return moment_scale(static_cast<float>(largest), range);
}

// body(q), an empty number of the type that a moment of other than T is kept in.
template <class Body>
void with_narrow_type(DType dtype, const Body& body) {
  if (dtype == DType::bf16) return body(Bf16());
  if (dtype == DType::f16) return body(Fp16());
  if (dtype == DType::f8) return body(Fp8());
  fail(Exit::internal, "a moment of ", name_of(dtype));
}

// Some elements of a moment, from `at` on, as T, float or double; and back, rounded.
template <class T>
void read_moment(std::span<T> to, const ConstTensor& moment, std::int64_t at, float scale) {
  if (moment.dtype() == dtype_of<T>()) {
    std::copy_n(moment.as<T>() + at, to.size(), to.begin());
    return;
  }
  with_narrow_type(moment.dtype(), [&]<class Q>(Q) {
    const auto* from = static_cast<const Q*>(moment.data()) + at;
    for (T& x : to) x = static_cast<float>(*from++) * scale;
  });
}
template <class T>
void write_moment(const Tensor& moment, std::int64_t at, std::span<const T> from, float scale) {
  if (moment.dtype() == dtype_of<T>()) {
    std::ranges::copy(from, moment.as<T>() + at);
    return;
  }
  const float inverse = 1 / scale;
  with_narrow_type(moment.dtype(), [&]<class Q>(Q) {
    auto* to = static_cast<Q*>(moment.data()) + at;
    for (const T x : from) *to++ = Q(static_cast<float>(x) * inverse);
  });
}

}  // namespace mt
