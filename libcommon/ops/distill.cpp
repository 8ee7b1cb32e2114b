#include "ops/distill.h"

#include "ops/check.h"

namespace mt {

template <class X, class T>
static DistillRows<X, T> rows_of(const DistillPart& p) {
  return {.x = p.logits.as<X>(),
          .y = p.taught.as<X>(),
          .labels = p.labels.as<std::int32_t>(),
          .sums = or_null<T>(p.sums),
          .part = {.rows = p.logits.shape()[0],
                   .cols = p.logits.shape()[1],
                   .first = p.first,
                   .vocab = p.vocab,
                   .ranks = p.sums ? static_cast<int>(p.sums.shape()[0]) : 1},
          .distance = p.distance};
}

static void check_part(const char* operation, const DistillPart& p) {
  check_shape(operation, "taught", p.taught, p.logits.shape());
  check_shape(operation, "labels", p.labels, {p.logits.shape()[0]});
}

void distill_sums(Tensor sums, const DistillPart& p, Stream& stream) {
  check_part("distill_sums", p);
  check_shape("distill_sums", "sums", sums, {kDistillSums, p.logits.shape()[0]});
  dispatch(
      Family::cross_entropy, p.logits, moves(p.logits, p.taught), stream,
      [&]<class T>() { cpu::distill_sums(sums.as<T>(), rows_of<T, T>(p)); },
      [&]<class X>() {
        cuda::distill_sums(sums.as<float>(), rows_of<X, float>(p), stream.handle());
      });
}

void distill_parts(Tensor parts, const DistillPart& p, Stream& stream) {
  check_part("distill_parts", p);
  check_shape("distill_parts", "parts", parts, {2, p.logits.shape()[0]});
  dispatch(
      Family::cross_entropy, p.logits, moves(p.logits, p.taught), stream,
      [&]<class T>() { cpu::distill_parts(parts.as<T>(), rows_of<T, T>(p)); },
      [&]<class X>() {
        cuda::distill_parts(parts.as<float>(), rows_of<X, float>(p), stream.handle());
      });
}

void distill_gradient(Tensor loss, ConstTensor weight, ConstTensor parts, const DistillPart& p,
                      Stream& stream) {
  check_part("distill_gradient", p);
  check_shape("distill_gradient", "loss", loss, parts.shape());
  if (weight) check_shape("distill_gradient", "weight", weight, parts.shape());
  dispatch(
      Family::cross_entropy, p.logits, moves(p.logits, p.taught), stream,
      [&]<class T>() {
        cpu::distill_gradient(loss.as<T>(), or_null<T>(weight), parts.as<T>(), rows_of<T, T>(p));
      },
      [&]<class X>() {
        cuda::distill_gradient(loss.as<float>(), or_null<float>(weight), parts.as<float>(),
                               rows_of<X, float>(p), stream.handle());
      });
}

void hidden_loss(Tensor loss, Tensor dx, ConstTensor x, ConstTensor taught, ConstTensor weight,
                 HiddenLoss kind, Stream& stream) {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  check_shape("hidden_loss", "loss", loss, {rows});
  check_shape("hidden_loss", "taught", taught, x.shape());
  if (dx) check_shape("hidden_loss", "dx", dx, x.shape());
  dispatch(
      Family::cross_entropy, x, moves(x, taught), stream,
      [&]<class T>() {
        cpu::hidden_loss(loss.as<T>(), dx ? dx.as<T>() : nullptr, x.as<T>(), taught.as<T>(),
                         or_null<T>(weight), rows, cols, kind);
      },
      [&]<class X>() {
        cuda::hidden_loss(loss.as<float>(), dx ? dx.as<X>() : nullptr, x.as<X>(), taught.as<X>(),
                          or_null<float>(weight), rows, cols, kind, stream.handle());
      });
}

}  // namespace mt
