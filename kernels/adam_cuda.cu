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
inline constexpr float kRange<fp16> = kFp16MomentRange;
template <>
inline constexpr float kRange<fp8> = kFp8MomentRange;

template <class Q>
__device__ float scale_of(const Moment<Q>& moment, std::int64_t piece) {
  if constexpr (kRange<Q> == 0)
    return 1;
  else
    return moment.scales[piece];
}
// Of the scale that it will have.
template <class Q>
__device__ float inverse_scale_of(const Moment<Q>& moment, std::int64_t piece) {
  if constexpr (kRange<Q> == 0)
    return 1;
  else
    return 1 / moment_scale(moment.largest[piece], kRange<Q>);
}

template <class First, class Second, class G>
struct Moments {
  Moment<First> m;
  Moment<Second> v;
  const G* g;
  float beta1, rest1, beta2, rest2;

  __device__ void move_state(std::int64_t by) {
    m.values += by;
    v.values += by;
  }
  template <int N>
  struct Loaded {
    Pack<G, N> g;
    Pack<First, N> m;
    Pack<Second, N> v;
  };
  template <int N>
  __device__ Loaded<N> fetch(std::int64_t i) const {
    return {load<N>(g + i), load<N>(m.values + i), load<N>(v.values + i)};
  }
  __device__ float next_m(float old, float gradient) const {
    return beta1 * old + rest1 * gradient;
  }
  __device__ float next_v(float old, float gradient) const {
    return beta2 * old + rest2 * gradient * gradient;
  }
};

// The largest that the moments of a chunk will be.
template <class First, class Second, class G>
struct Largest : Moments<First, Second, G> {
  struct Rates {
    float gradient_scale, m_scale, v_scale, first, second;
  };
  __device__ Rates rates(const UpdateChunk& chunk, const StepRecord& record) const {
    return {static_cast<float>(record.gradient_scale), scale_of(this->m, chunk.piece),
            scale_of(this->v, chunk.piece), 0, 0};
  }
  template <int N>
  __device__ void update(std::int64_t, const typename Moments<First, Second, G>::Loaded<N>& at,
                         Rates& rate) const {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float gradient = at.g[n] * rate.gradient_scale;
      rate.first = fmaxf(rate.first, fabsf(this->next_m(at.m[n] * rate.m_scale, gradient)));
      rate.second = fmaxf(rate.second, this->next_v(at.v[n] * rate.v_scale, gradient));
    }
  }
};

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Q>
__device__ void note_largest(const Moment<Q>& moment, std::int64_t piece, float largest) {
  if constexpr (kRange<Q> != 0) {
    largest = over_lanes(largest, 32, Larger());
    // As integers numbers that are not negative have their order.
    if (threadIdx.x % 32 == 0)
      atomicMax(reinterpret_cast<int*>(moment.largest + piece), __float_as_int(largest));
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
  note_largest(rule.m, chunk.piece, rates.first);
  note_largest(rule.v, chunk.piece, rates.second);
}

template <class First, class Second, class T, class G>
struct Adam : Moments<First, Second, G> {
  float* p;
  T* copy;
  float eps;

  struct Rates {
    float gradient_scale, lr, decay, unbias1, unbias2;
    float m_scale, v_scale, inverse_m_scale, inverse_v_scale;
  };
  __device__ Rates rates(const UpdateChunk& chunk, const StepRecord& record) const {
    return {static_cast<float>(record.gradient_scale),
            static_cast<float>(record.learning_rate * chunk.lr_mult),
            static_cast<float>(record.weight_decay * chunk.decay_mult),
            1 / static_cast<float>(record.bias_correction1),
            1 / static_cast<float>(record.bias_correction2),
            scale_of(this->m, chunk.piece),
            scale_of(this->v, chunk.piece),
            inverse_scale_of(this->m, chunk.piece),
            inverse_scale_of(this->v, chunk.piece)};
  }

  // From now on element i of what is remembered is i + by; so are the masters', if p are such.
  __device__ void move_state(std::int64_t by) {
    Moments<First, Second, G>::move_state(by);
    if (copy) p += by;
  }

  template <int N>
  struct Loaded {
    Pack<float, N> p;
    typename Moments<First, Second, G>::Loaded<N> moments;
  };
  template <int N>
  __device__ Loaded<N> fetch(std::int64_t i) const {
    return {load<N>(p + i), Moments<First, Second, G>::template fetch<N>(i)};
  }
  template <int N>
  __device__ void update(std::int64_t i, const Loaded<N>& at, const Rates& rate) const {
    float new_p[N], new_m[N], new_v[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float gradient = at.moments.g[n] * rate.gradient_scale;
      const float m = this->next_m(at.moments.m[n] * rate.m_scale, gradient);
      const float v = this->next_v(at.moments.v[n] * rate.v_scale, gradient);
      const float denominator = sqrtf(v * rate.unbias2) + eps;
      new_p[n] = at.p[n] - rate.lr * (m * rate.unbias1 / denominator + rate.decay * at.p[n]);
      new_m[n] = m * rate.inverse_m_scale;
      new_v[n] = v * rate.inverse_v_scale;
    }
    store(p + i, new_p);
    store(this->m.values + i, new_m);
    store(this->v.values + i, new_v);
    if (copy) store(copy + i, new_p);
  }
};

__global__ void take_scales_kernel(float* scales, float* largest, int pieces, float range,
                                   const StepRecord* record) {
  const int piece = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (piece >= pieces || record->gradient_scale == 0) return;
  scales[piece] = moment_scale(largest[piece], range);
  largest[piece] = 0;
}

}  // namespace

