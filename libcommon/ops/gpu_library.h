// What operations on a GPU keep in their stream from one call to the next.
#pragma once

#include <vector>

#include "kernels/gemm.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace mt {

struct GpuLibrary : Stream::Kept {
  cuda::GemmLibrary gemm;

  // Sines and cosines of positions from 0 on (kernels/rope.h), for each set of frequencies that was
  // used.  None is ever given up: a model has at most two, which it uses in every pass, and its
  // teacher as many.
  struct RopeTable {
    std::vector<double> frequencies;
    double magnitude = 1;
    std::int64_t positions = 0;
    Buffer table = {};
  };
  std::vector<RopeTable> rope_tables;

  Buffer number;  // for the host
};

// A stream's own, made at first use.
inline GpuLibrary& gpu_library(Stream& stream) {
  if (!stream.kept()) stream.kept() = std::make_unique<GpuLibrary>();
  return static_cast<GpuLibrary&>(*stream.kept());
}

}  // namespace mt
