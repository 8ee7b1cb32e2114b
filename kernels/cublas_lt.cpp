// The functions of cuBLASLt that kernels/gemm_cuda.cpp calls, each handed on to NVIDIA's library,
// which is opened by the first of them: so a program that computes on the CPU starts on a machine
// that has none.
#include <cublasLt.h>

#include "base/shared_library.h"

#define MT_TEXT_OF(number) #number
#define MT_LIBRARY(major) "libcublasLt.so." MT_TEXT_OF(major)

static void* in_library(const char* name) {
  static const mt::SharedLibrary library(
      {MT_LIBRARY(CUBLAS_VER_MAJOR), "/usr/local/cuda/lib64/" MT_LIBRARY(CUBLAS_VER_MAJOR),
       MT_CUDA_LIBRARIES "/" MT_LIBRARY(CUBLAS_VER_MAJOR)},
      "a GPU's products need this library of the CUDA Toolkit: name its folder in "
      "LD_LIBRARY_PATH, or take --device cpu");
  return library.symbol(name);
}

// NVIDIA's function of our function's type and name.
template <auto* kOurs>
static auto* theirs(const char* name) {
  static const auto found = reinterpret_cast<decltype(kOurs)>(in_library(name));
  return found;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return theirs<cublasLtGetStatusString>(__func__)(status);
}

size_t cublasLtGetVersion() { return theirs<cublasLtGetVersion>(__func__)(); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return theirs<cublasLtCreate>(__func__)(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return theirs<cublasLtDestroy>(__func__)(handle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return theirs<cublasLtMatrixLayoutCreate>(__func__)(layout, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return theirs<cublasLtMatrixLayoutDestroy>(__func__)(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  return theirs<cublasLtMatmulDescCreate>(__func__)(description, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return theirs<cublasLtMatmulDescDestroy>(__func__)(description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return theirs<cublasLtMatmulDescSetAttribute>(__func__)(description, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return theirs<cublasLtMatmulPreferenceCreate>(__func__)(preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return theirs<cublasLtMatmulPreferenceDestroy>(__func__)(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return theirs<cublasLtMatmulPreferenceSetAttribute>(__func__)(preference, attribute, value,
                                                                bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  return theirs<cublasLtMatmulAlgoGetHeuristic>(__func__)(handle, description, a, b, c, d,
                                                          preference, asked, results, found);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return theirs<cublasLtMatmulAlgoCheck>(__func__)(handle, description, a, b, c, d, algorithm,
                                                   result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  return theirs<cublasLtMatmulAlgoConfigGetAttribute>(__func__)(algorithm, attribute, value, bytes,
                                                                written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  return theirs<cublasLtMatmul>(__func__)(handle, description, alpha, a, a_layout, b, b_layout,
                                          beta, c, c_layout, d, d_layout, algorithm, workspace,
                                          workspace_bytes, stream);
}
