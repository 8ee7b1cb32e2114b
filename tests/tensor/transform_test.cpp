// Rearrangements of weights against a reference on nested vectors, and back again.
#include "tensor/transform.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

using Row = std::vector<std::int32_t>;
using Matrix = std::vector<Row>;

Matrix reference(const Rearrange& step, const Matrix& x) {
  Matrix y;
  switch (step.kind) {
    case Rearrange::Kind::transpose:
      for (std::size_t c = 0; c < x[0].size(); ++c) {
        Row& row = y.emplace_back();
        for (const Row& r : x) row.push_back(r[c]);
      }
      break;
    case Rearrange::Kind::rows:
      for (std::size_t start = 0; start < x.size(); start += static_cast<std::size_t>(step.period))
        for (std::int64_t i = 0; i < step.count; ++i)
          y.push_back(x[start + static_cast<std::size_t>(step.first + i)]);
      break;
    case Rearrange::Kind::exchange: {  // x[outer][inner][rest] becomes y[inner][outer][rest]
      const auto outer = static_cast<std::size_t>(step.outer);
      const auto inner = static_cast<std::size_t>(step.inner);
      const std::size_t rest = x.size() / (outer * inner);
      for (std::size_t i = 0; i < inner; ++i)
        for (std::size_t o = 0; o < outer; ++o)
          for (std::size_t r = 0; r < rest; ++r) y.push_back(x[(o * inner + i) * rest + r]);
      break;
    }
    case Rearrange::Kind::sort: {
      const auto period = static_cast<std::size_t>(step.period);
      const std::size_t ends[] = {0, static_cast<std::size_t>(step.first),
                                  static_cast<std::size_t>(step.first + step.count), period};
      for (std::size_t part = 0; part < 3; ++part)
        for (std::size_t start = 0; start < x.size(); start += period)
          for (std::size_t i = ends[part]; i < ends[part + 1]; ++i) y.push_back(x[start + i]);
      break;
    }
    case Rearrange::Kind::swap: {
      const auto period = static_cast<std::size_t>(step.period);
      const auto first = static_cast<std::size_t>(step.first);
      const auto count = static_cast<std::size_t>(step.count);
      y = x;
      for (std::size_t start = first; start < x.size(); start += period)
        for (std::size_t i = 0; i < count; ++i) std::swap(y[start + i], y[start + count + i]);
      break;
    }
    case Rearrange::Kind::deal: {
      const std::size_t runs = x.size() / static_cast<std::size_t>(step.period);
      for (std::size_t run = 0; run < runs; ++run) {
        std::size_t begin = 0;
        for (const std::int64_t part : step.parts) {
          const auto count = static_cast<std::size_t>(part);
          for (std::size_t i = 0; i < count; ++i) y.push_back(x[begin + run * count + i]);
          begin += runs * count;
        }
      }
      break;
    }
    case Rearrange::Kind::reshape:
      for (const Row& row : x)
        for (const std::int32_t number : row) {
          if (y.empty() || std::ssize(y.back()) == step.shape[1]) y.emplace_back();
          y.back().push_back(number);
        }
      break;
    case Rearrange::Kind::scale:
    case Rearrange::Kind::shift:
      break;  // of floating-point numbers: see below
  }
  return y;
}

Row flat(const Matrix& x) {
  Row all;
  for (const Row& row : x) all.insert(all.end(), row.begin(), row.end());
  return all;
}

