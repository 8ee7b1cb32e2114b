// kernels/turn.h: how positions turn channels on the CPU (rope.h, cached_qkv.h, cached_latents.h).
#pragma once

#include <cstdint>

namespace mt::cpu {

// to, which may be from: its pairs of channels turned.  They are neighbours where they are
// interleaved; else pair i is channels i and pairs + i.
template <class T>
void turn_pairs(T* to, const T* from, const T* cosine, const T* sine, std::int64_t pairs,
                bool interleaved) {
  const auto turn = [&](std::int64_t low, std::int64_t high, std::int64_t i) {
    const T a = from[low], b = from[high];
    to[low] = a * cosine[i] - b * sine[i];
    to[high] = b * cosine[i] + a * sine[i];
  };
  if (interleaved)
    for (std::int64_t i = 0; i < pairs; ++i) turn(2 * i, 2 * i + 1, i);
  else
    for (std::int64_t i = 0; i < pairs; ++i) turn(i, pairs + i, i);
}

}  // namespace mt::cpu
