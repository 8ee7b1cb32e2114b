// What the numbers of a tensor are like, and how far two tensors differ.  Elements of any type that
// DType has count as double; sums are in double, in the order of the elements.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "ckpt/tensor_source.h"

namespace mt {

// Calls body(offset, shape) for hyper-rectangles that tile a tensor in row-major order, of at most
// `most` elements each.
void for_each_block(const Shape& whole, std::int64_t most,
                    const std::function<void(const Shape& offset, const Shape& shape)>& body);

// Each element, in order.
void to_doubles(ConstTensor tensor, std::vector<double>& numbers);

struct TensorNumbers {
  std::int64_t count = 0, nans = 0, infinities = 0, zeros = 0;
  double least = std::numeric_limits<double>::infinity();  // of finite elements, as all below
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0, sum_of_squares = 0;

  void add(double number);
  std::int64_t finite() const { return count - nans - infinities; }
  double mean() const { return sum / static_cast<double>(finite()); }
  double rms() const;
  void write(JsonWriter& json) const;  // members
};

TensorNumbers numbers_of(const TensorSource& source, const std::string& key);
TensorNumbers numbers_of(ConstTensor tensor);

bool is_finite(ConstTensor tensor);  // no NaN, no infinity; as fast as memory is read

// How many finite elements lie in each of `bins` equal parts of [least, most].
std::vector<std::int64_t> histogram_of(const TensorSource& source, const std::string& key,
                                       const TensorNumbers& numbers, std::size_t bins);

struct TensorDifference {
  std::int64_t count = 0, differing = 0;  // elements; a NaN equals a NaN
  double largest = 0;                     // |a - b|; NaN or infinity where only one is finite
  double sum_of_squares = 0, aa = 0, bb = 0, ab = 0;

  void add(double a, double b);
  double rms() const;                  // of a - b
  double cosine() const;               // of the angle between the two as vectors; 1 of equal ones
  void write(JsonWriter& json) const;  // members
};

}  // namespace mt
