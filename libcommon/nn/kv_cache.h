// KvCache: what a generation keeps of the tokens that it has seen, for each layer what its kind
// needs: keys and values of tokens, in pages, of which each sequence has as many as it needs and
// several may have the same; and, with a slot for each sequence, what a layer read of a memory, or
// the states of a mixer that passes them on.  Host memory is taken by the system as it fills.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/buffer.h"

namespace mt {

// CacheRoom: how much a cache has room for.
struct CacheRoom {
  std::int64_t pages = 0, page_tokens = 0;  // of keys and values, and the tokens of each
  std::int64_t slots = 0;
  std::int64_t memory = 0;  // tokens of a memory
};

// CacheShape: what a layer keeps; what has no elements it does not.
struct CacheShape {
  Shape keys = {0};          // [pages, tokens, kv_heads, head_dim], and as many values
  Shape memory = {0, 0, 0};  // [slots, tokens, 2 heads head_dim], as its projection makes them
  Shape convolved = {0};     // [slots, taps - 1, channels]: the last that a convolution read
  Shape states = {0};        // [slots, heads, head_dim, state_dim], of the sum_dtype
};

class KvCache {
 public:
  KvCache(Device device, DType dtype, const std::vector<CacheShape>& layers) {
    std::size_t size = 0;
    for (const CacheShape& layer : layers)
      for (const auto& [shape, of] : {std::pair(layer.keys, dtype),
                                      {layer.keys, dtype},
                                      {layer.memory, dtype},
                                      {layer.convolved, dtype},
                                      {layer.states, sum_dtype(dtype)}})
        size += bytes(shape, of);
    storage_ = Buffer(device, size);
    std::size_t at = 0;
    const auto take = [&](const Shape& shape, DType of) {
      return storage_.tensor(of, shape, std::exchange(at, at + bytes(shape, of)));
    };
    for (const CacheShape& layer : layers)
      layers_.push_back({.keys = take(layer.keys, dtype),
                         .values = take(layer.keys, dtype),
                         .memory = take(layer.memory, dtype),
                         .convolved = take(layer.convolved, dtype),
                         .states = take(layer.states, sum_dtype(dtype))});
  }
  // All layers keep keys and values alone, of this shape.
  KvCache(Device device, DType dtype, std::int64_t layers, const Shape& keys)
      : KvCache(device, dtype,
                std::vector<CacheShape>(static_cast<std::size_t>(layers), {.keys = keys})) {}

  std::int64_t layers() const { return std::ssize(layers_); }
  const Tensor& keys(std::int64_t layer) const { return at(layer).keys; }
  const Tensor& values(std::int64_t layer) const { return at(layer).values; }
  const Tensor& memory(std::int64_t layer) const { return at(layer).memory; }
  const Tensor& convolved(std::int64_t layer) const { return at(layer).convolved; }
  const Tensor& states(std::int64_t layer) const { return at(layer).states; }

 private:
  struct Layer {
    Tensor keys, values, memory, convolved, states;
  };
  const Layer& at(std::int64_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  // Each begins where wide numbers and accesses of a GPU may.
  static std::size_t bytes(const Shape& shape, DType dtype) {
    return (static_cast<std::size_t>(shape.numel()) * size_of(dtype) + 255) / 256 * 256;
  }

  Buffer storage_;
  std::vector<Layer> layers_;
};

}  // namespace mt
