// Products of numbers that are cast to a wider type before they are multiplied: to double as
// kernels/wide_product.h says; to f32, on a GPU, in scratch.
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

struct WideMatmul {
  Tensor out;                  // [m, n] = op(a) op(b) (+ out) (+ bias)
  ConstTensor a = {}, b = {};  // [m, k] and [k, n] after transposition
  bool transpose_a = false, transpose_b = false, accumulate = false;
  ConstTensor bias = {};  // [n] or empty
  // f64, or on a GPU f32: what all are cast to.  On the CPU they are f32; on a GPU b is of any type
  // that it computes with, and a and out of that or f32.
  DType sums = DType::f32;
  bool rows_alone = false;  // as Matmul's
};
void wide_matmul(const WideMatmul& problem, Stream& stream);

}  // namespace mt
