// What tensor-parallel ranks do to rows of hidden states around the matrices that they share
// (Shoeybi et al.: arXiv:1909.08053; with shared rows Korthikanti et al.: arXiv:2205.05198).
//   column   a matrix cut by outputs reads all rows, which are gathered where they are shared
//   row      one cut by inputs gives each rank a part of a sum: all-reduced, or, where rows are
//            shared, reduced and scattered
// Backward does the other of the two.
//
// With Step::tensor_overlap shared rows travel a rank's part at a time, each while products of
// others are computed (Wang et al.: Overlap communication with dependent computation via
// decomposition, ASPLOS 2023).
#pragma once

#include "comm/group.h"
#include "nn/step.h"
#include "ops/ops.h"

namespace mt {

// all: [tokens, cols];  part: [rows, cols]
inline Pending gather_rows(Step& s, Tensor all, ConstTensor part) {
  return s.tensor->all_gather(all, part);
}

// Where a rank's part of a sum goes that is to become `out`, [rows, cols]: `out` itself, or, where
// rows are shared, scratch of [tokens, cols].
inline Tensor part_of_sum(Step& s, const Tensor& out) {
  return s.shares_rows() ? s.scratch({s.tokens.count(), out.shape()[1]}) : out;
}
inline Pending sum_parts(Step& s, Tensor out, Tensor part) {
  return s.shares_rows() ? s.tensor->reduce_scatter(out, part) : s.tensor->all_reduce(out);
}

// all: [tokens, cols], from this rank's part of its rows; and the product of which it is problem.a.
void gather_and_multiply(Step& s, const Matmul& problem, Tensor all, ConstTensor part);

// The product, and `sum` of it over ranks; problem.out is part_of_sum(sum).
void multiply_and_sum(Step& s, const Matmul& problem, Tensor sum);

}  // namespace mt
