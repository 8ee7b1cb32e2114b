#include "ops/fp8.h"

#include <cmath>
#include <type_traits>

#include "kernels/fp8_blocks.h"
#include "ops/check.h"

namespace mt {

void fp8_amax(Tensor amax, ConstTensor x, Stream& stream) {
  check_shape("fp8_amax", "amax", amax, {1});
  auto* const most = amax.as<float>();
  dispatch(
      Family::elementwise, x, moves(x), stream,
      [&]<class T>() { *most = cpu::fp8_amax(x.as<T>(), x.numel()); },
      [&]<class T>() { cuda::fp8_amax(most, x.as<T>(), x.numel(), stream.handle()); });
}

void fp8_scale(Tensor scale, Tensor inverse, ConstTensor amax, Fp8Format format, Stream& stream) {
  for (const ConstTensor& number : {ConstTensor(scale), ConstTensor(inverse), amax})
    check_shape("fp8_scale", "a number", number, {1});
  const auto* const most = amax.as<float>();
  auto *const s = scale.as<float>(), *const i = inverse.as<float>();
  dispatch(
      Family::elementwise, amax, moves(scale, inverse, amax), stream,
      [&]<class T>() {
        *s = fp8_scale_of(*most, format);
        *i = 1 / *s;
      },
      [&]<class T>() { cuda::fp8_scale(s, i, most, format, stream.handle()); });
}

void fp8_cast(Tensor codes, Tensor transposed, Tensor amax, ConstTensor x, ConstTensor scale,
              Fp8Format format, Stream& stream) {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  Cost cost = moves(x);
  if (codes) {
    check_shape("fp8_cast", "codes", codes, {rows, cols});
    cost += moves(codes);
  }
  if (transposed) {
    check_shape("fp8_cast", "transposed", transposed, {cols, rows});
    cost += moves(transposed);
  }
  const auto place = [](const Tensor& to) { return to ? to.as<std::uint8_t>() : nullptr; };
  const auto* const s = scale.as<float>();
  auto* const most = amax ? amax.as<float>() : nullptr;
  dispatch(
      Family::elementwise, x, cost, stream,
      [&]<class T>() {
        if (most) {
          const float of_x = cpu::fp8_amax(x.as<T>(), x.numel());
          if (!std::isnan(*most) && !(of_x <= *most)) *most = of_x;
        }
        cpu::fp8_cast(place(codes), place(transposed), x.as<T>(), *s, rows, cols, format);
      },
      [&]<class T>() {
        cuda::fp8_cast(place(codes), place(transposed), most, x.as<T>(), s, rows, cols, format,
                       stream.handle());
      });
}

template <class T>
static Fp8BlockCast<T> cast_of(const Fp8BlockCodes& to, ConstTensor x, bool squares) {
  const auto codes = [](const Tensor& place) { return place ? place.as<std::uint8_t>() : nullptr; };
  const auto numbers = [](const Tensor& place) { return place ? place.as<float>() : nullptr; };
  return {.x = x.as<T>(),
          .codes = codes(to.codes),
          .inverse = numbers(to.inverse),
          .transposed = codes(to.transposed),
          .transposed_inverse = numbers(to.transposed_inverse),
          .rows = x.shape()[0],
          .cols = x.shape()[1],
          .squares = squares};
}

void fp8_block_cast(const Fp8BlockCodes& to, ConstTensor x, bool squares, Stream& stream) {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  Cost cost = moves(x);
  const auto check = [&](const Tensor& codes, const Tensor& inverse, std::int64_t high,
                         std::int64_t wide) {
    if (!codes) return;
    check_shape("fp8_block_cast", "codes", codes, {high, wide});
    check_shape("fp8_block_cast", "inverses", inverse, {fp8_blocks(wide), high});
    cost += moves(codes, inverse);
  };
  check(to.codes, to.inverse, rows, cols);
  check(to.transposed, to.transposed_inverse, cols, rows);
  dispatch(
      Family::elementwise, x, cost, stream,
      [&]<class T>() { cpu::fp8_block_cast(cast_of<T>(to, x, squares)); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, __half>)
          fail(Exit::internal, "fp8_block_cast: of float16");
        else
          cuda::fp8_block_cast(cast_of<T>(to, x, squares), stream.handle());
      });
}

void fp8_update(Tensor scale, Tensor inverse, Tensor history, Tensor amax, bool most_recent,
                int margin, Fp8Format format, Stream& stream) {
  const std::int64_t count = amax.numel(), length = history.shape()[1];
  check_shape("fp8_update", "history", history, {count, length});
  check_shape("fp8_update", "scale", scale, {count});
  check_shape("fp8_update", "inverse", inverse, {count, kFp8InverseStride});
  const Fp8Delayed scales{.scale = scale.as<float>(),
                          .inverse = inverse.as<float>(),
                          .history = history.as<float>(),
                          .amax = amax.as<float>(),
                          .count = count,
                          .length = length,
                          .most_recent = most_recent,
                          .margin = std::ldexp(1.0F, -margin),
                          .format = format};
  dispatch(
      Family::elementwise, amax, moves(scale, inverse, history, amax), stream,
      [&]<class T>() { cpu::fp8_update(scales); },
      [&]<class T>() { cuda::fp8_update(scales, stream.handle()); });
}

}  // namespace mt
