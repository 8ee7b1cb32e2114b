// Products of packed tiles with few rows on a GPU beside sums in double of what the blocks stand
// for, with all that goes with them; and tiles unpacked.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "base/error.h"
#include "kernels/packed_few_rows.h"
#include "tests/kernels/device_numbers.h"
#include "tests/kernels/packed_bytes.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::Input;
using check::kBlockTypes;
using check::Numbers;
using check::packed;

class PackedTilesCuda : public check::CudaTest<bf16> {};

// A matrix of these types, on the device, and its numbers.
struct Weights {
  Weights(const std::vector<BlockType>& types, std::int64_t cols)
      : form(types, cols), numbers(types.size() * static_cast<std::size_t>(cols)) {
    const auto rows = packed(types, cols);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(form.bytes()));
    form.lay_out(bytes.data(), PackedRows(rows.data()));
    cpu::unpack_tiles(numbers.data(), bytes.data(), form);
    tiles = std::make_unique<DeviceArray<std::uint8_t>>(bytes);
  }
  PackedTiles form;
  std::vector<float> numbers;
  std::unique_ptr<DeviceArray<std::uint8_t>> tiles;
};

enum class Norm : std::uint8_t { none, rms, layer };

struct Problem {
  using Few = FewRows<bf16, bf16>;
  using Then = Few::Then;

  Problem(const Weights& weights, std::int64_t rows, std::int64_t columns = 0)
      : w(weights),
        m(rows),
        n(columns > 0 ? columns : w.form.rows()),
        k(w.form.cols()),
        a(m * k, 1),
        bias(n, 3, 0, -1e-2, 1e-2),
        residual(m * n, 4, 0, -1e-2, 1e-2),
        scale(k, 5, 0, 0.5, 1.5),
        shift(k, 6) {}

  template <class C>
  FewRows<bf16, C> on_gpu(C* c, bf16* at, std::int64_t first, std::int64_t count) const {
    FewRows<bf16, C> few{.c = c,
                         .a = a.data() + first * k,
                         .m = count,
                         .n = n,
                         .k = k,
                         .bias = with_bias ? bias.data() : nullptr,
                         .then = static_cast<typename FewRows<bf16, C>::Then>(then),
                         .at = at};
    if constexpr (std::is_same_v<C, bf16>)
      if (with_residual) few.residual = residual.data() + first * n;
    if (norm != Norm::none)
      few.norm = {.w = scale.data(),
                  .shift = norm == Norm::layer ? shift.data() : nullptr,
                  .eps = 1e-5F,
                  .centred = norm == Norm::layer};
    return few;
  }

  // Row i of a, as it is multiplied.
  std::vector<double> row(std::int64_t i) const {
    std::vector<double> x(a.host.begin() + i * k, a.host.begin() + (i + 1) * k);
    if (norm == Norm::none) return x;
    double mean = 0, squares = 0;
    if (norm == Norm::layer) {
      for (const double v : x) mean += v;
      mean /= static_cast<double>(k);
    }
    for (const double v : x) squares += (v - mean) * (v - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(k) + 1e-5);
    for (std::int64_t c = 0; c < k; ++c) {
      const double y =
          (x[c] - mean) * rstd * scale.host[c] + (norm == Norm::layer ? shift.host[c] : 0);
      x[c] = static_cast<double>(static_cast<float>(bf16(static_cast<float>(y))));
    }
    return x;
  }

  const Weights& w;
  std::int64_t m, n, k;
  Input<bf16> a, bias, residual, scale, shift;
  Norm norm = Norm::none;
  bool with_bias = false, with_residual = false;
  Then then = Then::store;
};

// z of each element, and how far from it rounding may lead: of norms a number of x may be the next.
struct Expected {
  std::vector<double> z, bound;
};
Expected expected_of(const Problem& p) {
  Expected e;
  const bool has_q6 = std::ranges::any_of(
      p.w.form.classes(), [](const auto& of) { return of.type == BlockType::q6_k; });
  for (std::int64_t i = 0; i < p.m; ++i) {
    const auto x = p.row(i);
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = p.with_bias ? p.bias.host[j] : 0, sizes = 0;
      for (std::int64_t c = 0; c < p.k; ++c) {
        const double product = x[c] * static_cast<double>(p.w.numbers[j * p.k + c]);
        sum += product, sizes += std::fabs(product);
      }
      e.z.push_back(sum);
      // Sums in f32; q6_k's numbers of 12 bits; of norms some x of another last bit.
      const double of_numbers = has_q6 ? 0x1p-12 : 0, of_norm = p.norm == Norm::none ? 0 : 3e-4;
      e.bound.push_back(sizes * (2e-5 + of_numbers + of_norm) + 1e-9);
    }
  }
  return e;
}

