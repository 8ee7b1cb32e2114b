#include "kernels/experts.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

static RouteShape shape_of(const Route& route) {
  return {.tokens = route.place.shape()[0],
          .experts = route.ends.shape()[0],
          .chosen = route.place.shape()[1]};
}

static void check_places(const char* operation, const Route& route, const ConstTensor& by_experts,
                         const ConstTensor& by_tokens) {
  const RouteShape s = shape_of(route);
  const std::int64_t cols = columns(by_experts);
  check_shape(operation, "rows by experts", by_experts, {s.tokens * s.chosen, cols});
  if (by_tokens) check_shape(operation, "rows by tokens", by_tokens, {s.tokens, cols});
}

void route_forward(const Route& route, ConstTensor logits, Stream& stream) {
  const RouteShape s = shape_of(route);
  check_shape("route_forward", "logits", logits, {s.tokens, s.experts});
  dispatch_cpu(Family::elementwise, "route_forward", logits, moves(logits, route.weight), stream,
               [&]<class T>() {
                 cpu::route(route.expert.as<std::int32_t>(), route.weight.as<T>(),
                            route.place.as<std::int32_t>(), route.ends.as<std::int32_t>(),
                            logits.as<T>(), s);
               });
}

void route_backward(Tensor d_logits, ConstTensor d_weight, const Route& route, Stream& stream) {
  const RouteShape s = shape_of(route);
  check_shape("route_backward", "d_logits", d_logits, {s.tokens, s.experts});
  check_shape("route_backward", "d_weight", d_weight, {s.tokens, s.chosen});
  dispatch_cpu(Family::elementwise, "route_backward", d_logits, moves(d_logits, d_weight), stream,
               [&]<class T>() {
                 cpu::route_backward(d_logits.as<T>(), d_weight.as<T>(),
                                     ConstTensor(route.weight).as<T>(),
                                     ConstTensor(route.expert).as<std::int32_t>(), s);
               });
}

void spread_rows(Tensor out, ConstTensor x, const Route& route, Stream& stream) {
  check_places("spread_rows", route, out, x);
  dispatch_cpu(Family::elementwise, "spread_rows", x, moves(out, x), stream, [&]<class T>() {
    cpu::spread(out.as<T>(), x.as<T>(), ConstTensor(route.place).as<std::int32_t>(), columns(x),
                shape_of(route));
  });
}

void weigh_rows(Tensor out, ConstTensor a, const Route& route, Stream& stream) {
  check_places("weigh_rows", route, out, {});
  check_shape("weigh_rows", "a", a, out.shape());
  dispatch_cpu(Family::elementwise, "weigh_rows", a, moves(out, a), stream, [&]<class T>() {
    cpu::weigh(out.as<T>(), a.as<T>(), ConstTensor(route.weight).as<T>(),
               ConstTensor(route.place).as<std::int32_t>(), columns(a), shape_of(route));
  });
}

void weigh_rows_backward(Tensor da, Tensor d_weight, ConstTensor dy, ConstTensor a,
                         const Route& route, Stream& stream) {
  check_places("weigh_rows_backward", route, dy, {});
  check_shape("weigh_rows_backward", "da", da, dy.shape());
  check_shape("weigh_rows_backward", "a", a, dy.shape());
  dispatch_cpu(
      Family::elementwise, "weigh_rows_backward", a, moves(da, dy, a), stream, [&]<class T>() {
        cpu::weigh_backward(
            da.as<T>(), d_weight.as<T>(), dy.as<T>(), a.as<T>(), ConstTensor(route.weight).as<T>(),
            ConstTensor(route.place).as<std::int32_t>(), columns(a), shape_of(route));
      });
}

void gather_rows(Tensor y, ConstTensor x, const Route& route, Stream& stream) {
  check_places("gather_rows", route, x, y);
  dispatch_cpu(Family::elementwise, "gather_rows", x, moves(y, x), stream, [&]<class T>() {
    cpu::gather(y.as<T>(), x.as<T>(), ConstTensor(route.place).as<std::int32_t>(), columns(x),
                shape_of(route));
  });
}

}  // namespace mt
