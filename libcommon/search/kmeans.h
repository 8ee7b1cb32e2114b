// K-means: centres of vectors, by Lloyd's algorithm with the constants of faiss's Clustering: at
// most kPointsPerCentre vectors for each centre, drawn by the seed; the first centres are distinct
// vectors, drawn too; a centre without vectors becomes one half of another's, which is drawn by how
// many it has (both move apart by kApart of themselves).  Vectors may have parts of as many
// columns, of which each has centres of its own, as if it were alone.  A GPU sees kPieceNumbers of
// the vectors at a time; where it has no room for all of them, they come anew in each round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/products.h"

namespace mt {

constexpr std::int64_t kPointsPerCentre = 256;
constexpr std::int64_t kPieceNumbers = 1LL << 30;

// The numbers 0 to count - 1 in an order that the seed draws.
std::vector<std::int64_t> drawn_order(std::int64_t count, std::uint64_t seed);

// Those rows of `vectors`, or all where they are at most `most`, that the seed draws.
std::vector<float> drawn_rows(std::span<const float> vectors, std::int64_t columns,
                              std::int64_t most, std::uint64_t seed);

struct KMeans {
  std::int64_t centres = 0, columns = 0, parts = 1;  // parts divide the columns
  int iterations = 25;
  std::uint64_t seed = 1234;
  std::vector<float> begin = {};  // the first centres; empty: drawn
  std::int64_t piece_numbers = kPieceNumbers;
  bool pieces_stay = true;  // where products are made, if there is room for all
};

// [parts, centres, columns / parts]; there are at least as many vectors as centres.
std::vector<float> k_means(const KMeans& options, std::span<const float> vectors,
                           Products& products);
// The centres are the same for vectors, [rows, columns], that are where products are made; they
// stay there if they are at most kPointsPerCentre for each centre.
std::vector<float> k_means(const KMeans& options, ConstTensor vectors, Products& products);

}  // namespace mt
