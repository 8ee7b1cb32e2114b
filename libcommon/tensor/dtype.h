// DType: what an element of a tensor is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

struct __nv_bfloat16;  // CUDA's names of the types of 16 and 8 bits
struct __half;
struct __nv_fp8_e4m3;

namespace mt {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean, f8 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    default:
      return 1;
  }
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"float32", "float64", "float16",      "bfloat16",
                                         "int64",   "int32",   "int16",        "int8",
                                         "uint8",   "bool",    "float8_e4m3fn"};
  return kNames[static_cast<int>(dtype)];
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<__nv_bfloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<__half>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<__nv_fp8_e4m3>() {
  return DType::f8;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::u8;
}

// Whether weights may be of this type.
constexpr bool is_float(DType dtype) { return dtype <= DType::bf16; }

// What sums over elements of `dtype` are kept in: statistics, losses and gradients of parameters.
constexpr DType sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// body.operator()<T>() for the type T that computes in `dtype`: float or double.
template <class Body>
auto with_float_type(DType dtype, const Body& body) {
  if (dtype == DType::f32) return body.template operator()<float>();
  if (dtype == DType::f64) return body.template operator()<double>();
  fail(Exit::internal, "an operation got ", name_of(dtype), ", expected float32 or float64");
}

}  // namespace mt
