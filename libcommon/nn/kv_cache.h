// KvCache: what a generation keeps of the tokens that it has seen, for each layer what its kind
// needs: keys and values of tokens, in pages, of which each sequence has as many as it needs and
// several may have the same, or, of latent attention, what these are made of; and, with a slot for
// each sequence, what a layer read of a memory, or the states of a mixer that passes them on.  Host
// memory is taken by the system as it fills.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cached_codes.h"
#include "tensor/buffer.h"

namespace mt {

// CacheRoom: how much a cache has room for.
struct CacheRoom {
  std::int64_t pages = 0, page_tokens = 0;  // of keys and values or latents, and the tokens of each
  std::int64_t slots = 0;
  std::int64_t memory = 0;  // tokens of a memory
  std::int64_t ranks = 1;   // that share the heads, of which each keeps its own
  std::int64_t further =
      0;  // layers, of those that predict further tokens, that keep something, too
};

// CacheForm: whether keys and values are kept in eight bits (kernels/cached_codes.h), and their
// scales in each layer; those of layers behind the last are 1.
struct CacheForm {
  bool in_codes = false;
  std::vector<CacheScales> scales = {};
};

// CacheShape: what a layer keeps; what has no elements it does not.
struct CacheShape {
  Shape keys = {0};          // [pages, tokens, kv_heads, head_dim], and as many values
  Shape latents = {0};       // [pages, tokens, 1, turning + rank] (kernels/cached_latents.h)
  Shape before = {0};        // [pages, tokens, hidden_size]: states that the next token reads
  Shape choices = {0};       // [pages, tokens, 1, chosen] i32: experts that tokens go to
  Shape memory = {0, 0, 0};  // [slots, tokens, 2 heads head_dim], as its projection makes them
  Shape convolved = {0};     // [slots, taps - 1, channels]: the last that a convolution read
  Shape states = {0};        // [slots, heads, head_dim, state_dim], of the sum_dtype
  bool in_codes = false;     // keys and values, by these scales
  CacheScales scales = {};
};

class KvCache {
 public:
  struct Layer {
    Buffer storage;
    Tensor keys, values, latents, before, choices, memory, convolved, states;
    CacheScales scales = {};
  };

  KvCache(Device device, DType dtype, const std::vector<CacheShape>& layers)
      : device_(device), dtype_(dtype) {
    for (const CacheShape& layer : layers) layers_.push_back(made(layer));
  }
  // All layers keep keys and values alone, of this shape.
  KvCache(Device device, DType dtype, std::int64_t layers, const Shape& keys)
      : KvCache(device, dtype,
                std::vector<CacheShape>(static_cast<std::size_t>(layers), {.keys = keys})) {}

  // Makes one layer after the other anew where it has less room than asked for; copy(old, new)
  // moves what it has, so that there are never two of more than one layer.  Where memory ends, all
  // have what they had, the first of them in more room.
  template <class Copy>
  void grow(const std::vector<CacheShape>& layers, const Copy& copy) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& has = layers_[i];
      if (fits(layers[i].keys, has.keys) && fits(layers[i].latents, has.latents) &&
          fits(layers[i].before, has.before) && fits(layers[i].choices, has.choices) &&
          fits(layers[i].memory, has.memory) && fits(layers[i].convolved, has.convolved) &&
          fits(layers[i].states, has.states))
        continue;
      Layer larger = made(layers[i]);
      copy(has, std::as_const(larger));
      layers_[i] = std::move(larger);
    }
  }

  static std::size_t bytes(const std::vector<CacheShape>& layers, DType dtype) {
    std::size_t sum = 0;
    for (const CacheShape& layer : layers) sum += bytes(layer, dtype);
    return sum;
  }

  std::int64_t layers() const { return std::ssize(layers_); }
  const Tensor& keys(std::int64_t layer) const { return at(layer).keys; }
  const Tensor& values(std::int64_t layer) const { return at(layer).values; }
  const CacheScales& scales(std::int64_t layer) const { return at(layer).scales; }
  const Tensor& latents(std::int64_t layer) const { return at(layer).latents; }
  const Tensor& before(std::int64_t layer) const { return at(layer).before; }
  const Tensor& choices(std::int64_t layer) const { return at(layer).choices; }
  const Tensor& memory(std::int64_t layer) const { return at(layer).memory; }
  const Tensor& convolved(std::int64_t layer) const { return at(layer).convolved; }
  const Tensor& states(std::int64_t layer) const { return at(layer).states; }

 private:
  static bool fits(const Shape& shape, const Tensor& has) {
    for (std::int64_t i = 0; i < shape.rank(); ++i)
      if (shape[i] > has.shape()[i]) return false;
    return true;
  }
  Layer made(const CacheShape& layer) const {
    const DType of_sums = sum_dtype(dtype_);
    Buffer storage(device_, bytes(layer, dtype_));
    std::size_t at = 0;
    const auto take = [&](const Shape& shape, DType of) {
      return storage.tensor(of, shape, std::exchange(at, at + bytes(shape, of)));
    };
    const DType of_keys = layer.in_codes ? DType::f8 : dtype_;
    const Tensor keys = take(layer.keys, of_keys), values = take(layer.keys, of_keys),
                 latents = take(layer.latents, dtype_), before = take(layer.before, dtype_),
                 choices = take(layer.choices, DType::i32), memory = take(layer.memory, dtype_),
                 convolved = take(layer.convolved, dtype_), states = take(layer.states, of_sums);
    return {std::move(storage), keys,   values,      latents, before, choices, memory,
            convolved,          states, layer.scales};
  }
  const Layer& at(std::int64_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  static std::size_t bytes(const CacheShape& layer, DType dtype) {
    return 2 * bytes(layer.keys, layer.in_codes ? DType::f8 : dtype) + bytes(layer.latents, dtype) +
           bytes(layer.before, dtype) + bytes(layer.choices, DType::i32) +
           bytes(layer.memory, dtype) + bytes(layer.convolved, dtype) +
           bytes(layer.states, sum_dtype(dtype));
  }
  // Each begins where wide numbers and accesses of a GPU may.
  static std::size_t bytes(const Shape& shape, DType dtype) {
    return (static_cast<std::size_t>(shape.numel()) * size_of(dtype) + 255) / 256 * 256;
  }

  Device device_;
  DType dtype_;
  std::vector<Layer> layers_;
};

}  // namespace mt
