// Transform: how a weight of ours becomes a weight of another library, and back: a list of steps.
//   rows        of every run of `period` rows, the `count` rows from `first` on
//   sort        of every run of `period` rows the first `first`, of all the next `count`, then the
//               rest of all
//   swap        of every run of `period` rows, the `count` rows from `first` on and as many
//               behind them change places
//   deal        of all rows the first are dealt parts[0] to each of as many runs as there can be,
//               then the next parts[1] to each, and so on: the inverse of such a sort
//   exchange    rows [outer, inner, rest] become rows [inner, outer, rest]
//   transpose   exchanges the two axes
//   scale       every element times `factor`: a power of two, by which nothing is rounded
//   shift       `factor` is added to every element, and what does not fit is rounded
//   reshape     the same elements in another shape
// With `rows` theirs is a part of ours; the inverse writes exactly that part.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace mt {

struct Rearrange {
  enum class Kind : std::uint8_t {
    rows,
    sort,
    swap,
    deal,
    exchange,
    transpose,
    scale,
    shift,
    reshape
  } kind = Kind::transpose;
  std::int64_t period = 0, first = 0, count = 0;  // rows, sort, swap
  std::int64_t outer = 0, inner = 0;              // exchange
  double factor = 1;                              // scale, shift
  Shape shape = {};                               // reshape
  std::vector<std::int64_t> parts = {};           // deal
};

using Transform = std::vector<Rearrange>;

inline Rearrange pick_rows(std::int64_t period, std::int64_t first, std::int64_t count) {
  return {.kind = Rearrange::Kind::rows, .period = period, .first = first, .count = count};
}
inline Rearrange sort_rows(std::int64_t period, std::int64_t first, std::int64_t count) {
  return {.kind = Rearrange::Kind::sort, .period = period, .first = first, .count = count};
}
inline Rearrange swap_rows(std::int64_t period, std::int64_t first, std::int64_t count) {
  return {.kind = Rearrange::Kind::swap, .period = period, .first = first, .count = count};
}
inline Rearrange deal_rows(std::vector<std::int64_t> parts) {
  Rearrange deal{.kind = Rearrange::Kind::deal, .parts = std::move(parts)};
  for (const std::int64_t part : deal.parts) deal.period += part;
  return deal;
}
inline Rearrange exchange(std::int64_t outer, std::int64_t inner) {
  return {.kind = Rearrange::Kind::exchange, .outer = outer, .inner = inner};
}
inline Rearrange transpose() { return {}; }
inline Rearrange scale(double factor) { return {.kind = Rearrange::Kind::scale, .factor = factor}; }
inline Rearrange shift(double by) { return {.kind = Rearrange::Kind::shift, .factor = by}; }
inline Rearrange reshape(const Shape& shape) {
  return {.kind = Rearrange::Kind::reshape, .shape = shape};
}

// The shape that a tensor of `shape` has after `transform`.
Shape transformed_shape(const Transform& transform, Shape shape);

// Where theirs is some consecutive rows of ours, a tensor of `shape`, as they are: the first and
// the one after the last.
std::optional<std::pair<std::int64_t, std::int64_t>> consecutive_rows(const Transform& transform,
                                                                      const Shape& shape);

// theirs = transform(ours), on host memory; shapes must agree with transformed_shape().
void apply(const Transform& transform, Tensor theirs, ConstTensor ours);

// Writes `theirs` to where apply() would have read it from; the rest of `ours` stays.
void apply_inverse(const Transform& transform, Tensor ours, ConstTensor theirs);

}  // namespace mt
