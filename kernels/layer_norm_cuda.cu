#include "kernels/layer_norm.h"

#include "kernels/norm_backward.cuh"
#include "kernels/norm_forward.cuh"

namespace mt::cuda {

template <class T>
void layer_norm_forward(T* y, float* mean, float* rstd, const T* x, const T* w, const T* b,
                        std::int64_t rows, std::int64_t cols, double eps, cudaStream_t stream) {
  norm::forward<true, T>({y, mean, rstd, x, w, b, rows, cols, static_cast<float>(eps)}, stream);
}

std::size_t layer_norm_backward_work(std::int64_t rows, std::int64_t cols) {
  return norm::backward_work(rows, cols, true);
}

template <class T, class G>
void layer_norm_backward(T* dx, G* dw, G* db, const T* add, const T* dy, const T* x,
                         const float* mean, const float* rstd, const T* w, std::int64_t rows,
                         std::int64_t cols, void* work, cudaStream_t stream) {
  norm::backward<true, T, G>({dx, static_cast<float*>(work), add, dy, x, mean, rstd, w, rows, cols},
                             dw, db, stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                             \
  template void layer_norm_backward(T*, G*, G*, const T*, const T*, const T*, const float*,    \
                                    const float*, const T*, std::int64_t, std::int64_t, void*, \
                                    cudaStream_t)
#define INSTANTIATE(T)                                                                             \
  template void layer_norm_forward(T*, float*, float*, const T*, const T*, const T*, std::int64_t, \
                                   std::int64_t, double, cudaStream_t);                            \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
INSTANTIATE_BACKWARD(bf16, bf16);

}  // namespace mt::cuda
