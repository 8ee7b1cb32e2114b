// TensorPart: which of the ranks that share every matrix this is, whether they share the rows
// between matrices, too (--sequence-parallel), and which of those that share experts.
#pragma once

#include <optional>

namespace mt {

// Which of so many ranks.
struct Share {
  int rank = 0, ranks = 1;
};

struct TensorPart {
  int rank = 0, ranks = 1;
  bool sequence_parallel = false;
  Share experts = {};  // of those that have other experts of a layer
  // This rank's place among those that have parts of the same experts' matrices, where these are
  // not the ranks above.
  std::optional<Share> expert_tensor = {};
};

}  // namespace mt
