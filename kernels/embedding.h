// kernels/embedding.h: rows of a table by number, and the sum of gradients back into them.
//   forward    y[r,:] = (accumulate ? y[r,:] : 0) + table[ids[r],:]
//   backward   dtable[ids[r],:] += dy[r,:]                            rows in order
// y, dy: [rows, cols];  table, dtable: [vocab, cols];  ids: [rows], 0 <= id < vocab (the caller
// checks).  T: float or double.
#pragma once

#include <cstdint>

namespace mt::cpu {
template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, bool accumulate);
template <class T>
void embedding_backward(T* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols);
}  // namespace mt::cpu
