#include "kernels/fp8.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <memory>

#include "base/half.h"
#include "kernels/gemm.h"
#include "kernels/loops.h"

namespace mt::cpu {
namespace {

std::uint8_t code_of(float x, Fp8Format format) {
  return format == Fp8Format::e4m3 ? Fp8(x).bits : Fp8E5m2(x).bits;
}

// The bits of |x| as f32, which are in the numbers' order, and NaN's beyond them.
template <class T>
std::uint32_t size_of(T x) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(x)) & 0x7fffffff;
}

// What each code stands for.
template <class T>
std::array<T, 256> numbers_of(Fp8Format format) {
  std::array<T, 256> numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Fp8 narrow;
    Fp8E5m2 wide;
    narrow.bits = wide.bits = static_cast<std::uint8_t>(i);
    numbers[i] = static_cast<T>(format == Fp8Format::e4m3 ? static_cast<float>(narrow)
                                                          : static_cast<float>(wide));
  }
  return numbers;
}

template <class T>
std::unique_ptr<T[]> decoded(const std::uint8_t* codes, std::int64_t count, Fp8Format format) {
  auto numbers = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
  const std::array<T, 256> table = numbers_of<T>(format);
  for_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      numbers[static_cast<std::size_t>(i)] = table[codes[i]];
  });
  return numbers;
}

}  // namespace

template <class T>
float fp8_amax(const T* x, std::int64_t count) {
  std::atomic<std::uint32_t> most = 0;
  for_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t largest = 0;
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, size_of(x[i]));
    std::uint32_t seen = most;
    while (seen < largest && !most.compare_exchange_weak(seen, largest)) {
    }
  });
  return std::bit_cast<float>(most.load());
}

void fp8_update(const Fp8Delayed& p) {
  for (std::int64_t i = 0; i < p.count; ++i) {
    float* const history = p.history + i * p.length;
    std::copy_backward(history, history + p.length - 1, history + p.length);
    history[0] = p.amax[i];
    std::uint32_t largest = 0;
    for (std::int64_t j = 0; j < (p.most_recent ? 1 : p.length); ++j)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(history[j]));
    p.scale[i] = fp8_delayed_scale(p.scale[i], std::bit_cast<float>(largest), p.margin, p.format);
    p.inverse[i * kFp8InverseStride] = 1 / p.scale[i];
    p.amax[i] = 0;
  }
}

template <class T>
void fp8_cast(std::uint8_t* codes, std::uint8_t* transposed, const T* x, float scale,
              std::int64_t rows, std::int64_t cols, Fp8Format format) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::uint8_t code = code_of(static_cast<float>(x[r * cols + c]) * scale, format);
        if (codes) codes[r * cols + c] = code;
        if (transposed) transposed[c * rows + r] = code;
      }
  });
}

template <class T>
void fp8_gemm(const Fp8Gemm<T>& p) {
  const std::unique_ptr<T[]> a = decoded<T>(p.a, p.m * p.k, p.a_format),
                             b = decoded<T>(p.b, p.n * p.k, p.b_format);
  auto sums = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(p.m * p.n));
  gemm<T>({.c = sums.get(),
           .a = a.get(),
           .b = b.get(),
           .m = p.m,
           .n = p.n,
           .k = p.k,
           .transpose_b = true});
  const T factor = static_cast<T>(*p.a_inverse * *p.b_inverse);
  for_blocks(p.m, rows_per_block(p.n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t j = 0; j < p.n; ++j) {
        T& c = p.c[r * p.n + j];
        c = sums[static_cast<std::size_t>(r * p.n + j)] * factor + (p.accumulate ? c : T(0)) +
            (p.bias ? p.bias[j] : T(0));
      }
  });
}

#define INSTANTIATE(T)                                                                \
  template float fp8_amax(const T*, std::int64_t);                                    \
  template void fp8_cast(std::uint8_t*, std::uint8_t*, const T*, float, std::int64_t, \
                         std::int64_t, Fp8Format);                                    \
  template void fp8_gemm(const Fp8Gemm<T>&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