double rounded(double bound, double value) { return bound + std::fabs(value) * 0x1p-8; }

void check_problem(const Problem& p) {
  const bool swiglu = p.then == Problem::Then::swiglu;
  const std::int64_t width = swiglu ? p.n / 2 : p.n;
  const Numbers<bf16> c(p.m * width), at(p.m * p.n);
  const bool with_at = p.then != Problem::Then::store;
  const auto few = p.on_gpu(c.data(), with_at ? at.data() : nullptr, 0, p.m);
  if (!cuda::has_packed_few_rows()) GTEST_SKIP() << "no kernel on this GPU";
  ASSERT_TRUE(cuda::packed_few_rows_fit(few, p.w.form));
  cuda::packed_few_rows(few, p.w.tiles->data(), p.w.form, nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  const Expected e = expected_of(p);
  const auto got = c.values(), got_at = at.values();
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const std::size_t place = static_cast<std::size_t>(i * p.n + j);
      const double z = e.z[place], bound = rounded(e.bound[place], z);
      if (with_at) {
        ASSERT_NEAR(got_at[place], z, bound) << i << " " << j;
      }
      if (swiglu && j >= width) continue;
      double y = z, of = bound;
      if (swiglu) {
        const double up = e.z[place + static_cast<std::size_t>(width)];
        const double gate = z / (1 + std::exp(-z));
        y = gate * up;
        of = 2 * (bound * std::fabs(up) +
                  std::fabs(gate) * rounded(e.bound[place + static_cast<std::size_t>(width)], up));
      }
      if (p.then == Problem::Then::gelu)
        y = 0.5 * z * (1 + std::tanh(0.7978845608028654 * (z + 0.044715 * z * z * z))), of *= 2;
      if (p.with_residual) y += p.residual.host[place], of += std::fabs(y) * 0x1p-8;
      ASSERT_NEAR(got[static_cast<std::size_t>(i * width + j)], y, of + 1e-6 * std::fabs(y))
          << i << " " << j;
    }
}

TEST_F(PackedTilesCuda, ProductsAreThoseOfTheNumbers) {
  for (const BlockType type : kBlockTypes)
    for (const std::int64_t cols : {256, 1280, 4352}) {
      const Weights w(std::vector<BlockType>(61, type), cols);
      for (const std::int64_t m : {1, 3, 8, 11, 16}) {
        SCOPED_TRACE(concat("type ", static_cast<int>(type), ", ", cols, " columns, m ", m));
        check_problem(Problem(w, m));
      }
      check_problem(Problem(w, 2, 50));
    }
}

// On an H100 or H200 two tiles a block, then one; x that is held whole and that is not.
TEST_F(PackedTilesCuda, ManyRows) {
  for (const BlockType type : {BlockType::q4_k, BlockType::e4m3, BlockType::int4_64}) {
    const Weights w(std::vector<BlockType>(2613, type), 2048);
    for (const std::int64_t m : {1, 9}) check_problem(Problem(w, m));
    const Weights wide(std::vector<BlockType>(40, type), 14336);
    for (const std::int64_t m : {1, 7, 16}) check_problem(Problem(wide, m));
  }
  for (const BlockType type : {BlockType::q4_k, BlockType::int8}) {
    const Weights w(std::vector<BlockType>(4400, type), 6144);
    for (const std::int64_t m : {2, 8}) check_problem(Problem(w, m));
  }
}

// On an H100 or H200 two blocks lie on a multiprocessor.
TEST_F(PackedTilesCuda, OfVeryManyRows) {
  for (const BlockType type : {BlockType::q5_k, BlockType::int4_128, BlockType::e4m3}) {
    const Weights w(std::vector<BlockType>(13016, type), 768);
    for (const std::int64_t m : {1, 6}) {
      Problem p(w, m);
      p.norm = Norm::rms;
      check_problem(p);
    }
    const Weights halves(std::vector<BlockType>(12800, type), 256);
    Problem p(halves, 1);
    p.then = Problem::Then::swiglu;
    check_problem(p);
  }
}

