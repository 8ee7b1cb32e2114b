#include "kernels/rms_norm.h"

#include "kernels/norm_backward.cuh"
#include "kernels/norm_forward.cuh"

namespace mt::cuda {

template <class T>
void rms_norm_forward(T* y, float* rstd, const T* x, const T* w, std::int64_t rows,
                      std::int64_t cols, double eps, cudaStream_t stream) {
  norm::forward<false, T>({y, nullptr, rstd, x, w, nullptr, rows, cols, static_cast<float>(eps)},
                          stream);
}

std::size_t rms_norm_backward_work(std::int64_t rows, std::int64_t cols) {
  return norm::backward_work(rows, cols, false);
}

template <class T, class G>
void rms_norm_backward(T* dx, G* dw, const T* add, const T* dy, const T* x, const float* rstd,
                       const T* w, std::int64_t rows, std::int64_t cols, void* work,
                       cudaStream_t stream) {
  norm::backward<false, T, G>(
      {dx, static_cast<float*>(work), add, dy, x, nullptr, rstd, w, rows, cols}, dw, nullptr,
      stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                              \
  template void rms_norm_backward(T*, G*, const T*, const T*, const T*, const float*, const T*, \
                                  std::int64_t, std::int64_t, void*, cudaStream_t)
#define INSTANTIATE(T)                                                                       \
  template void rms_norm_forward(T*, float*, const T*, const T*, std::int64_t, std::int64_t, \
                                 double, cudaStream_t);                                      \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
INSTANTIATE_BACKWARD(bf16, bf16);

}  // namespace mt::cuda
