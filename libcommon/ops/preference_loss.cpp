#include "kernels/preference_loss.h"

#include "kernels/text_sums.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void preference_loss(const PreferenceProblem& p, const PreferenceRules& rules, Stream& stream) {
  const std::int64_t units = p.x.shape()[0];
  check_shape("preference_loss", "loss", p.loss, {kPreferenceRows, units});
  check_shape("preference_loss", "x", p.x, {units, 2});
  check_shape("preference_loss", "share", p.share, {units});
  for (const ConstTensor* pairs : {&p.tokens, &p.reference})
    if (*pairs) check_shape("preference_loss", "pairs", *pairs, {units, 2});
  for (const ConstTensor* each : {&p.values, &p.weight})
    if (*each) check_shape("preference_loss", "each", *each, {units});
  const auto tensors = [&]<class X, class T>() {
    return PreferenceTensors<X, T>{.loss = p.loss.as<T>(),
                                   .x = p.x.as<X>(),
                                   .tokens = or_null<T>(p.tokens),
                                   .reference = or_null<T>(p.reference),
                                   .values = or_null<T>(p.values),
                                   .share = p.share.as<T>(),
                                   .weight = or_null<T>(p.weight),
                                   .units = units};
  };
  dispatch(
      Family::cross_entropy, p.x, moves(p.loss, p.x), stream,
      [&]<class T>() { cpu::preference_loss(tensors.template operator()<T, T>(), rules); },
      [&]<class T>() {
        cuda::preference_loss(tensors.template operator()<T, float>(), rules, stream.handle());
      });
}

static TextRows text_rows(const ConstTensor& x, const ConstTensor& lengths, std::int64_t rows) {
  return {.lengths = lengths.as<std::int32_t>(),
          .rows = rows,
          .tokens = x.numel() / rows,
          .texts = lengths.numel() / rows};
}

void text_sums(Tensor sums, ConstTensor x, ConstTensor mask, ConstTensor lengths, std::int64_t rows,
               Stream& stream) {
  check_shape("text_sums", "sums", sums, {2, lengths.numel()});
  check_shape("text_sums", "mask", mask, {x.numel()});
  const TextRows texts = text_rows(x, lengths, rows);
  dispatch(
      Family::cross_entropy, x, moves(x, mask), stream,
      [&]<class T>() { cpu::text_sums(sums.as<T>(), x.as<T>(), mask.as<T>(), texts); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::text_sums(sums.as<T>(), x.as<T>(), mask.as<T>(), texts, stream.handle());
      });
}

void spread_over_texts(Tensor x, ConstTensor slope, ConstTensor mask, ConstTensor lengths,
                       std::int64_t rows, Stream& stream) {
  check_shape("spread_over_texts", "slope", slope, {lengths.numel()});
  check_shape("spread_over_texts", "mask", mask, {x.numel()});
  const TextRows texts = text_rows(x, lengths, rows);
  dispatch(
      Family::cross_entropy, x, moves(x, mask), stream,
      [&]<class T>() { cpu::spread_over_texts(x.as<T>(), slope.as<T>(), mask.as<T>(), texts); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::spread_over_texts(x.as<T>(), slope.as<T>(), mask.as<T>(), texts, stream.handle());
      });
}

}  // namespace mt
