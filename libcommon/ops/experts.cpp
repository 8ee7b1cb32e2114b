#include "kernels/experts.h"

#include "kernels/weighted_swiglu.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {
namespace {

RouterRules of(RouterRules rules, const ConstTensor& logits, const ConstTensor& expert) {
  rules.tokens = logits.shape()[0];
  rules.experts = logits.shape()[1];
  rules.chosen = expert.shape()[1];
  return rules;
}

PlaceShape shape_of(const ConstTensor& place) {
  return {.tokens = place.shape()[0], .chosen = place.shape()[1]};
}

}  // namespace

void choose_experts(Tensor expert, Tensor weight, ConstTensor logits, ConstTensor bias,
                    const RouterRules& rules, Stream& stream) {
  const RouterRules s = of(rules, logits, expert);
  check_shape("choose_experts", "expert", expert, {s.tokens, s.chosen});
  check_shape("choose_experts", "weight", weight, expert.shape());
  if (rules.keys_given)
    check_shape("choose_experts", "keys", bias, logits.shape());
  else if (bias)
    check_shape("choose_experts", "bias", bias, {s.experts});
  auto* const chosen = expert.as<std::int32_t>();
  dispatch(
      Family::elementwise, logits, moves(logits, weight, expert), stream,
      [&]<class T>() { cpu::choose(chosen, weight.as<T>(), logits.as<T>(), or_null<T>(bias), s); },
      [&]<class T>() {
        cuda::choose(chosen, weight.as<float>(), logits.as<T>(), or_null<float>(bias), s,
                     stream.handle());
      });
}

void choose_experts_backward(Tensor d_logits, ConstTensor d_weight, ConstTensor logits,
                             ConstTensor expert, const RouterRules& rules, Stream& stream) {
  const RouterRules s = of(rules, logits, expert);
  check_shape("choose_experts_backward", "d_logits", d_logits, logits.shape());
  check_shape("choose_experts_backward", "d_weight", d_weight, expert.shape());
  const auto* const chosen = expert.as<std::int32_t>();
  dispatch(
      Family::elementwise, logits, moves(logits, d_logits, d_weight), stream,
      [&]<class T>() {
        cpu::choose_backward(d_logits.as<T>(), d_weight.as<T>(), logits.as<T>(), chosen, s);
      },
      [&]<class T>() {
        cuda::choose_backward(d_logits.as<T>(), d_weight.as<float>(), logits.as<T>(), chosen, s,
                              stream.handle());
      });
}

void place_rows(Tensor place, Tensor ends, ConstTensor expert, std::int64_t first, Stream& stream) {
  PlaceShape s = shape_of(expert);
  s.first = first;
  s.count = ends.numel();
  check_shape("place_rows", "place", place, expert.shape());
  void* const work = gpu_work(place, stream, [&] { return cuda::place_work(s); });
  if (expert.device() == Device::meta)
    return stream.count(moves(place, expert), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  auto *const to = place.as<std::int32_t>(), *const last = ends.as<std::int32_t>();
  const auto* const chosen = expert.as<std::int32_t>();
  if constexpr (kWithCuda)
    if (expert.device() == Device::cuda)
      return cuda::place(to, last, chosen, s, work, stream.handle());
  stream.run([&] { cpu::place(to, last, chosen, s); });
}

void spread_rows(Tensor out, ConstTensor x, ConstTensor place, Stream& stream) {
  const PlaceShape s = shape_of(place);
  check_shape("spread_rows", "x", x, {s.tokens, columns(out)});
  const auto* const places = place.as<std::int32_t>();
  dispatch(
      Family::elementwise, x, moves(out, x), stream,
      [&]<class T>() { cpu::spread(out.as<T>(), x.as<T>(), places, columns(x), s); },
      [&]<class T>() {
        cuda::spread(out.as<T>(), x.as<T>(), places, columns(x), s, stream.handle());
      });
}

void gather_rows(Tensor y, ConstTensor x, ConstTensor place, Stream& stream) {
  const PlaceShape s = shape_of(place);
  check_shape("gather_rows", "y", y, {s.tokens, columns(x)});
  const auto* const places = place.as<std::int32_t>();
  dispatch(
      Family::elementwise, x, moves(y, x), stream,
      [&]<class T>() { cpu::gather(y.as<T>(), x.as<T>(), places, columns(x), s); },
      [&]<class T>() {
        cuda::gather(y.as<T>(), x.as<T>(), places, columns(x), s, stream.handle());
      });
}

void row_dots(Tensor dots, ConstTensor a, ConstTensor b, Stream& stream) {
  const std::int64_t rows = row_count(a), cols = columns(a);
  check_shape("row_dots", "b", b, a.shape());
  check_shape("row_dots", "dots", dots, {rows});
  dispatch(
      Family::elementwise, a, moves(a, b), stream,
      [&]<class T>() { cpu::row_dots(dots.as<T>(), a.as<T>(), b.as<T>(), rows, cols); },
      [&]<class T>() {
        cuda::row_dots(dots.as<float>(), a.as<T>(), b.as<T>(), rows, cols, stream.handle());
      });
}

void weighted_swiglu_forward(Tensor y, ConstTensor x, ConstTensor w, Stream& stream) {
  const std::int64_t rows = row_count(y), cols = columns(y);
  check_shape("weighted_swiglu_forward", "x", x, {rows, 2 * cols});
  check_shape("weighted_swiglu_forward", "w", w, {rows});
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::weighted_swiglu_forward(y.as<T>(), x.as<T>(), w.as<T>(), rows, cols); },
      [&]<class T>() {
        cuda::weighted_swiglu_forward(y.as<T>(), x.as<T>(), w.as<float>(), rows, cols,
                                      stream.handle());
      });
}

void weighted_swiglu_backward(Tensor dx, Tensor dw, ConstTensor dy, ConstTensor x, ConstTensor w,
                              Stream& stream) {
  const std::int64_t rows = row_count(dy), cols = columns(dy);
  check_shape("weighted_swiglu_backward", "x", x, {rows, 2 * cols});
  check_shape("weighted_swiglu_backward", "dx", dx, x.shape());
  check_shape("weighted_swiglu_backward", "w", w, {rows});
  check_shape("weighted_swiglu_backward", "dw", dw, {rows});
  dispatch(
      Family::activation, x, moves(x, dy, dx), stream,
      [&]<class T>() {
        cpu::weighted_swiglu_backward(dx.as<T>(), dw.as<T>(), dy.as<T>(), x.as<T>(), w.as<T>(),
                                      rows, cols);
      },
      [&]<class T>() {
        cuda::weighted_swiglu_backward(dx.as<T>(), dw.as<float>(), dy.as<T>(), x.as<T>(),
                                       w.as<float>(), rows, cols, stream.handle());
      });
}

}  // namespace mt