struct Case {
  std::string name;
  Transform transform;
  std::int64_t rows, cols;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  return {
      {"nothing", {}, 3, 5},
      {"transposed", {transpose()}, 3, 5},
      {"transposed_twice", {transpose(), transpose()}, 3, 5},
      {"every_row", {pick_rows(4, 0, 4)}, 8, 3},
      {"first_of_three", {pick_rows(3, 0, 1)}, 9, 2},
      {"last_two_of_five", {pick_rows(5, 3, 2)}, 15, 4},
      {"queries", {pick_rows(16, 0, 8)}, 48, 3},
      {"values_transposed", {pick_rows(16, 12, 4), transpose()}, 48, 3},
      {"of_rows_of_rows", {pick_rows(6, 2, 4), pick_rows(4, 1, 2)}, 12, 3},
      {"sorted", {sort_rows(4, 2, 1)}, 12, 3},
      {"sorted_then_picked", {sort_rows(6, 3, 2), pick_rows(3, 1, 2)}, 12, 2},
      {"swapped", {swap_rows(6, 1, 2)}, 18, 3},
      {"swapped_halves", {swap_rows(4, 0, 2)}, 8, 1},
      {"of_four", {swap_rows(6, 2, 2), exchange(8, 3), exchange(3, 4)}, 48, 3},
      {"dealt", {deal_rows({2, 1, 3})}, 18, 3},
      {"picked_then_dealt", {pick_rows(9, 1, 8), deal_rows({1, 3})}, 9, 2},
      {"sorted_then_dealt", {sort_rows(6, 3, 2), deal_rows({3, 2, 1})}, 12, 2},
      {"exchanged", {exchange(2, 3)}, 6, 4},
      {"exchanged_runs", {exchange(4, 3)}, 60, 2},
      {"exchanged_back", {exchange(4, 3), exchange(3, 4)}, 60, 2},
      {"gpt2_qkv", {exchange(4, 3), transpose()}, 48, 16},
      {"transposed_then_picked", {transpose(), pick_rows(2, 1, 1)}, 5, 8},
      {"reshaped", {reshape({6, 4})}, 8, 3},
      {"patches", {transpose(), exchange(4, 3), transpose(), reshape({15, 4})}, 5, 12},
      {"all_kinds", {exchange(2, 3), pick_rows(6, 1, 4), transpose(), exchange(5, 1)}, 12, 5},
  };
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }

class OfATransform : public testing::TestWithParam<Case> {
 protected:
  OfATransform() {
    const auto& [name, transform, rows, cols] = GetParam();
    std::int32_t next = 1;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) ours_[static_cast<std::size_t>(r)].push_back(next++);
    theirs_ = ours_;
    for (const Rearrange& step : transform) theirs_ = reference(step, theirs_);
    theirs_shape_ = {std::ssize(theirs_), std::ssize(theirs_[0])};
  }
  const Shape ours_shape_{GetParam().rows, GetParam().cols};
  Matrix ours_ = Matrix(static_cast<std::size_t>(GetParam().rows)), theirs_;
  Shape theirs_shape_;
};

INSTANTIATE_TEST_SUITE_P(Each, OfATransform, testing::ValuesIn(cases()), name_of_case);

TEST_P(OfATransform, ShapeIsTheReferences) {
  EXPECT_EQ(transformed_shape(GetParam().transform, ours_shape_), theirs_shape_);
}

TEST_P(OfATransform, ApplyIsTheReference) {
  const HostTensor ours(ours_shape_, flat(ours_)), theirs(DType::i32, theirs_shape_);
  apply(GetParam().transform, theirs, ours);
  EXPECT_SAME_BITS(theirs, HostTensor(theirs_shape_, flat(theirs_)));
}

TEST_P(OfATransform, InverseWritesWhatApplyReadsAndNothingElse) {
  const HostTensor ours(ours_shape_, Row(flat(ours_).size(), 0));
  apply_inverse(GetParam().transform, ours, HostTensor(theirs_shape_, flat(theirs_)));
  const Row chosen = flat(theirs_), all = flat(ours_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool was_chosen = std::ranges::find(chosen, all[i]) != chosen.end();
    EXPECT_EQ(ours.span<std::int32_t>()[i], was_chosen ? all[i] : 0) << i;
  }
}

