#include "ops/quantile_balance.h"

#include "kernels/quantile_balance.h"
#include "ops/check.h"

namespace mt {

void quantile_keys(Tensor keys, ConstTensor logits, ConstTensor beta, Stream& stream) {
  const QuantileShape shape{.tokens = row_count(logits), .experts = columns(logits)};
  check_shape("quantile_keys", "keys", keys, logits.shape());
  check_shape("quantile_keys", "beta", beta, {shape.experts});
  if (logits.device() == Device::cuda)
    fail(Exit::bad_config,
         "--moe-router-load-balancing-type quantile_balancing: on the CPU alone; see --device cpu");
  dispatch_cpu(
      Family::elementwise, "quantile_keys", logits, moves(logits, keys), stream,
      [&]<class T>() { cpu::quantile_keys(keys.as<T>(), logits.as<T>(), beta.as<T>(), shape); });
}

void add_quantiles(Tensor sums, ConstTensor logits, ConstTensor beta, std::int64_t chosen,
                   double factor, Stream& stream) {
  const QuantileShape shape{
      .tokens = row_count(logits), .experts = columns(logits), .chosen = chosen};
  check_shape("add_quantiles", "sums", sums, {shape.experts});
  check_shape("add_quantiles", "beta", beta, {shape.experts});
  auto* const to = sums.as<double>();
  dispatch_cpu(Family::elementwise, "add_quantiles", logits, moves(logits), stream, [&]<class T>() {
    cpu::add_quantiles(to, logits.as<T>(), beta.as<T>(), factor, shape);
  });
}

}  // namespace mt
