// kernels/many_rows.h: what few_rows() does with more rows than few, of 16-bit types in whole units
// of 16 bytes.
#pragma once

#include <cuda_runtime.h>

#include "kernels/few_rows.h"

namespace mt::cuda::few {

// norm: as few_rows.h says, with its scratch.
template <class T, class C>
void many_rows(FewRows<T, C> problem, cudaStream_t stream);

namespace hopper {
// Without a norm, on Hopper, with the same bits; whether this takes the problem.
template <class C>
bool many_rows_fit(const FewRows<__nv_bfloat16, C>& problem);
template <class C>
void many_rows(const FewRows<__nv_bfloat16, C>& problem, cudaStream_t stream);
}  // namespace hopper

}  // namespace mt::cuda::few
