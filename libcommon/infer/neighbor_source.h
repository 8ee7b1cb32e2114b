// NeighborSource: a database of chunks in which a Retro's neighbours are looked up while a text
// grows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mt {

class NeighborSource {
 public:
  virtual ~NeighborSource() = default;
  // The `count` chunks that are nearest to one of these tokens, nearest first; -1 behind the last.
  virtual std::vector<std::int64_t> find(std::span<const std::int32_t> chunk,
                                         std::int64_t count) = 0;
  // As training reads it: the tokens of a chunk and of those behind it, as many as there is room
  // for.
  virtual void read(std::int64_t chunk, std::span<std::int32_t> tokens) = 0;
};

}  // namespace mt
