#include <cuda_fp8.h>

#include "kernels/adam.h"
#include "kernels/reduce.cuh"
#include "kernels/update.cuh"

namespace mt::cuda {

using fp8 = __nv_fp8_e4m3;

template <>
struct Pack<fp8, kUpdateWidth> {
  static constexpr int kWords = 1;
  std::uint32_t word[kWords];

  __device__ float operator[](int i) const {
    fp8 x;
    x.__x = static_cast<__nv_fp8_storage_t>(word[0] >> 8 * i);
    return static_cast<float>(x);
  }
  __device__ static Pack of(const float (&x)[kUpdateWidth]) {
    const auto two = [&](int i) -> std::uint32_t {
      return __nv_cvt_float2_to_fp8x2({x[i], x[i + 1]}, __NV_SATFINITE, __NV_E4M3);
    };
    return {{two(0) | two(2) << 16}};
  }
};

namespace {

template <class Q>
inline constexpr float kRange = 0;  // not scaled
template <>
inline constexpr float kRange<fp16> = kFp16Range;
template <>
inline constexpr float kRange<fp8> = kFp8Range;

template <class Q>
__device__ float scale_of(const Kept<Q>& kept, std::int64_t piece) {
  if constexpr (kRange<Q> == 0)
    return 1;
  else
    return kept.scales[piece];
}
// The inverse of the scale that a piece will have once its largest element is known.
template <class Q>
__device__ float inverse_scale_of(const Kept<Q>& kept, std::int64_t piece) {
  if constexpr (kRange<Q> == 0)
    return 1;
  else
    return 1 / kept_scale(kept.largest[piece], kRange<Q>);
}

// The formula.
template <class Master, class First, class Second, class G>
struct Formula {
  Kept<Master> p;
  Kept<First> m;
  Kept<Second> v;
  const G* g;
  bool has_copy;
  float beta1, rest1, beta2, rest2, eps;

  struct Rates {
    float gradient_scale, lr, decay, unbias1, unbias2, p_scale, m_scale, v_scale;
  };
  __device__ Rates rates_of(const UpdateChunk& chunk, const StepRecord& record) const {
    return {static_cast<float>(record.gradient_scale),
            static_cast<float>(record.learning_rate * chunk.lr_mult),
            static_cast<float>(record.weight_decay * chunk.decay_mult),
            1 / static_cast<float>(record.bias_correction1),
            1 / static_cast<float>(record.bias_correction2),
            scale_of(p, chunk.piece),
            scale_of(m, chunk.piece),
            scale_of(v, chunk.piece)};
  }

  // From now on element i of what is remembered is i + by; so are the masters', if p are such.
  __device__ void move_state(std::int64_t by) {
    m.values += by;
    v.values += by;
    if (has_copy) p.values += by;
  }

  template <int N>
  struct Loaded {
    Pack<Master, N> p;
    Pack<G, N> g;
    Pack<First, N> m;
    Pack<Second, N> v;
  };
  template <int N>
  __device__ Loaded<N> fetch(std::int64_t i) const {
    return {load<N>(p.values + i), load<N>(g + i), load<N>(m.values + i), load<N>(v.values + i)};
  }

  struct Next {
    float p, m, v;
  };
  template <int N>
  __device__ Next next(const Loaded<N>& at, int n, const Rates& rate) const {
    const float gradient = at.g[n] * rate.gradient_scale, old = at.p[n] * rate.p_scale;
    const float new_m = beta1 * (at.m[n] * rate.m_scale) + rest1 * gradient;
    const float new_v = beta2 * (at.v[n] * rate.v_scale) + rest2 * gradient * gradient;
    const float denominator = sqrtf(new_v * rate.unbias2) + eps;
    return {old - rate.lr * (new_m * rate.unbias1 / denominator + rate.decay * old), new_m, new_v};
  }
};

// The largest that of a chunk will be.
template <class Master, class First, class Second, class G>
struct Largest : Formula<Master, First, Second, G> {
  using Base = Formula<Master, First, Second, G>;
  struct Rates : Base::Rates {
    float largest_p = 0, largest_m = 0, largest_v = 0;
  };
  __device__ Rates rates(const UpdateChunk& chunk, const StepRecord& record) const {
    return {this->rates_of(chunk, record)};
  }
  template <int N>
  __device__ void update(std::int64_t, const typename Base::template Loaded<N>& at,
                         Rates& rate) const {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const typename Base::Next next = this->next(at, n, rate);
      rate.largest_p = fmaxf(rate.largest_p, fabsf(next.p));
      rate.largest_m = fmaxf(rate.largest_m, fabsf(next.m));
      rate.largest_v = fmaxf(rate.largest_v, next.v);
    }
  }
};

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Q>
__device__ void note_largest(const Kept<Q>& kept, std::int64_t piece, float largest) {
  if constexpr (kRange<Q> != 0) {
    largest = over_lanes(largest, 32, Larger());
    // Numbers that are not negative keep their order when their bits are read as integers.
    if (threadIdx.x % 32 == 0)
      atomicMax(reinterpret_cast<int*>(kept.largest + piece), __float_as_int(largest));
  }
}

template <class Rule>
__global__ __launch_bounds__(kUpdateThreads) void largest_kernel(Rule rule, bool wide,
                                                                 const UpdateChunk* chunks,
                                                                 const StepRecord* record) {
  if (record->gradient_scale == 0) return;  // skipped
  const UpdateChunk chunk = chunks[blockIdx.x];
  auto rates = rule.rates(chunk, *record);
  update_chunk(rule, rates, wide, chunk);
  note_largest(rule.p, chunk.piece, rates.largest_p);
  note_largest(rule.m, chunk.piece, rates.largest_m);
  note_largest(rule.v, chunk.piece, rates.largest_v);
}

template <class Master, class First, class Second, class T, class G>
struct Adam : Formula<Master, First, Second, G> {
  using Base = Formula<Master, First, Second, G>;
  T* copy;