TEST_F(PackedTilesCuda, WhatGoesWithIt) {
  using Then = Problem::Then;
  for (const BlockType type : kBlockTypes)
    for (const std::int64_t m : {1, 5, 16})
      for (const Norm norm : {Norm::none, Norm::rms, Norm::layer})
        for (const Then then : {Then::store, Then::gelu, Then::swiglu}) {
          SCOPED_TRACE(concat("type ", static_cast<int>(type), ", m ", m, ", then ",
                              static_cast<int>(then), ", norm ", static_cast<int>(norm)));
          const std::int64_t cols = type == BlockType::q4_k ? 6400 : 512;
          const Weights w(std::vector<BlockType>(144, type), cols);
          Problem p(w, m);
          p.norm = norm, p.then = then;
          p.with_bias = true, p.with_residual = then == Then::store;
          check_problem(p);
        }
}

TEST_F(PackedTilesCuda, RowsOfSeveralTypes) {
  using enum BlockType;
  std::vector<BlockType> types(40, q4_k);
  types.insert(types.end(), 13, q6_k);
  types.insert(types.end(), 30, q4_k);
  types.insert(types.end(), 16, q6_k);
  const Weights w(types, 768);
  Problem p(w, 3);
  p.with_bias = p.with_residual = true;
  check_problem(p);
}

TEST_F(PackedTilesCuda, ARowHasTheBitsThatItHasAlone) {
  for (const BlockType type : kBlockTypes)
    for (const std::int64_t cols : {768, 9216}) {
      const Weights w(std::vector<BlockType>(61, type), cols);
      Problem p(w, 16);
      p.norm = Norm::rms;
      const Numbers<float> together(p.m * p.n), alone(p.n);
      const auto few = p.on_gpu<float>(together.data(), nullptr, 0, p.m);
      if (!cuda::has_packed_few_rows()) GTEST_SKIP() << "no kernel on this GPU";
      ASSERT_TRUE(cuda::packed_few_rows_fit(few, w.form));
      cuda::packed_few_rows(few, w.tiles->data(), w.form, nullptr);
      const auto all = together.bits();
      for (const std::int64_t i : {0, 5, 15}) {
        cuda::packed_few_rows(p.on_gpu<float>(alone.data(), nullptr, i, 1), w.tiles->data(), w.form,
                              nullptr);
        const auto bits = alone.bits();
        for (std::int64_t j = 0; j < p.n; ++j)
          ASSERT_EQ(bits[j], all[i * p.n + j]) << static_cast<int>(type) << " " << i << " " << j;
      }
    }
}

// As numbers of T.
template <class T>
void check_unpacked(const Weights& w) {
  const Numbers<T> y(w.form.rows() * w.form.cols());
  cuda::unpack_tiles(y.data(), w.tiles->data(), w.form, nullptr);
  const auto values = y.values();
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<double>(static_cast<float>(T(w.numbers[i])))) << i;
}

TEST_F(PackedTilesCuda, OfAnyRowsAreUnpacked) {
  std::vector<BlockType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  for (const BlockType type : kBlockTypes) types.insert(types.end(), 3, type);
  for (const std::int64_t cols : {768, 1280}) {
    const Weights w(types, cols);
    check_unpacked<float>(w);
    check_unpacked<bf16>(w);
    check_unpacked<check::fp16>(w);
  }
}

TEST_F(PackedTilesCuda, AreUnpackedAndLookedUp) {
  for (const BlockType type : kBlockTypes) {
    const std::int64_t cols = 1280;
    const Weights w(std::vector<BlockType>(21, type), cols);
    const Numbers<float> y(21 * cols);
    cuda::unpack_tiles(y.data(), w.tiles->data(), w.form, nullptr);
    const auto bits = y.bits();
    for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(bits[i], w.numbers[i]) << i;
    const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{13, 10, 12, 31, 30, 9});
    const Numbers<bf16> rows(6 * cols);
    cuda::tiles_embedding(rows.data(), ids.data(), w.tiles->data(), w.form, 6, 10, nullptr);
    const auto found = rows.values();
    const std::int64_t of[] = {3, 0, 2, -1, 20, -1};
    for (std::int64_t i = 0; i < 6; ++i)
      for (std::int64_t c = 0; c < cols; ++c) {
        const float number = of[i] < 0 ? 0 : w.numbers[of[i] * cols + c];
        ASSERT_EQ(found[i * cols + c], static_cast<double>(static_cast<float>(bf16(number)))) << i;
      }
  }
}

}  // namespace
}  // namespace mt
