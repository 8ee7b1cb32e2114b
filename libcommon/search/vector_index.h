// VectorIndex: vectors by whose codes the nearest of others are found, as faiss's indexes are: Flat
// keeps them as they are, an IVF parts them in lists around centres, of which a search visits a
// few, and keeps a product quantizer's codes of what they differ from the centres by, or all of
// them.  Rotations may stand in front.  make_index() makes one of faiss's index strings, and
// index_file.h reads and writes faiss's files.  Vectors are rows of f32, distances squared ones, or
// inner products where it is `inner`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "search/hnsw.h"
#include "search/product_quantizer.h"
#include "search/products.h"
#include "search/rotation.h"

namespace mt {

struct IndexSearch {
  std::int64_t count = 10;                     // neighbours of each vector
  std::optional<std::int64_t> lists = {};      // visited; absent: what the index says, 1
  std::optional<std::int64_t> ef_search = {};  // of a graph of centres; absent: as the index says
};

// Nearest first, of equal ones the smaller number; missing ones have -1 and the largest float.
struct FoundVectors {
  std::vector<std::int64_t> ids;  // [vectors, count]
  std::vector<float> distances;
};

struct FlatIndex {
  std::int64_t columns = 0;
  bool inner = false;
  std::vector<float> vectors = {};  // their numbers are their places

  FoundVectors search(std::span<const float> of, std::int64_t count, Products& products) const;
};

struct IvfIndex {
  struct List {
    std::vector<std::uint8_t> codes;
    std::vector<std::int64_t> ids;
  };
  bool trained = false;
  std::int64_t default_lists = 1;  // that a search visits
  FlatIndex centres;
  std::optional<Hnsw> graph = {};                  // of the centres
  std::optional<ProductQuantizer> quantizer = {};  // absent: codes are the vectors
  std::vector<List> lists = {};
  std::int64_t size = 0;
  std::vector<float> terms = {};  // of tables of distances: see search()

  std::int64_t code_size() const;
  void train(std::span<const float> vectors, Products& products);
  // The nearest centres of each, [vectors, count].
  FoundVectors near(std::span<const float> vectors, std::int64_t count,
                    std::optional<std::int64_t> ef_search, Products& products) const;
  std::vector<std::uint8_t> encode(std::span<const float> vectors, std::span<const std::int64_t> of,
                                   Products& products) const;
  FoundVectors search(std::span<const float> of, const IndexSearch& options, Products& products);

 private:
  void make_terms(Products& products);
};

class VectorIndex {
 public:
  std::vector<Rotation> rotations = {};  // the first in front
  std::variant<FlatIndex, IvfIndex> kind;

  std::int64_t columns() const;  // of its vectors
  std::int64_t size() const;
  std::int64_t next_id() const;  // behind the numbers of all its vectors
  bool trained() const;
  std::int64_t fewest_vectors() const;  // that it can be trained on
  // Exit::bad_config where there are fewer.  One that needs no training is as it was.
  void train(std::span<const float> vectors, Products& products);

  // What a vector is kept as: of an IVF the number of its list, little-endian, in as few bytes as
  // the largest has, and its code; else its numbers.  faiss's sa_encode().
  std::int64_t code_size() const;
  std::vector<std::uint8_t> encode(std::span<const float> vectors, Products& products) const;
  // Codes of vectors first, first + 1, …; in a Flat those are the next ones whatever `first` is.
  // Exit::bad_data for a code of a list that there is not.
  void add_codes(std::span<const std::uint8_t> codes, std::int64_t first);

  // Adds the vectors of another that was trained as this one, with numbers behind all that are
  // here.  False, and nothing is added, where it was not.
  bool merge(VectorIndex other);

  FoundVectors search(std::span<const float> of, const IndexSearch& options, Products& products);

 private:
  std::vector<float> rotated(std::span<const float> vectors, Products& products) const;
};

// An index of nothing, by squared distances, of faiss's index string: [OPQm[_d],]Flat or
// [OPQm[_d],]IVFn[_HNSWm],(Flat|PQm[x8]).  Exit::usage, beginning with `option`, for any other, and
// for parts that do not divide the columns, of which 0 are unknown as yet.
VectorIndex make_index(const std::string& option, const std::string& text, std::int64_t columns);

}  // namespace mt
