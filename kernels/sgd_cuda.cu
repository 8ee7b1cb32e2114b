#include "kernels/sgd.h"

#include "kernels/update.cuh"

namespace mt::cuda {
namespace {

template <class T, class G>
struct Sgd {
  float *p, *b;
  T* copy;
  const G* g;
  float momentum;

  struct Rates {
    float gradient_scale, lr, decay;
  };
  __device__ Rates rates(const UpdateChunk& chunk, const StepRecord& record) const {
    return {static_cast<float>(record.gradient_scale),
            static_cast<float>(record.learning_rate * chunk.lr_mult),
            static_cast<float>(record.weight_decay * chunk.decay_mult)};
  }

  // Goes on to the elements `by` places further, as AdamRule::move_state() does.
  __device__ void move_state(std::int64_t by) {
    b += by;
    if (copy) p += by;
  }

  template <int N>
  struct Loaded {
    Pack<float, N> p, b;
    Pack<G, N> g;
  };
  template <int N>
  __device__ Loaded<N> fetch(std::int64_t i) const {
    return {load<N>(p + i), load<N>(b + i), load<N>(g + i)};
  }
  template <int N>
  __device__ void update(std::int64_t i, const Loaded<N>& at, const Rates& rate) const {
    float new_p[N], new_b[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      new_b[n] = momentum * at.b[n] + (at.g[n] * rate.gradient_scale + rate.decay * at.p[n]);
      new_p[n] = at.p[n] - rate.lr * new_b[n];
    }
    store(p + i, new_p);
    store(b + i, new_b);
    if (copy) store(copy + i, new_p);
  }
};

}  // namespace

template <class T, class G>
void sgd(float* p, float* b, T* copy, const G* g, const UpdateChunk* chunks,
         std::int64_t chunk_count, double momentum, const StepRecord* record, cudaStream_t stream) {
  const Sgd<T, G> rule{p, b, copy, g, static_cast<float>(momentum)};
  update_chunks(rule, aligned(p, b, copy, g), chunks, chunk_count, record, stream);
}

#define INSTANTIATE(T, G)                                                                   \
  template void sgd(float*, float*, T*, const G*, const UpdateChunk*, std::int64_t, double, \
                    const StepRecord*, cudaStream_t)
INSTANTIATE(float, float);
INSTANTIATE(bf16, float);
INSTANTIATE(fp16, float);
INSTANTIATE(bf16, bf16);

}  // namespace mt::cuda