// A matrix of 6 groups of 5 rows, split in three and put together again.
TEST(Transform, PartsPutTogetherAreTheWhole) {
  const HostTensor whole = random_tensor(DType::f32, {30, 4}, 1), again(DType::f32, {30, 4});
  for (const Transform& part : {Transform{pick_rows(5, 0, 3)}, Transform{pick_rows(5, 3, 1)},
                                Transform{pick_rows(5, 4, 1), transpose()}}) {
    const HostTensor theirs(DType::f32, transformed_shape(part, {30, 4}));
    apply(part, theirs, whole);
    apply_inverse(part, again, theirs);
  }
  EXPECT_SAME_BITS(again, whole);
}

TEST(Transform, RowsOfAVector) {
  const HostTensor ours({6}, {0, 1, 2, 3, 4, 5}), theirs(DType::i32, {4}),
      exchanged(DType::i32, {6});
  apply({pick_rows(3, 1, 2)}, theirs, ours);
  EXPECT_SAME_BITS(theirs, HostTensor({4}, {1, 2, 4, 5}));
  apply({exchange(3, 2)}, exchanged, ours);
  EXPECT_SAME_BITS(exchanged, HostTensor({6}, {0, 2, 4, 1, 3, 5}));
}

TEST(Transform, ScalesWithoutRounding) {
  const Transform transform{pick_rows(3, 1, 1), scale(0.25)};
  const HostTensor ours = random_tensor(DType::f32, {6, 5}, 1), theirs(DType::f32, {2, 5}),
                   again(DType::f32, {6, 5});
  apply(transform, theirs, ours);
  apply_inverse(transform, again, theirs);
  for (std::int64_t i = 0; i < 10; ++i) {
    const std::int64_t at = (i / 5 * 3 + 1) * 5 + i % 5;
    EXPECT_EQ(element(theirs, i), element(ours, at) / 4);
    EXPECT_EQ(element(again, at), element(ours, at));
  }
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const HostTensor one(dtype, {1}), more(dtype, {1});
    const std::size_t top = size_of(dtype) - 1;  // 2^15 times that is infinite
    static_cast<std::uint8_t*>(one.view().data())[top] = dtype == DType::f16 ? 0x78 : 0x7f;
    EXPECT_EQ(error_of([&] { apply({scale(0x1p15)}, more, one); }).substr(0, 3), "65 ")
        << name_of(dtype);
    static_cast<std::uint8_t*>(one.view().data())[top] = dtype == DType::f16 ? 0x3c : 0x3f;
    apply({scale(0x1p15)}, more, one);
    apply_inverse({scale(0x1p15)}, one, more);
    EXPECT_EQ(static_cast<std::uint8_t*>(one.view().data())[top],
              dtype == DType::f16 ? 0x3c : 0x3f);
  }
}

TEST(Transform, ShiftsAndRounds) {
  const HostTensor ours = random_tensor(DType::f32, {6}, 1), theirs(DType::f32, {2}),
                   again(DType::f32, {6});
  const Transform transform{pick_rows(3, 2, 1), shift(1)};
  apply(transform, theirs, ours);
  apply_inverse(transform, again, theirs);
  for (std::size_t i = 0; i < 2; ++i) {
    const float shifted = ours.span<float>()[3 * i + 2] + 1;
    EXPECT_EQ(theirs.span<float>()[i], shifted);
    EXPECT_EQ(again.span<float>()[3 * i + 2], shifted - 1);
  }
}

TEST(Transform, AnyElementType) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::i64}) {
    const HostTensor ours(dtype, {2, 3}), theirs(dtype, {3, 2}), again(dtype, {2, 3});
    auto* bytes = static_cast<std::uint8_t*>(ours.view().data());
    for (std::size_t i = 0; i < ours.view().bytes(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
    apply({transpose()}, theirs, ours);
    apply_inverse({transpose()}, again, theirs);
    EXPECT_SAME_BITS(again, ours);
    const std::size_t size = size_of(dtype);
    EXPECT_EQ(
        std::memcmp(static_cast<std::byte*>(theirs.view().data()) + size, bytes + 3 * size, size),
        0);
  }
}

}  // namespace
}  // namespace mt
