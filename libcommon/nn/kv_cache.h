// KvCache: the keys and values of the tokens that a generation has seen, of several sequences, each
// in a slot of its own: one pair of tensors a layer.  Host memory is taken by the system as it
// fills.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/buffer.h"

namespace mt {

class KvCache {
 public:
  KvCache(Device device, DType dtype, std::int64_t layers, const Shape& shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    storage_ = Buffer(device, 2 * static_cast<std::size_t>(layers) * bytes);
    for (std::int64_t i = 0; i < 2 * layers; ++i)
      tensors_.push_back(storage_.tensor(dtype, shape, static_cast<std::size_t>(i) * bytes));
  }

  // The keys and the values of a layer, of the shape given: [slots, capacity, kv_heads, head_dim].
  Tensor keys(std::int64_t layer) const { return tensors_[static_cast<std::size_t>(2 * layer)]; }
  Tensor values(std::int64_t layer) const {
    return tensors_[static_cast<std::size_t>(2 * layer + 1)];
  }

 private:
  Buffer storage_;
  std::vector<Tensor> tensors_;
};

// What the sequences of a Step follow: their tokens in a cache, behind which the Step's own are
// put.
struct CachedPast {
  const KvCache* cache = nullptr;
  std::int64_t longest = 0;  // tokens of a sequence at most, those of the Step included
  // Each sequence's slot, and how many tokens it has, those of the Step included: [sequences] i32.
  ConstTensor slots = {}, lengths = {};
  // The slot of one sequence alone, which has `longest` tokens, instead of both.
  std::optional<std::int64_t> slot = {};
  // [tokens, rotary dimension]: rope_angles() of the Step's positions, where there is rotary
  // embedding.
  ConstTensor angles = {};
  bool interleaved = false;  // which channels an angle turns (kernels/rope.h)
};

}  // namespace mt
