// kernels/tile_map.h: what the copy engine of Hopper (TMA) is told of a tensor.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace mt::cuda {

// A tensor of five indices, the first that of neighbours, and the box of it that one copy brings to
// shared memory, where its rows of 64 elements are swizzled (hopper.cuh).  What a box has outside
// the tensor reads as 0 and is not written.  strides: elements from one to the next of the second
// index and those behind it, multiples of 8.
struct TiledTensor {
  const __nv_bfloat16* data;
  std::int64_t sizes[5], strides[4];
  int box[5];
};
CUtensorMap tile_map(const TiledTensor& tensor);

}  // namespace mt::cuda
