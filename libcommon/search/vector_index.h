// VectorIndex: vectors by whose codes the nearest of others are found, as faiss's indexes are: Flat
// keeps them as they are, SQ some bits of each number, PQ codes of products, and an IVF parts them
// in lists around centres, of which a search visits a few, and keeps codes of what they differ from
// the centres by, or all of them.  Rotations may stand in front, and another index behind, which
// has finer codes of the same vectors, and says which of what was found are nearest.  make_index()
// makes one of faiss's index strings, and index_file.h reads and writes faiss's files.  Vectors are
// rows of f32, distances squared ones, or inner products where it is `inner`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/near_rows.h"
#include "search/hnsw.h"
#include "search/product_quantizer.h"
#include "search/products.h"
#include "search/rotation.h"
#include "search/scalar_quantizer.h"

namespace mt {

struct IndexSearch {
  std::int64_t count = 10;                     // neighbours of each vector
  std::optional<std::int64_t> lists = {};      // visited; absent: what the index says, 1
  std::optional<std::int64_t> ef_search = {};  // of a graph of centres; absent: as the index says
  std::optional<double> refine = {};           // Refinement::factor; absent: as the index says
};

// Nearest first, of equal ones the smaller number; missing ones have -1 and the largest float.
struct FoundVectors {
  std::vector<std::int64_t> ids;  // [vectors, count]
  std::vector<float> distances;
};

// How faiss's fast scan keeps an index's codes, and searches them: in files alone.
struct FastScan {
  static constexpr std::int64_t kBlock = 32,
                                kMostBlock = 160;  // which divides it; and what it may be
  std::int64_t block = kBlock;                     // vectors whose codes lie together
  std::int32_t way = 0;                            // of faiss's, which 0 leaves to it
  std::int64_t queries = 0;                        // together, likewise
  bool operator==(const FastScan&) const = default;
};

// The kinds of index.  They have the same members: size() counts vectors, width() is their columns,
// code_size() the bytes of one's code, and encode() gives codes, of vectors where products are
// made, that add_codes() takes, by several threads, those of the arena that calls, of vectors
// first, first + 1, …, which for those without lists are the next ones whatever `first` is.
// fewest_vectors() is how many it can be trained on.  merge() adds the vectors of another that was
// trained as this one, and is false, and adds nothing, where it was not.
struct FlatIndex {
  std::int64_t columns = 0;
  bool inner = false;
  std::vector<float> vectors = {};  // their numbers are their places
  mutable RowCodes coded = {};      // codes of them, which the first search makes

  std::int64_t size() const { return std::ssize(vectors) / columns; }
  std::int64_t width() const { return columns; }
  std::int64_t next_id() const { return size(); }
  std::int64_t code_size() const { return columns * static_cast<std::int64_t>(sizeof(float)); }
  bool is_trained() const { return true; }
  std::int64_t fewest_vectors() const { return 1; }
  void train(std::span<const float>, Products&) {}
  std::vector<std::uint8_t> encode(ConstTensor vectors, Products& products) const;
  void add_codes(std::span<const std::uint8_t> codes, std::int64_t first);
  bool merge(const FlatIndex& other);
  float distance(const float* vector, std::int64_t id) const;  // of one of its vectors
  FoundVectors search(std::span<const float> of, std::int64_t count, Products& products) const;
  FoundVectors search(std::span<const float> of, const IndexSearch& options,
                      Products& products) const {
    return search(of, options.count, products);
  }
};

struct ScalarIndex {
  ScalarQuantizer quantizer = {};
  std::vector<std::uint8_t> codes = {};  // their numbers are their places

  std::int64_t size() const { return std::ssize(codes) / code_size(); }
  std::int64_t width() const { return quantizer.columns; }
  std::int64_t next_id() const { return size(); }
  std::int64_t code_size() const { return quantizer.code_size(); }
  bool is_trained() const { return quantizer.trained(); }
  std::int64_t fewest_vectors() const { return 1; }
  void train(std::span<const float> vectors, Products& products);
  std::vector<std::uint8_t> encode(ConstTensor vectors, Products& products) const;
  void add_codes(std::span<const std::uint8_t> more, std::int64_t first);
  bool merge(const ScalarIndex& other);
  float distance(const float* vector, std::int64_t id) const;
  FoundVectors search(std::span<const float> of, const IndexSearch& options,
                      Products& products) const;
};

struct IvfIndex {
  struct List {
    std::vector<std::uint8_t> codes = {};
    std::vector<std::int64_t> ids = {};
    // What the first search makes of codes of products: what each adds to distances, the largest of
    // these by size, and the codes part by part (kernels/code_sums.h, kernels/nibble_sums.h).
    std::vector<float> terms = {};
    float largest_term = 0;
    std::vector<std::uint8_t> by_parts = {};
  };
  bool trained = false;
  // False: codes of products of the vectors, faiss's PQ, which are one list around zero, and whose
  // numbers are their places.
  bool in_lists = true;
  std::int64_t default_lists = 1;  // that a search visits
  FlatIndex centres = {};
  std::optional<Hnsw> graph = {};  // of the centres
  // It codes what vectors differ from the centres by; nothing: codes are the vectors.
  std::variant<std::monostate, ProductQuantizer, ScalarQuantizer> quantizer = {};
  bool of_whole = false;  // products' codes are of the vectors themselves
  std::optional<FastScan> fast =
      {};                        // products' codes of four bits are searched by tables of bytes
  std::int64_t wanted = 0;       // lists
  std::vector<List> lists = {};  // those, once it is trained
  std::int64_t count = 0;        // of vectors

