#include "kernels/causal_conv.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

// Tokens whose sums of dw and db are added up by themselves.
constexpr std::int64_t kTokens = 256;

// Makes u of a sequence's t-th token.
template <class T>
void sums(T* u, const ConvRows<T>& x, const T* w, const T* b, std::int64_t sequence,
          std::int64_t t) {
  const std::int64_t channels = x.s.mixed, taps = x.s.taps;
  if (b != nullptr)
    std::copy_n(b, channels, u);
  else
    std::fill_n(u, channels, T(0));
  for (std::int64_t k = 0; k < taps; ++k)
    if (const T* const row = x(sequence, t, taps - 1 - k))
      for (std::int64_t c = 0; c < channels; ++c) u[c] += w[c * taps + k] * row[c];
}

// The last tokens of a sequence, of those in the cache and its own, take the place of the first.
template <class T>
void keep(T* cache, const ConvRows<T>& x, std::int64_t sequence) {
  const std::int64_t kept = x.s.taps - 1, channels = x.s.mixed;
  for (std::int64_t i = 0; i < kept; ++i) {
    T* const to = cache + (x.slots.of(sequence) * kept + i) * channels;
    if (const T* const row = x(sequence, x.s.length - 1, kept - 1 - i))
      std::copy_n(row, channels, to);
    else
      std::fill_n(to, channels, T(0));
  }
}

}  // namespace

template <class T>
void causal_conv_forward(T* mixed, T* cache, const T* projected, const T* w, const T* b,
                         const std::int32_t* first_key, const CacheSlots& slots,
                         const ConvShape& s) {
  const std::int64_t channels = s.mixed;
  const ConvRows<T> x{cache, projected, first_key, slots, s};
  for_blocks(s.tokens(), rows_per_block(channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      T* const y = mixed + token * channels;
      sums(y, x, w, b, token / s.length, token % s.length);
      for (std::int64_t c = 0; c < channels; ++c) y[c] /= 1 + std::exp(-y[c]);
    }
  });
  if (cache == nullptr) return;
  for (std::int64_t i = 0; i < s.sequences; ++i) keep(cache, x, i);
}

template <class T>
void causal_conv_backward(T* d_projected, T* dw, T* db, const T* d_mixed, const T* projected,
                          const T* w, const T* b, const std::int32_t* first_key,
                          const ConvShape& s) {
  const std::int64_t channels = s.mixed, of_weights = channels * s.taps,
                     blocks = (s.tokens() + kTokens - 1) / kTokens;
  const ConvRows<T> x{nullptr, projected, first_key, {}, s};
  std::vector<T> du(static_cast<std::size_t>(s.tokens() * channels)),
      part(static_cast<std::size_t>(blocks * (of_weights + channels)));  // dw and db of each block
  for_blocks(s.tokens(), kTokens, [&](std::int64_t begin, std::int64_t end) {
    T* const part_w = part.data() + begin / kTokens * (of_weights + channels);
    T* const part_b = part_w + of_weights;
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t sequence = token / s.length, t = token % s.length;
      T* const d = du.data() + token * channels;
      sums(d, x, w, b, sequence, t);
      for (std::int64_t c = 0; c < channels; ++c) {
        const T sigmoid = 1 / (1 + std::exp(-d[c]));
        d[c] = d_mixed[token * channels + c] * sigmoid * (1 + d[c] * (1 - sigmoid));
        part_b[c] += d[c];
      }
      for (std::int64_t k = 0; k < s.taps; ++k)
        if (const T* const row = x(sequence, t, s.taps - 1 - k))
          for (std::int64_t c = 0; c < channels; ++c) part_w[c * s.taps + k] += d[c] * row[c];
    }
  });
  for_blocks(s.tokens(), kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t sequence = token / s.length, t = token % s.length;
      T* const dx = d_projected + token * s.projected + s.mixed_of_projected;
      std::fill_n(dx, channels, T(0));
      for (std::int64_t ahead = 0; ahead < s.taps && t + ahead < s.length; ++ahead) {
        if (x.first(sequence, t + ahead) > t) break;  // another document
        const T* const d = du.data() + (token + ahead) * channels;
        for (std::int64_t c = 0; c < channels; ++c)
          dx[c] += w[c * s.taps + s.taps - 1 - ahead] * d[c];
      }
    }
  });
  for (std::int64_t i = 0; i < blocks; ++i) {
    const T* const part_w = part.data() + i * (of_weights + channels);
    for (std::int64_t c = 0; c < of_weights; ++c) dw[c] += part_w[c];
    for (std::int64_t c = 0; db != nullptr && c < channels; ++c) db[c] += part_w[of_weights + c];
  }
}

#define INSTANTIATE(T)                                                                         \
  template void causal_conv_forward(T*, T*, const T*, const T*, const T*, const std::int32_t*, \
                                    const CacheSlots&, const ConvShape&);                      \
  template void causal_conv_backward(T*, T*, T*, const T*, const T*, const T*, const T*,       \
                                     const std::int32_t*, const ConvShape&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
