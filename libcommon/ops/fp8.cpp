#include "ops/fp8.h"

#include <cmath>
#include <type_traits>

#include "kernels/fp8_blocks.h"
#include "kernels/fp8_parts.h"
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

static void keep_larger(float& most, float other) {
  if (!std::isnan(most) && !(other <= most)) most = other;
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
        if (most) keep_larger(*most, cpu::fp8_amax(x.as<T>(), x.numel()));
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

template <class T>
static Fp8Part<T> part_of(ConstTensor x, const Fp8PartOf& part) {
  return {.x = x.as<T>(),
          .begin = part.begin,
          .count = x.numel(),
          .rows = part.whole[0],
          .cols = part.whole[1]};
}

void fp8_part_squares(Tensor amax, ConstTensor x, const Fp8PartOf& part, Stream& stream) {
  check_shape("fp8_part_squares", "amax", amax,
              {fp8_blocks(part.whole[0]), fp8_blocks(part.whole[1])});
  auto* const most = amax.as<float>();
  dispatch(
      Family::elementwise, x, moves(x), stream,
      [&]<class T>() { cpu::fp8_part_squares(most, part_of<T>(x, part)); },
      [&]<class T>() { cuda::fp8_part_squares(most, part_of<T>(x, part), stream.handle()); });
}

void fp8_part_cast_squares(Tensor codes, ConstTensor x, ConstTensor amax, const Fp8PartOf& part,
                           Stream& stream) {
  check_shape("fp8_part_cast_squares", "codes", codes, {x.numel()});
  auto* const to = codes.as<std::uint8_t>();
  const auto* const most = amax.as<float>();
  dispatch(
      Family::elementwise, x, moves(x, codes), stream,
      [&]<class T>() { cpu::fp8_part_cast_squares(to, part_of<T>(x, part), most); },
      [&]<class T>() {
        cuda::fp8_part_cast_squares(to, part_of<T>(x, part), most, stream.handle());
      });
}

void fp8_part_cast(Tensor codes, Tensor amax, ConstTensor x, ConstTensor scale, Fp8Format format,
                   Stream& stream) {
  check_shape("fp8_part_cast", "codes", codes, {x.numel()});
  auto* const to = codes.as<std::uint8_t>();
  auto* const most = amax ? amax.as<float>() : nullptr;
  const auto* const s = scale.as<float>();
  dispatch(
      Family::elementwise, x, moves(x, codes), stream,
      [&]<class T>() {
        if (most) keep_larger(*most, cpu::fp8_amax(x.as<T>(), x.numel()));
        cpu::fp8_cast(to, nullptr, x.as<T>(), *s, 1, x.numel(), format);
      },
      [&]<class T>() {
        cuda::fp8_part_cast(to, most, x.as<T>(), s, x.numel(), format, stream.handle());
      });
}

void fp8_complete(const Fp8BlockCodes& codes, ConstTensor amax, Stream& stream) {
  const std::int64_t rows = codes.codes.shape()[0], cols = codes.codes.shape()[1];
  check_shape("fp8_complete", "transposed", codes.transposed, {cols, rows});
  const auto* const from = codes.codes.as<std::uint8_t>();
  auto* const to = codes.transposed.as<std::uint8_t>();
  const auto* const most = amax ? amax.as<float>() : nullptr;
  auto* const inverse = most ? codes.inverse.as<float>() : nullptr;
  auto* const of_columns = most ? codes.transposed_inverse.as<float>() : nullptr;
  dispatch(
      Family::elementwise, codes.inverse, moves(codes.codes, codes.transposed), stream,
      [&]<class T>() {
        cpu::fp8_transpose(to, from, rows, cols);
        if (most) cpu::fp8_square_inverses(inverse, of_columns, most, rows, cols);
      },
      [&]<class T>() {
        cuda::fp8_transpose(to, from, rows, cols, stream.handle());
        if (most) cuda::fp8_square_inverses(inverse, of_columns, most, rows, cols, stream.handle());
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
