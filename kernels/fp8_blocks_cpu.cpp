#include "kernels/fp8_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "base/half.h"
#include "kernels/gemm.h"
#include "kernels/loops.h"

namespace mt::cpu {
namespace {

// The bits of |x| as f32, which are in the numbers' order, and NaN's beyond them.
template <class T>
std::uint32_t size_of(T x) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(x)) & 0x7fffffff;
}

// Calls begin(row, col, bottom, right, inverse) for each block of so many rows and columns, then
// put(row, col, code) for each number of it.
template <class T, class Begin, class Put>
void for_each_block(const Fp8BlockCast<T>& p, std::int64_t height, std::int64_t width,
                    const Begin& begin, const Put& put) {
  for_blocks(p.rows, kFp8Block, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; r += height)
      for (std::int64_t c = 0; c < p.cols; c += width) {
        const std::int64_t bottom = std::min(last, r + height), right = std::min(p.cols, c + width);
        std::uint32_t largest = 0;
        for (std::int64_t i = r; i < bottom; ++i)
          for (std::int64_t j = c; j < right; ++j)
            largest = std::max(largest, size_of(p.x[i * p.cols + j]));
        const float scale = fp8_block_scale(std::bit_cast<float>(largest));
        begin(r, c, bottom, right, 1 / scale);
        for (std::int64_t i = r; i < bottom; ++i)
          for (std::int64_t j = c; j < right; ++j)
            put(i, j, Fp8(static_cast<float>(p.x[i * p.cols + j]) * scale).bits);
      }
  });
}

// What the codes of one block of k stand for, of each row: [rows, of_block].
template <class T>
void decode_block(T* numbers, const std::uint8_t* codes, const float* inverse, std::int64_t rows,
                  std::int64_t k, std::int64_t of_block) {
  static const std::array<T, 256> values = [] {
    std::array<T, 256> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Fp8 code;
      code.bits = static_cast<std::uint8_t>(i);
      all[i] = static_cast<T>(static_cast<float>(code));
    }
    return all;
  }();
  for_blocks(rows, rows_per_block(of_block), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t i = 0; i < of_block; ++i)
        numbers[r * of_block + i] = values[codes[r * k + i]] * static_cast<T>(inverse[r]);
  });
}

}  // namespace

template <class T>
void fp8_block_cast(const Fp8BlockCast<T>& p) {
  if (p.codes)
    for_each_block(
        p, p.squares ? kFp8Block : 1, kFp8Block,
        [&](std::int64_t r, std::int64_t c, std::int64_t bottom, std::int64_t, float inverse) {
          float* const of_rows = p.inverse + c / kFp8Block * p.rows;
          std::fill(of_rows + r, of_rows + bottom, inverse);
        },
        [&](std::int64_t r, std::int64_t c, std::uint8_t code) { p.codes[r * p.cols + c] = code; });
  if (p.transposed)
    for_each_block(
        p, kFp8Block, p.squares ? kFp8Block : 1,
        [&](std::int64_t r, std::int64_t c, std::int64_t, std::int64_t right, float inverse) {
          float* const of_rows = p.transposed_inverse + r / kFp8Block * p.cols;
          std::fill(of_rows + c, of_rows + right, inverse);
        },
        [&](std::int64_t r, std::int64_t c, std::uint8_t code) {
          p.transposed[c * p.rows + r] = code;
        });
}

template <class T>
void fp8_block_gemm(const Fp8BlockGemm<T>& p) {
  const auto array = [](std::int64_t count) {
    return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
  };
  const auto a = array(p.m * kFp8Block), b = array(p.n * kFp8Block);
  const auto sums = std::make_unique<T[]>(static_cast<std::size_t>(p.m * p.n));
  for (std::int64_t l = 0; l < fp8_blocks(p.k); ++l) {
    const std::int64_t at = l * kFp8Block, of_block = std::min(kFp8Block, p.k - at);
    decode_block(a.get(), p.a + at, p.a_inverse + l * p.a_rows, p.m, p.k, of_block);
    decode_block(b.get(), p.b + at, p.b_inverse + l * p.n, p.n, p.k, of_block);
    gemm<T>({.c = sums.get(),
             .a = a.get(),
             .b = b.get(),
             .m = p.m,
             .n = p.n,
             .k = of_block,
             .transpose_b = true,
             .accumulate = l > 0});
  }
  for_blocks(p.m, rows_per_block(p.n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t j = 0; j < p.n; ++j) {
        T& c = p.c[r * p.n + j];
        c = sums[static_cast<std::size_t>(r * p.n + j)] + (p.accumulate ? c : T(0)) +
            (p.bias ? p.bias[j] : T(0));
      }
  });
}

#define INSTANTIATE(T)                                  \
  template void fp8_block_cast(const Fp8BlockCast<T>&); \
  template void fp8_block_gemm(const Fp8BlockGemm<T>&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
