#include "kernels/adam.h"

#include <cmath>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

template <class T>
struct Factors {  // of the formula, in T
  T beta1, rest1, beta2, rest2, eps, gradient_scale, lr, decay, unbias1, unbias2;
};

template <class T>
void adam_block(T* __restrict__ p, T* __restrict__ m, T* __restrict__ v, const T* __restrict__ g,
                std::int64_t count, const Factors<T>& f) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T gradient = g[i] * f.gradient_scale;
    m[i] = f.beta1 * m[i] + f.rest1 * gradient;
    v[i] = f.beta2 * v[i] + f.rest2 * gradient * gradient;
    const T denominator = std::sqrt(v[i] * f.unbias2) + f.eps;
    p[i] -= f.lr * (m[i] * f.unbias1 / denominator + f.decay * p[i]);
  }
}

}  // namespace

template <class T>
void adam(T* p, T* m, T* v, const T* g, std::int64_t count, const AdamOptions& options,
          double lr_mult, double decay_mult, const StepRecord* record) {
  const auto in_t = [](double x) { return static_cast<T>(x); };
  const Factors<T> factors = {.beta1 = in_t(options.beta1),
                              .rest1 = in_t(1 - options.beta1),
                              .beta2 = in_t(options.beta2),
                              .rest2 = in_t(1 - options.beta2),
                              .eps = in_t(options.eps),
                              .gradient_scale = in_t(record->gradient_scale),
                              .lr = in_t(record->learning_rate * lr_mult),
                              .decay = in_t(record->weight_decay * decay_mult),
                              .unbias1 = in_t(1 / record->bias_correction1),
                              .unbias2 = in_t(1 / record->bias_correction2)};
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    adam_block(p + first, m + first, v + first, g + first, last - first, factors);
  });
}

template void adam(float*, float*, float*, const float*, std::int64_t, const AdamOptions&, double,
                   double, const StepRecord*);
template void adam(double*, double*, double*, const double*, std::int64_t, const AdamOptions&,
                   double, double, const StepRecord*);

}  // namespace mt::cpu
