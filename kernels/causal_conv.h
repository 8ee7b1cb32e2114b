// kernels/causal_conv.h: the convolution of a Mamba-2's mixer, and of one with the gated delta
// rule, of each channel by itself over the last `taps` tokens of its document, and its activation
// (arXiv:2405.21060, section 7).
//   u[t, c] = b[c] + sum_k w[c, k] x[t - (taps - 1) + k, c]      mixed[t, c] = u sigmoid(u)
// x is the part of `projected` that the shape says; tokens in front of the document, or, without
// documents, of the sequence, are zeros, or with a cache what the sequence had before.  That keeps
// the last taps - 1 tokens of x, the oldest first: cache [slots, taps - 1, channels]. Backward,
// with du = d_mixed sigmoid(u) (1 + u (1 - sigmoid(u))):
//   dx[t, c] = sum_k w[c, k] du[t + (taps - 1) - k, c]   over tokens of t's document
//   dw[c, k] += sum_t du[t, c] x[t - (taps - 1) + k, c]      db[c] += sum_t du[t, c]
// projected, d_projected: [tokens, shape.projected()], of which d_projected's part alone is
// written;  mixed, d_mixed: [tokens, channels];  w, dw: [channels, taps];  b, db: [channels], or
// null: there is none; first_key: [tokens] i32, where each token's document begins in its sequence,
// or null.  T: float or double.  On the GPU float, bf16 or fp16, sums in f32; dw and db are f32, or
// bf16 if T is, and are added up over parts of the tokens that depend on the shape, and on whether
// addresses are multiples of 16.  With one token a sequence the kernel reads w, b, slots, positions
// and the cache before the one queued ahead of it has ended (dependent.cuh), which must not be what
// writes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/mamba_shape.h"

namespace mt {

inline constexpr std::int64_t kMostTaps = 8;

// ConvShape: what the convolution has to know of a mixer's shape.
struct ConvShape {
  std::int64_t sequences, length, taps;
  std::int64_t mixed, projected, mixed_of_projected;  // columns of rows, and where x's begin

  // Shape: MambaShape or DeltaShape, which convert.
  template <class Shape>
  constexpr ConvShape(const Shape& s)  // NOLINT(google-explicit-constructor)
      : sequences(s.sequences),
        length(s.length),
        taps(s.taps),
        mixed(s.mixed()),
        projected(s.projected()),
        mixed_of_projected(s.mixed_of_projected()) {}

  constexpr std::int64_t tokens() const { return sequences * length; }
};

// ConvRows: where the rows of x lie that a token's sum is made of.
template <class T>
struct ConvRows {
  const T *cache, *projected;
  const std::int32_t* first_key;
  CacheSlots slots;
  ConvShape s;

  // Where the document of a sequence's t-th token begins in it.
  constexpr std::int64_t first(std::int64_t sequence, std::int64_t t) const {
    return first_key != nullptr ? first_key[sequence * s.length + t] : 0;
  }
  // The row `behind` tokens before that; null where it is no token of the document.
  constexpr const T* operator()(std::int64_t sequence, std::int64_t t, std::int64_t behind) const {
    const std::int64_t at = t - behind, begin = first(sequence, t), kept = s.taps - 1;
    if (at >= 0)
      return at < begin
                 ? nullptr
                 : projected + (sequence * s.length + at) * s.projected + s.mixed_of_projected;
    if (begin > 0 || cache == nullptr || slots.begins(sequence, s.length)) return nullptr;
    return cache + (slots.of(sequence) * kept + kept + at) * s.mixed;
  }
};

}  // namespace mt

namespace mt::cpu {
// The cache, unless null, is read and brought up to date.
template <class T>
void causal_conv_forward(T* mixed, T* cache, const T* projected, const T* w, const T* b,
                         const std::int32_t* first_key, const CacheSlots& slots,
                         const ConvShape& shape);
template <class T>
void causal_conv_backward(T* d_projected, T* dw, T* db, const T* d_mixed, const T* projected,
                          const T* w, const T* b, const std::int32_t* first_key,
                          const ConvShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void causal_conv_forward(T* mixed, T* cache, const T* projected, const T* w, const T* b,
                         const std::int32_t* first_key, const CacheSlots& slots,
                         const ConvShape& shape, cudaStream_t stream);
std::size_t causal_conv_backward_work(const ConvShape& shape);
template <class T, class G>
void causal_conv_backward(T* d_projected, G* dw, G* db, const T* d_mixed, const T* projected,
                          const T* w, const T* b, const std::int32_t* first_key,
                          const ConvShape& shape, void* work, cudaStream_t stream);
}  // namespace mt::cuda
