// Copies a hyper-rectangle of elements between two places in host memory, each with its strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace mt {

struct StridedCopy {
  Shape extents;                         // how many elements along each axis
  std::byte* to = nullptr;               // the first one; may be unaligned, as `from`
  std::vector<std::int64_t> to_strides;  // in elements
  const std::byte* from = nullptr;
  std::vector<std::int64_t> from_strides;
  DType to_dtype = DType::f32, from_dtype = DType::f32;  // equal, or of floating point
  bool swap_bytes = false;                               // the source has the other byte order
};

void run(const StridedCopy& copy);

// Row-major strides in elements, as PyTorch has them: extents of 0 count as 1.
std::vector<std::int64_t> row_major_strides(const Shape& shape);

}  // namespace mt
