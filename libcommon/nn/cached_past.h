// CachedPast: what the sequences of a Step follow: their tokens in a cache, behind which the Step's
// own are put.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace mt {

class KvCache;

struct CachedPast {
  const KvCache* cache = nullptr;
  std::int64_t longest = 0;  // tokens of a sequence at most, those of the Step included
  bool repeats = false;      // a sequence may come several times, with a token more each time
  // Each sequence's pages, [sequences, pages] i32; its slot, and how many tokens it has, those of
  // the Step included: [sequences] i32.
  ConstTensor pages = {}, slots = {}, lengths = {};
  // Where layers attend to a memory in the cache, none has more tokens than this, and each has so
  // many: [sequences] i32.
  std::int64_t longest_memory = 0;
  ConstTensor memory_lengths = {};
  // The slot of one sequence alone, which has `longest` tokens and a memory of `longest_memory`,
  // instead of slots and lengths.
  std::optional<std::int64_t> slot = {};
  // [tokens, rotary dimension]: rope_angles() of the Step's positions, for each of the model's
  // tables of frequencies (Rotary).
  std::array<ConstTensor, 2> angles = {};
  bool interleaved = false;  // which channels an angle turns (kernels/rope.h)
};

}  // namespace mt
