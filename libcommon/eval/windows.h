// Windows: the pieces of a text that a model sees one at a time, as Megatron's WIKITEXT103 task
// cuts them.  Window i begins at token i stride and holds up to length + 1 tokens, of which all but
// the last are inputs and all but the first are targets.  The first window scores all its targets,
// each later one only the `stride` at its end, so that a target has at least length - stride tokens
// before it; every target is scored once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mt {

struct Window {
  std::int64_t begin = 0;   // first token
  std::int64_t tokens = 0;  // targets + 1
  std::int64_t scored = 0;  // the last of its targets
  bool operator==(const Window&) const = default;
};

struct Windows {
  std::int64_t length = 0;  // inputs at most, at least 1
  std::int64_t stride = 0;  // 1 to length; length: the windows do not overlap

  // How many windows a text of `tokens` tokens has.  The last may have nothing left to score.
  std::int64_t count(std::int64_t tokens) const {
    return (std::max<std::int64_t>(tokens - 1 - stride, 0) + stride - 1) / stride + 1;
  }
  Window at(std::int64_t i, std::int64_t tokens) const {
    const std::int64_t begin = i * stride, seen = std::min(length + 1, tokens - begin);
    const std::int64_t context = i == 0 ? 0 : length - stride;
    return {begin, seen, std::max<std::int64_t>(0, seen - 1 - context)};
  }
};

}  // namespace mt
