#include "ops/router_losses.h"

#include "ops/check.h"

namespace mt {

static RouterGroups of(RouterGroups groups, const ConstTensor& logits) {
  groups.rows = logits.shape()[0];
  groups.experts = logits.shape()[1];
  return groups;
}

void count_experts(Tensor counts, ConstTensor expert, const RouterGroups& groups, Stream& stream) {
  RouterGroups s = groups;
  s.rows = expert.shape()[0];
  s.chosen = expert.shape()[1];
  s.experts = columns(counts);
  check_shape("count_experts", "counts", counts, {s.groups, s.experts});
  const auto* const chosen = expert.as<std::int32_t>();
  dispatch(
      Family::elementwise, counts, moves(counts, expert), stream,
      [&]<class T>() { cpu::count_experts(counts.as<T>(), chosen, s); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::count_experts(counts.as<T>(), chosen, s, stream.handle());
      });
}

void router_losses(Tensor balance, Tensor square, ConstTensor logits, ConstTensor counts,
                   const RouterGroups& groups, Stream& stream) {
  const RouterGroups s = of(groups, logits);
  check_shape("router_losses", "balance", balance, {s.rows});
  check_shape("router_losses", "square", square, {s.rows});
  check_shape("router_losses", "counts", counts, {s.groups, s.experts});
  auto *const sums = balance.as<double>(), *const squares = square.as<double>();
  dispatch(
      Family::elementwise, logits, moves(logits, balance, square), stream,
      [&]<class T>() { cpu::router_losses(sums, squares, logits.as<T>(), counts.as<T>(), s); },
      [&]<class T>() {
        cuda::router_losses(sums, squares, logits.as<T>(), counts.as<float>(), s, stream.handle());
      });
}

void add_router_sums(Tensor sums, ConstTensor balance, ConstTensor square, ConstTensor counts,
                     const RouterFactors& factors, Stream& stream) {
  const RouterGroups s{
      .rows = balance.numel(), .experts = columns(counts), .groups = row_count(counts)};
  check_shape("add_router_sums", "sums", sums, {2 + s.experts});
  check_shape("add_router_sums", "square", square, balance.shape());
  auto* const to = sums.as<double>();
  const auto *const sum = balance.as<double>(), *const squares = square.as<double>();
  dispatch(
      Family::elementwise, counts, moves(counts, balance, square), stream,
      [&]<class T>() { cpu::add_router_sums(to, sum, squares, counts.as<T>(), factors, s); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::add_router_sums(to, sum, squares, counts.as<T>(), factors, s, stream.handle());
      });
}

void router_losses_backward(Tensor d_logits, ConstTensor logits, ConstTensor counts,
                            const RouterFactors& factors, ConstTensor scale, ConstTensor weight,
                            const RouterGroups& groups, Stream& stream) {
  const RouterGroups s = of(groups, logits);
  check_shape("router_losses_backward", "d_logits", d_logits, logits.shape());
  check_shape("router_losses_backward", "counts", counts, {s.groups, s.experts});
  const auto *const by = or_null<double>(scale), *const of_batch = or_null<double>(weight);
  dispatch(
      Family::elementwise, logits, moves(logits, d_logits, d_logits), stream,
      [&]<class T>() {
        cpu::router_losses_backward(d_logits.as<T>(), logits.as<T>(), counts.as<T>(), factors, by,
                                    of_batch, s);
      },
      [&]<class T>() {
        cuda::router_losses_backward(d_logits.as<T>(), logits.as<T>(), counts.as<float>(), factors,
                                     by, of_batch, s, stream.handle());
      });
}

void mean_counts(Tensor counts, Tensor so_far, Stream& stream) {
  check_shape("mean_counts", "so_far", so_far, counts.shape());
  auto* const sums = so_far.as<double>();
  const std::int64_t experts = columns(counts);
  dispatch(
      Family::elementwise, counts, moves(counts, so_far), stream,
      [&]<class T>() { cpu::mean_counts(counts.as<T>(), sums, experts); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::mean_counts(counts.as<T>(), sums, experts, stream.handle());
      });
}

}  // namespace mt