template <class First, class Second, class T, class G>
void adam(float* p, Moment<First> m, Moment<Second> v, T* copy, const G* g,
          const UpdateChunk* chunks, std::int64_t chunk_count, const AdamOptions& options,
          const StepRecord* record, cudaStream_t stream) {
  if (chunk_count == 0) return;
  const auto in_float = [](double x) { return static_cast<float>(x); };
  const Moments<First, Second, G> moments{m,
                                          v,
                                          g,
                                          in_float(options.beta1),
                                          in_float(1 - options.beta1),
                                          in_float(options.beta2),
                                          in_float(1 - options.beta2)};
  const bool wide = aligned(p, m.values, v.values, copy, g);
  if constexpr (kRange<First> != 0 || kRange<Second> != 0) {
    largest_kernel<<<static_cast<unsigned>(chunk_count), kUpdateThreads, 0, stream>>>(
        Largest<First, Second, G>{moments}, wide, chunks, record);
    check(cudaGetLastError());
  }
  const Adam<First, Second, T, G> rule{moments, p, copy, in_float(options.eps)};
  update_chunks(rule, wide, chunks, chunk_count, record, stream);
}

template <class Q>
void take_scales(Moment<Q> moment, std::int64_t pieces, const StepRecord* record,
                 cudaStream_t stream) {
  if (pieces == 0) return;
  constexpr int kThreads = 256;
  take_scales_kernel<<<static_cast<unsigned>(ceil_div(pieces, kThreads)), kThreads, 0, stream>>>(
      moment.scales, moment.largest, static_cast<int>(pieces), kRange<Q>, record);
  check(cudaGetLastError());
}
template void take_scales(Moment<fp16>, std::int64_t, const StepRecord*, cudaStream_t);
template void take_scales(Moment<fp8>, std::int64_t, const StepRecord*, cudaStream_t);

#define INSTANTIATE(First, Second, T, G)                                                      \
  template void adam(float*, Moment<First>, Moment<Second>, T*, const G*, const UpdateChunk*, \
                     std::int64_t, const AdamOptions&, const StepRecord*, cudaStream_t)
#define INSTANTIATE_COPIES(First, Second)   \
  INSTANTIATE(First, Second, float, float); \
  INSTANTIATE(First, Second, bf16, float);  \
  INSTANTIATE(First, Second, fp16, float);  \
  INSTANTIATE(First, Second, bf16, bf16)
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
