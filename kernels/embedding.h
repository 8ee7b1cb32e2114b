// kernels/embedding.h: rows of a table by number, and the sum of gradients back into them.
//   forward    y[r,:] = (accumulate ? y[r,:] : 0) + table[ids[r],:]
//   backward   dtable[ids[r],:] += dy[r,:]                            rows in order
// The table holds words [first, first + vocab), all of them or, where ranks share them, a part:
// what is not there counts as zeros in the forward, and adds nothing.
// y, dy: [rows, cols];  table, dtable: [vocab, cols];  ids: [rows].  T: float or double; on the GPU
// float, bf16 or fp16, dtable float, or bf16 if dy is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct WordRange {
  std::int64_t first = 0, vocab = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, WordRange words, bool accumulate);
template <class T>
void embedding_backward(T* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols, WordRange words);
}  // namespace mt::cpu

// Backward sorts the rows by id, in time linear in their number, and adds equal ones up in parts
// that depend on ids and rows alone.
namespace mt::cuda {
template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, WordRange words, bool accumulate, cudaStream_t stream);
std::size_t embedding_backward_work(std::int64_t rows, std::int64_t cols);
template <class T, class G>
void embedding_backward(G* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols, WordRange words, void* work, cudaStream_t stream);
}  // namespace mt::cuda