  std::int64_t size() const { return count; }
  std::int64_t width() const { return centres.columns; }
  const ProductQuantizer* product() const { return std::get_if<ProductQuantizer>(&quantizer); }
  const ScalarQuantizer* scalar() const { return std::get_if<ScalarQuantizer>(&quantizer); }
  std::int64_t next_id() const;  // behind the numbers of all its vectors
  // The number of a list, little-endian, in as few bytes as the largest has, and what is in it.
  std::int64_t code_size() const;
  std::int64_t bytes_in_list() const;  // of a vector
  bool is_trained() const { return trained; }
  std::int64_t fewest_vectors() const;
  std::int64_t training_numbers(std::int64_t vectors) const;  // f32 where products are made
  void train(std::span<const float> vectors, Products& products);
  std::vector<std::uint8_t> encode(ConstTensor vectors, Products& products) const;
  // Exit::bad_data for a code of a list that there is not.
  void add_codes(std::span<const std::uint8_t> codes, std::int64_t first);
  bool merge(const IvfIndex& other);
  // The nearest centres of each, [vectors, count].
  FoundVectors near(std::span<const float> vectors, std::int64_t count,
                    std::optional<std::int64_t> ef_search, Products& products) const;
  FoundVectors search(std::span<const float> of, const IndexSearch& options, Products& products);

 private:
  // The lists of vectors, and what they differ from the lists' centres by, until the next call.
  struct Assigned {
    std::vector<std::int32_t> lists;
    Tensor residuals = {};
  };
  // By the graph, if there is one, on the CPU; a GPU compares all centres.
  Assigned assign(ConstTensor vectors, bool with_residuals, Products& products) const;
  void make_terms(Products& products);
  // What the first search makes of `fast` codes is made, and they are looked through.  coarse:
  // near() of the vectors.
  FoundVectors fast_search(std::span<const float> of, const FoundVectors& coarse,
                           std::int64_t count, Products& products);
};

// Finer codes of an index's vectors, by which the nearest of those that it finds are told.
struct Refinement {
  std::variant<FlatIndex, ScalarIndex> index;
  float factor = 1;  // times as many are found as are asked for
};

class VectorIndex {
 public:
  static constexpr std::int64_t kMostRotations = 16;  // made, and read
  std::vector<Rotation> rotations = {};               // the first in front
  std::variant<FlatIndex, ScalarIndex, IvfIndex> kind;
  std::optional<Refinement> refinement = {};  // of vectors as they come

  std::int64_t columns() const;  // of its vectors
  std::int64_t size() const;
  std::int64_t next_id() const;  // behind the numbers of all its vectors
  bool trained() const;
  bool has_gaps() const;                // vectors may have any numbers, not only their places
  std::int64_t fewest_vectors() const;  // that it can be trained on
  // Bytes that training on so many needs where products are made, but for smaller things.
  std::size_t training_bytes(std::int64_t vectors) const;
  // Exit::bad_config where there are fewer, Exit::out_of_memory, before any work, where a GPU has
  // no room.  One that needs no training is as it was.
  void train(std::span<const float> vectors, Products& products);

  // What a vector is kept as, faiss's sa_encode(): its kind's code, and that of its refinement.
  std::int64_t code_size() const;
  std::vector<std::uint8_t> encode(std::span<const float> vectors, Products& products) const;
  // The same of vectors where products are made, if codes are of these alone.
  bool encodes_there() const;
  std::vector<std::uint8_t> encode(ConstTensor vectors, Products& products) const;
  void add_codes(std::span<const std::uint8_t> codes, std::int64_t first);

  // Adds the vectors of another that was trained as this one, with numbers behind all that are
  // here.  False, and nothing is added, where it was not.
  bool merge(const VectorIndex& other);

  FoundVectors search(std::span<const float> of, const IndexSearch& options, Products& products);
  // Searches by another search of the kind, which is given vectors as they are rotated, some at a
  // time.
  using KindSearch = std::function<FoundVectors(std::span<const float>, const IndexSearch&)>;
  FoundVectors search_by(std::span<const float> of, const IndexSearch& options, Products& products,
                         const KindSearch& search) const;

 private:
  // By the first so many rotations; what is no copy of them lies in `memory`.
  std::span<const float> rotated(std::span<const float> vectors, std::size_t count,
                                 std::vector<float>& memory, Products& products) const;
  FoundVectors refined(std::span<const float> of, const FoundVectors& found, std::int64_t count,
                       Products& products) const;
};

// An index of nothing, by squared distances, of faiss's index string:
//   [PCA[W][R]d,|OPQm[_d],|L2norm,][IVFn[k|M][_HNSWm],]CODE[,RFlat|,Refine(CODE)]
// with Flat, SQ8, SQ6, SQ4, SQfp16, SQbf16, PQm[x8], PQmx4 or PQmx4fs[r][_b] for CODE, and several
// of the first, up to kMostRotations, one behind the other.  Exit::usage, beginning with `option`,
// for any other, and for parts that do not divide the columns, of which 0 are unknown as yet.
VectorIndex make_index(const std::string& option, const std::string& text, std::int64_t columns);

}  // namespace mt
