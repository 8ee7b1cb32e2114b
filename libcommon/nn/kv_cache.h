// KvCache: the keys and values of the tokens that a generation has seen: one pair of tensors a
// layer, in pages, of which each sequence has as many as it needs and several may have the same;
// and where layers attend to a memory, too, one tensor of what they read of it, with a slot for
// each sequence.  Host memory is taken by the system as it fills.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/buffer.h"

namespace mt {

class KvCache {
 public:
  // memory: of no elements where layers attend to none.
  KvCache(Device device, DType dtype, std::int64_t layers, const Shape& shape,
          const Shape& memory = {0}) {
    const auto bytes = [&](const Shape& of) {
      return static_cast<std::size_t>(of.numel()) * size_of(dtype);
    };
    storage_ =
        Buffer(device, static_cast<std::size_t>(layers) * (2 * bytes(shape) + bytes(memory)));
    std::size_t at = 0;
    const auto take = [&](const Shape& of) {
      return storage_.tensor(dtype, of, std::exchange(at, at + bytes(of)));
    };
    for (std::int64_t i = 0; i < layers; ++i)
      layers_.push_back({.keys = take(shape), .values = take(shape), .memory = take(memory)});
  }

  // The keys and the values of a layer, of the shape given: [pages, tokens, kv_heads, head_dim].
  const Tensor& keys(std::int64_t layer) const { return at(layer).keys; }
  const Tensor& values(std::int64_t layer) const { return at(layer).values; }
  // Its keys and values of memories, as its projection makes them: [slots, capacity, 2 heads
  // head_dim].
  const Tensor& memory(std::int64_t layer) const { return at(layer).memory; }

 private:
  struct Layer {
    Tensor keys, values, memory;
  };
  const Layer& at(std::int64_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }

  Buffer storage_;
  std::vector<Layer> layers_;
};

}  // namespace mt
