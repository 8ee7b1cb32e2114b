// TensorPart: which of the ranks that share every matrix this is, and whether they share the rows
// between matrices, too (--sequence-parallel).
#pragma once

namespace mt {

struct TensorPart {
  int rank = 0, ranks = 1;
  bool sequence_parallel = false;
};

}  // namespace mt
