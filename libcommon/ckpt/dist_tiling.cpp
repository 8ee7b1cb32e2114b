#include <algorithm>

#include "base/error.h"
#include "ckpt/dist_metadata.h"

namespace mt {

static std::int64_t end_of(const DistChunk& chunk, int axis) {
  return chunk.offset[axis] + chunk.size[axis];
}

static bool overlap(const DistChunk& a, const DistChunk& b) {
  for (int axis = 0; axis < a.offset.rank(); ++axis)
    if (end_of(a, axis) <= b.offset[axis] || end_of(b, axis) <= a.offset[axis]) return false;
  return true;
}

// What is wrong with chunks of which two overlap.  They are split wherever an axis has a gap
// between them; what no axis splits (as a pinwheel of five) is compared pair by pair.
class OverlapSearch {
 public:
  explicit OverlapSearch(int rank) : rank_(rank) {}

  std::optional<std::string> run(std::span<const DistChunk*> chunks, int axis = 0, int unsplit = 0,
                                 int depth = 0) const {
    if (chunks.size() < 2) return {};
    if (unsplit == rank_ || depth == kMaxDepth) return pair_by_pair(chunks);
    std::sort(chunks.begin(), chunks.end(), [&](const DistChunk* a, const DistChunk* b) {
      return a->offset[axis] < b->offset[axis];
    });
    std::size_t begin = 0;
    std::int64_t reach = end_of(*chunks[0], axis);
    for (std::size_t i = 1; i <= chunks.size(); ++i) {
      if (i < chunks.size() && chunks[i]->offset[axis] < reach) {
        reach = std::max(reach, end_of(*chunks[i], axis));
        continue;
      }
      const bool whole = i - begin == chunks.size();
      auto wrong = run(chunks.subspan(begin, i - begin), (axis + 1) % rank_,
                       whole ? unsplit + 1 : 0, depth + 1);
      if (wrong) return wrong;
      begin = i;
      if (i < chunks.size()) reach = end_of(*chunks[i], axis);
    }
    return {};
  }

 private:
  static constexpr int kMaxDepth = 64;
  static constexpr std::size_t kMaxUnsplit = 1 << 14;

  static std::optional<std::string> pair_by_pair(std::span<const DistChunk*> chunks) {
    if (chunks.size() > kMaxUnsplit)
      return concat(chunks.size(), " chunks in no regular order, expected at most ", kMaxUnsplit);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (overlap(*chunks[i], *chunks[j]))
          return concat("chunks at ", chunks[j]->offset, " and ", chunks[i]->offset, " overlap");
    return {};
  }

  int rank_;
};

std::optional<std::string> why_not_tiling(const Shape& shape, std::span<const DistChunk> chunks) {
  std::vector<const DistChunk*> filled;
  std::int64_t covered = 0;
  bool fits = true;
  for (const DistChunk& chunk : chunks) {
    if (chunk.offset.rank() != shape.rank() || chunk.size.rank() != shape.rank())
      return concat("a chunk of ", chunk.size, " at ", chunk.offset, " in a tensor of ", shape);
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (chunk.size[axis] > shape[axis] || chunk.offset[axis] > shape[axis] - chunk.size[axis])
        return concat("a chunk of ", chunk.size, " at ", chunk.offset, " in a tensor of ", shape);
    fits = fits && !__builtin_add_overflow(covered, chunk.size.numel(), &covered);
    if (chunk.size.numel() > 0) filled.push_back(&chunk);
  }
  if (shape.rank() == 0) {
    if (chunks.size() == 1) return {};
    return concat(chunks.size(), " chunks for one element");
  }
  if (auto wrong = OverlapSearch(shape.rank()).run(filled)) return wrong;
  if (!fits || covered != shape.numel())
    return concat("chunks cover ", covered, " of ", shape.numel(), " elements");
  return {};
}

}  // namespace mt
