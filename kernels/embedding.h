// kernels/embedding.h: rows of a table by number, and the sum of gradients back into them.
//   forward    y[r,:] = (accumulate ? y[r,:] : 0) + table[ids[r],:]
//   backward   dtable[ids[r],:] += dy[r,:]                            rows in order
//   part       the same where the table holds words [first, first + vocab) of a larger one: what is
//              not there is zeros in y, and adds nothing
// y, dy: [rows, cols];  table, dtable: [vocab, cols];  ids: [rows], 0 <= id < vocab (the caller
// checks), but for a part.  T: float or double; on the GPU float, bf16 or fp16, dtable float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, bool accumulate);
template <class T>
void embedding_backward(T* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols);
template <class T>
void embedding_part_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                            std::int64_t cols, std::int64_t first, std::int64_t vocab);
template <class T>
void embedding_part_backward(T* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                             std::int64_t cols, std::int64_t first, std::int64_t vocab);
}  // namespace mt::cpu

// Backward sorts the rows by id, in time linear in their number, and adds equal ones up in parts
// that depend on ids and rows alone.
namespace mt::cuda {
template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, bool accumulate, cudaStream_t stream);
std::size_t embedding_backward_work(std::int64_t rows, std::int64_t cols);
template <class T>
void embedding_backward(float* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols, std::int64_t vocab, void* work, cudaStream_t stream);
}  // namespace mt::cuda
