// Hnsw: a graph of vectors in which the nearest of another are found by steps from neighbour to
// neighbour (Malkov, Yashunin, "Efficient and robust approximate nearest neighbor search using
// hierarchical navigable small world graphs", 2016), with faiss's layout of its lists.  Squared
// distances; the vectors are its owner's.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mt {

struct Hnsw {
  // Its lists, as a file has them.
  std::vector<double> probabilities;     // of a vector's top level
  std::vector<std::int32_t> cumulative;  // [levels + 1]: places of a vector's lists below a level
  std::vector<std::int32_t> levels;      // of each vector, at least 1
  std::vector<std::uint64_t> offsets = {0};  // [vectors + 1]: of its places
  std::vector<std::int32_t> neighbors;       // -1: none
  std::int32_t entry = -1, max_level = -1, ef_construction = 40, ef_search = 16;

  Hnsw() = default;
  explicit Hnsw(std::int64_t links);  // of a vector at each level, but for 0, which has twice those

  // Puts these vectors, [n, columns], into an empty graph.
  void build(std::span<const float> vectors, std::int64_t columns);

  using Found = std::pair<float, std::int32_t>;  // distance, vector
  // Those `count` vectors, or fewer, that are nearest, nearest first; found with a list of `ef`.
  std::vector<Found> search(std::span<const float> vectors, std::int64_t columns,
                            const float* vector, std::int64_t count, std::int64_t ef) const;

 private:
  std::span<std::int32_t> places(std::int32_t vector, std::int32_t level);
  std::span<const std::int32_t> places(std::int32_t vector, std::int32_t level) const;
  Found walk(std::span<const float> vectors, std::int64_t columns, const float* vector, Found from,
             std::int32_t level) const;
  std::vector<Found> around(std::span<const float> vectors, std::int64_t columns,
                            const float* vector, Found from, std::int32_t level,
                            std::size_t ef) const;
  void link(std::span<const float> vectors, std::int64_t columns, std::int32_t from,
            std::int32_t to, std::int32_t level);
};

}  // namespace mt