  struct Rates : Base::Rates {
    float inverse_p_scale, inverse_m_scale, inverse_v_scale;
  };
  __device__ Rates rates(const UpdateChunk& chunk, const StepRecord& record) const {
    return {this->rates_of(chunk, record), inverse_scale_of(this->p, chunk.piece),
            inverse_scale_of(this->m, chunk.piece), inverse_scale_of(this->v, chunk.piece)};
  }
  template <int N>
  __device__ void update(std::int64_t i, const typename Base::template Loaded<N>& at,
                         const Rates& rate) const {
    float of_copy[N], new_p[N], new_m[N], new_v[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const typename Base::Next next = this->next(at, n, rate);
      of_copy[n] = next.p;
      new_p[n] = next.p * rate.inverse_p_scale;
      new_m[n] = next.m * rate.inverse_m_scale;
      new_v[n] = next.v * rate.inverse_v_scale;
    }
    store(this->p.values + i, new_p);
    store(this->m.values + i, new_m);
    store(this->v.values + i, new_v);
    if (copy) store(copy + i, of_copy);
  }
};

__global__ void take_scales_kernel(float* scales, float* largest, int pieces, float range,
                                   const StepRecord* record) {
  const int piece = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (piece >= pieces || record->gradient_scale == 0) return;
  scales[piece] = kept_scale(largest[piece], range);
  largest[piece] = 0;
}

}  // namespace

template <class Master, class First, class Second, class T, class G>
void adam(Kept<Master> p, Kept<First> m, Kept<Second> v, T* copy, const G* g,
          const UpdateChunk* chunks, std::int64_t chunk_count, const AdamOptions& options,
          const StepRecord* record, cudaStream_t stream) {
  if (chunk_count == 0) return;
  const auto in_float = [](double x) { return static_cast<float>(x); };
  const Formula<Master, First, Second, G> formula{p,
                                                  m,
                                                  v,
                                                  g,
                                                  copy != nullptr,
                                                  in_float(options.beta1),
                                                  in_float(1 - options.beta1),
                                                  in_float(options.beta2),
                                                  in_float(1 - options.beta2),
                                                  in_float(options.eps)};
  const bool wide = aligned(p.values, m.values, v.values, copy, g);
  if constexpr (kRange<Master> != 0 || kRange<First> != 0 || kRange<Second> != 0) {
    largest_kernel<<<static_cast<unsigned>(chunk_count), kUpdateThreads, 0, stream>>>(
        Largest<Master, First, Second, G>{formula}, wide, chunks, record);
    check(cudaGetLastError());
  }
  update_chunks(Adam<Master, First, Second, T, G>{formula, copy}, wide, chunks, chunk_count, record,
                stream);
}

template <class Q>
void take_scales(Kept<Q> kept, std::int64_t pieces, const StepRecord* record, cudaStream_t stream) {
  if (pieces == 0) return;
  constexpr int kThreads = 256;
  take_scales_kernel<<<static_cast<unsigned>(ceil_div(pieces, kThreads)), kThreads, 0, stream>>>(
      kept.scales, kept.largest, static_cast<int>(pieces), kRange<Q>, record);
  check(cudaGetLastError());
}
template void take_scales(Kept<fp16>, std::int64_t, const StepRecord*, cudaStream_t);
template void take_scales(Kept<fp8>, std::int64_t, const StepRecord*, cudaStream_t);

#define INSTANTIATE(Master, First, Second, T, G)                                                \
  template void adam(Kept<Master>, Kept<First>, Kept<Second>, T*, const G*, const UpdateChunk*, \
                     std::int64_t, const AdamOptions&, const StepRecord*, cudaStream_t)
#define INSTANTIATE_COPIES(First, Second)          \
  INSTANTIATE(float, First, Second, float, float); \
  INSTANTIATE(float, First, Second, bf16, float);  \
  INSTANTIATE(float, First, Second, fp16, float);  \
  INSTANTIATE(float, First, Second, bf16, bf16);   \
  INSTANTIATE(fp16, First, Second, bf16, float);   \
  INSTANTIATE(fp16, First, Second, fp16, float);   \
  INSTANTIATE(fp16, First, Second, bf16, bf16)
#define INSTANTIATE_SECOND(First)   \
  INSTANTIATE_COPIES(First, float); \
  INSTANTIATE_COPIES(First, bf16);  \
  INSTANTIATE_COPIES(First, fp16);  \
  INSTANTIATE_COPIES(First, fp8)
INSTANTIATE_SECOND(float);
INSTANTIATE_SECOND(bf16);
INSTANTIATE_SECOND(fp16);
INSTANTIATE_SECOND(fp8);

}  // namespace mt::cuda
