#include "kernels/adam.h"
#include "kernels/update.cuh"

namespace mt::cuda {
namespace {

template <class First, class Second, class T, class G>
struct Adam {
  float* p;
  First* m;
  Second* v;
  T* copy;
  const G* g;
  float beta1, rest1, beta2, rest2, eps;

  struct Rates {
    float gradient_scale, lr, decay, unbias1, unbias2;
  };
  __device__ Rates rates(const UpdateChunk& chunk, const StepRecord& record) const {
    return {static_cast<float>(record.gradient_scale),
            static_cast<float>(record.learning_rate * chunk.lr_mult),
            static_cast<float>(record.weight_decay * chunk.decay_mult),
            1 / static_cast<float>(record.bias_correction1),
            1 / static_cast<float>(record.bias_correction2)};
  }

  // From now on element i of what is remembered is i + by; so are the masters', if p are such.
  __device__ void move_state(std::int64_t by) {
    m += by;
    v += by;
    if (copy) p += by;
  }

  template <int N>
  struct Loaded {
    Pack<float, N> p;
    Pack<G, N> g;
    Pack<First, N> m;
    Pack<Second, N> v;
  };
  template <int N>
  __device__ Loaded<N> fetch(std::int64_t i) const {
    return {load<N>(p + i), load<N>(g + i), load<N>(m + i), load<N>(v + i)};
  }
  template <int N>
  __device__ void update(std::int64_t i, const Loaded<N>& at, const Rates& rate) const {
    float new_p[N], new_m[N], new_v[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float gradient = at.g[n] * rate.gradient_scale;
      new_m[n] = beta1 * at.m[n] + rest1 * gradient;
      new_v[n] = beta2 * at.v[n] + rest2 * gradient * gradient;
      const float denominator = sqrtf(new_v[n] * rate.unbias2) + eps;
      new_p[n] = at.p[n] - rate.lr * (new_m[n] * rate.unbias1 / denominator + rate.decay * at.p[n]);
    }
    store(p + i, new_p);
    store(m + i, new_m);
    store(v + i, new_v);
    if (copy) store(copy + i, new_p);
  }
};

}  // namespace

template <class First, class Second, class T, class G>
void adam(float* p, First* m, Second* v, T* copy, const G* g, const UpdateChunk* chunks,
          std::int64_t chunk_count, const AdamOptions& options, const StepRecord* record,
          cudaStream_t stream) {
  const auto in_float = [](double x) { return static_cast<float>(x); };
  const Adam<First, Second, T, G> rule{p,
                                       m,
                                       v,
                                       copy,
                                       g,
                                       in_float(options.beta1),
                                       in_float(1 - options.beta1),
                                       in_float(options.beta2),
                                       in_float(1 - options.beta2),
                                       in_float(options.eps)};
  update_chunks(rule, aligned(p, m, v, copy, g), chunks, chunk_count, record, stream);
}

#define INSTANTIATE(First, Second, T, G)                                                      \
  template void adam(float*, First*, Second*, T*, const G*, const UpdateChunk*, std::int64_t, \
                     const AdamOptions&, const StepRecord*, cudaStream_t)
#define INSTANTIATE_COPIES(First, Second)   \
  INSTANTIATE(First, Second, float, float); \
  INSTANTIATE(First, Second, bf16, float);  \
  INSTANTIATE(First, Second, fp16, float);  \
  INSTANTIATE(First, Second, bf16, bf16)
INSTANTIATE_COPIES(float, float);
INSTANTIATE_COPIES(float, bf16);
INSTANTIATE_COPIES(bf16, float);
INSTANTIATE_COPIES(bf16, bf16);

}  // namespace mt::cuda
