#include "ops/quantile_balance.h"

#include "kernels/quantile_balance.h"
#include "ops/check.h"

namespace mt {

void quantile_keys(Tensor keys, ConstTensor logits, ConstTensor beta, Stream& stream) {
  const QuantileShape shape{.tokens = row_count(logits), .experts = columns(logits)};
  check_shape("quantile_keys", "keys", keys, logits.shape());
  check_shape("quantile_keys", "beta", beta, {shape.experts});
  dispatch(
      Family::elementwise, logits, moves(logits, keys), stream,
      [&]<class T>() { cpu::quantile_keys(keys.as<T>(), logits.as<T>(), beta.as<T>(), shape); },
      [&]<class T>() {
        cuda::quantile_keys(keys.as<float>(), logits.as<T>(), beta.as<float>(), shape,
                            stream.handle());
      });
}

void add_quantiles(Tensor sums, ConstTensor logits, ConstTensor beta, std::int64_t chosen,
                   double factor, Stream& stream) {
  const QuantileShape shape{
      .tokens = row_count(logits), .experts = columns(logits), .chosen = chosen};
  check_shape("add_quantiles", "sums", sums, {shape.experts});
  check_shape("add_quantiles", "beta", beta, {shape.experts});
  auto* const to = sums.as<double>();
  void* const work = gpu_work(logits, stream, [&] { return cuda::quantiles_work(shape); });
  dispatch(
      Family::elementwise, logits, moves(logits), stream,
      [&]<class T>() { cpu::add_quantiles(to, logits.as<T>(), beta.as<T>(), factor, shape); },
      [&]<class T>() {
        cuda::add_quantiles(to, logits.as<T>(), beta.as<float>(), factor, shape, work,
                            stream.handle());
      });
}

}  // namespace mt
