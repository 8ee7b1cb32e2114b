// PlacedIndex: the vectors of a VectorIndex, or their codes, where products are made, and searches
// there: what is exact by a product of matrices, lists by kernels/list_scan.h.  It finds what the
// index itself finds on the CPU, but for what rounding makes nearer, and compares all centres of
// lists, where that may walk through a graph.  Codes of products are of eight bits, and of what
// vectors differ from centres by.  The index must not change meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/nearest.h"
#include "search/vector_index.h"

namespace mt {

class PlacedIndex {
 public:
  // Exit::bad_config where there are too many vectors, Exit::out_of_memory where a GPU has no room.
  PlacedIndex(const VectorIndex& index, Products& products);
  FoundVectors search(std::span<const float> of, const IndexSearch& options);

 private:
  void place(const FlatIndex& index);
  void place(const ScalarIndex& index);
  void place(const IvfIndex& index);
  void place_codes(std::span<const IvfIndex::List* const> lists);
  FoundVectors search(const FlatIndex& index, std::span<const float> of, std::int64_t count);
  FoundVectors search_lists(std::span<const float> of, std::int64_t visited, std::int64_t count);
  // Lists of vectors, i32 [rows, visited]: the nearest of `centres`.
  Tensor nearest_lists(ConstTensor x, std::int64_t visited);
  void scan(FoundVectors& found, std::int64_t first, ConstTensor x, ConstTensor which,
            std::span<const std::int64_t> sizes, std::int64_t count);
  // Memory of the object's own, with these values.
  template <class T>
  Tensor keep(std::span<const T> values, const Shape& shape);

  const VectorIndex& index_;
  Products& products_;
  std::vector<Buffer> memory_;
  Tensor centres_ = {}, halves_ = {};  // of the lists, or of a flat index the vectors
  CodeLists lists_ = {};
  const std::int32_t* numbers_ = nullptr;  // of codes: places in ids_, each of one code
  std::vector<std::int64_t> ids_ = {};     // of all vectors, sorted; an index may repeat some
  std::vector<std::int64_t> begins_ = {};  // of lists
};

// The index's own search on the CPU, and a placed one's on a GPU, but for products' codes of four
// bits or of whole vectors, which the CPU looks through in any case.
class IndexSearcher {
 public:
  IndexSearcher(VectorIndex& index, Products& products);
  FoundVectors search(std::span<const float> of, const IndexSearch& options);

 private:
  VectorIndex& index_;
  Products& products_;
  std::optional<PlacedIndex> placed_ = {};
};

}  // namespace mt
