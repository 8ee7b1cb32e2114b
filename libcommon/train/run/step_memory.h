// StepMemory: the bytes of a step, by lifetime (DESIGN D2).
#pragma once

#include <cstddef>
#include <vector>

namespace mt {

struct StepMemory {
  struct Chunk {
    std::size_t keep = 0, deferred = 0;  // of one slot
    int slots = 0;
    friend bool operator==(const Chunk&, const Chunk&) = default;
  };
  std::vector<Chunk> chunks = {};
  std::size_t layer = 0;

  std::size_t keep() const;  // of all slots
  std::size_t deferred() const;
  std::size_t total() const { return keep() + layer + deferred(); }
  friend bool operator==(const StepMemory&, const StepMemory&) = default;
};

}  // namespace mt
