// Products: what search computes of f32 matrices on the CPU, by this program's own products.  Rows
// are vectors, one behind the other.  No result depends on the number of threads.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tensor/stream.h"

namespace mt {

// Squared distance of two vectors of so many numbers.
float squared_distance(const float* a, const float* b, std::int64_t columns);
float inner_product(const float* a, const float* b, std::int64_t columns);

class Products {
 public:
  // threads: 0 is one a core.  `between` is called several times a second while nearest() works,
  // and what it throws ends that.
  explicit Products(
      int threads, std::function<void()> between = [] {});

  // [m, n] = a [m, columns] times b [n, columns], transposed.
  std::vector<float> dot(std::span<const float> a, std::span<const float> b, std::int64_t columns);
  // For each of `a` the row of `b` that is nearest by squared distance, the first of several; b has
  // at least one row.
  std::vector<std::int32_t> nearest(std::span<const float> a, std::span<const float> b,
                                    std::int64_t columns);

  void poll() const { between_(); }  // as nearest() does
  void run(const std::function<void()>& body) { stream_.run(body); }
  // body(i) for i in [0, count), several at a time.
  void each(std::int64_t count, const std::function<void(std::int64_t)>& body);

 private:
  Stream stream_;
  std::function<void()> between_;
};

}  // namespace mt
