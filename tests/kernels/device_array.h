// Arrays on a GPU for the tests of CUDA kernels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "kernels/gpu.h"

namespace mt::check {

inline void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) fail(Exit::internal, "CUDA: ", cudaGetErrorString(error));
}

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Why a test of T is skipped: there is no GPU, or none that has products of T; else null.
template <class T>
const char* skips() {
  if (!has_gpu()) return "no GPU";
  const bool bf16 = std::is_same_v<T, __nv_bfloat16>;
  return bf16 && cuda::code() == cuda::Code::turing ? "no products of bf16" : nullptr;
}

template <class T>
class DeviceArray {
 public:
  // Every byte 0xff: NaN in any floating-point type, so that what is not written is seen.
  explicit DeviceArray(std::size_t count) : count_(count) {
    check_cuda(cudaMalloc(&data_, bytes() + 16));
    check_cuda(cudaMemset(data_, 0xff, bytes()));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    check_cuda(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    check_cuda(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

}  // namespace mt::check
