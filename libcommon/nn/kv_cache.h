// KvCache: the keys and values of the tokens of one sequence that a generation has seen, one pair
// of tensors a layer.  Memory is taken by the system as it fills.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/buffer.h"

namespace mt {

class KvCache {
 public:
  KvCache(Device device, DType dtype, std::int64_t layers, std::int64_t max_length,
          std::int64_t kv_heads, std::int64_t head_dim)
      : max_length_(max_length) {
    const Shape shape{max_length, kv_heads, head_dim};
    const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    storage_ = Buffer(device, 2 * static_cast<std::size_t>(layers) * bytes);
    for (std::int64_t i = 0; i < 2 * layers; ++i)
      tensors_.push_back(storage_.tensor(dtype, shape, static_cast<std::size_t>(i) * bytes));
  }

  Tensor keys(std::int64_t layer) const { return tensors_[static_cast<std::size_t>(2 * layer)]; }
  Tensor values(std::int64_t layer) const {
    return tensors_[static_cast<std::size_t>(2 * layer + 1)];
  }
  std::int64_t max_length() const { return max_length_; }

  // Tokens that every layer holds; modules write behind them, the caller then moves on.
  std::int64_t length() const { return length_; }
  void advance(std::int64_t tokens) { length_ += tokens; }
  void clear() { length_ = 0; }

 private:
  Buffer storage_;
  std::vector<Tensor> tensors_;  // [max_length, kv_heads, head_dim] each
  std::int64_t max_length_, length_ = 0;
};

}  // namespace mt
