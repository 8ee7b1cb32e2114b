// RankMemory: the bytes that a rank needs, by lifetime.
#pragma once

#include <cstddef>

#include "train/run/step_memory.h"

namespace mt {

class JsonWriter;

// What nvidia-smi shows beyond what a run asked for: 560 MiB on an H200 with CUDA 13.0, by two runs
// of the 1.7B model (mt-performance(7)), with and without --recompute-granularity full.
inline constexpr std::size_t kCudaMemory = std::size_t{560} << 20;

struct RankMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0;
  std::size_t work = 0;   // scratch of a GPU's operations
  std::size_t copy = 0;   // of the model: what texts are drawn by beside what is trained
  std::size_t texts = 0;  // keys and values of such as are under way while steps learn
  // Its share of the experts that a step chose, until they are in a file, and of those that a file
  // has routers choose.
  std::size_t routes = 0;
  // These are of plans alone: what CUDA keeps of a GPU for itself, and what NCCL and copies among
  // GPUs take.
  std::size_t cuda = 0, nccl = 0, copies = 0;
  StepMemory step;
  std::size_t total() const {
    return parameters + gradients + optimizer + work + copy + texts + routes + cuda + nccl +
           copies + step.total();
  }
  void write(JsonWriter& json) const;  // an object
};

}  // namespace mt
