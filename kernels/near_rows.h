// kernels/near_rows.h: the nearest of many vectors to each of some, on the CPU: products of codes
// of eight bits tell them from all that cannot be, and distances in f32 tell what is left.  A
// vector x less m, which is the same for all, is y and nearly s q with whole numbers q:
//   s = max |y| / 127;   q = the nearest to y / s;   e = y - s q
// so that for two, i and j (Cauchy and Schwarz),
//   |y_i y_j - s_i s_j (q_i q_j)| = |s_i q_i e_j + e_i y_j| <= |s_i q_i| |e_j| + |e_i| |y_j|
// The nearest j have the largest y_i y_j - |y_j|^2 / 2, or, where products tell what is near, the
// largest x_i x_j, with m = 0.  This gives each a lower and an upper bound, and a vector is left
// out where as many as are wanted have lower bounds above its upper one.  Bounds are wider by what
// sums in f32 lose at most, here and in a distance:
//   2 (columns / 16 + 32) 2^-23 (|y_i|^2 + |y_j|^2)
// and so wide that nothing is left out where numbers are not finite.  Sums of products of codes are
// exact: so what is found is what all distances in f32 tell, on any processor and by any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mt {

// Codes of the vectors that others are compared with.  Threads: those of the arena that calls.
struct RowCodes {
  static constexpr std::int64_t kTile = 64;  // vectors whose codes lie together
  // Whose sums of 127 * 255 have 31 bits; of more columns distances alone tell what is near.
  static constexpr std::int64_t kMostColumns = 65536;

  RowCodes() = default;
  // vectors: [rows, columns].  inner: what has large products is near.
  RowCodes(const float* vectors, std::int64_t rows, std::int64_t columns, bool inner);
  std::int64_t depth() const { return (columns + 3) / 4; }

  std::int64_t rows = 0, columns = 0;
  bool inner = false;
  std::vector<float> middle = {};  // m: [columns]
  // q + 128: [tiles, depth, kTile, 4], columns 4 d to 4 d + 3 of a vector together.
  std::vector<std::uint8_t> codes = {};
  // Each vector has s, |y|^2 / 2 or 0, |e|, |y|, and the part of a bound that is its own; those
  // that fill the last tile are infinitely far.
  std::vector<float> scales = {}, halves = {}, errors = {}, lengths = {}, losses = {};
};

struct NearRows {
  const float* x = nullptr;  // [rows, columns]
  std::int64_t rows = 0;
  const float* vectors = nullptr;  // those of the codes
  const RowCodes* codes = nullptr;
  std::int64_t count = 1;  // of the nearest
};

}  // namespace mt

namespace mt::cpu {
// [rows, count]: numbers and distances, squared ones or less the products, the nearest first, of
// equal ones the smaller number; what is no number is infinitely far, and missing ones are -1.
void near_rows(std::int64_t* numbers, float* distances, const NearRows& problem);
void nearest_rows(std::int32_t* numbers, const NearRows& problem);  // [rows]: the first of these
// |a - b|^2 and a b: sums as loops.h adds.
float squared_distance(const float* a, const float* b, std::int64_t columns);
float inner_product(const float* a, const float* b, std::int64_t columns);
// [m, n]: the same of each row of a, [m, columns], and of b, [n, columns], on the calling thread.
void squared_distances(float* far, const float* a, std::int64_t m, const float* b, std::int64_t n,
                       std::int64_t columns);
// [count]: those of x and the rows of b that have these numbers.
void squared_distances_of(float* far, const float* x, const float* b, const std::int32_t* numbers,
                          std::int64_t count, std::int64_t columns);
}  // namespace mt::cpu
