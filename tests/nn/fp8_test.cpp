// Linear layers that multiply eight bits against a twin of PyTorch's types.
#include "nn/fp8_layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "kernels/fp8.h"
#include "nn/mlp.h"
#include "ops/fp8.h"
#include "ops/ops.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

constexpr std::int64_t kTokens = 32, kIn = 48, kHidden = 64, kOut = 16;

// As numbers() of scripts/make-fp8-goldens.py.
HostTensor numbers(DType dtype, const Shape& shape, std::uint32_t seed, double factor) {
  HostTensor tensor(dtype, shape);
  fill_with(tensor.view(), [&](std::int64_t i) {
    const std::uint32_t bits = (static_cast<std::uint32_t>(i) + 1000003U * seed) * 374761393U;
    return static_cast<double>(static_cast<float>(bits / 2147483648.0 - 1) *
                               static_cast<float>(factor));
  });
  return tensor;
}

Param row(const char* module, std::int64_t out, std::int64_t in) {
  return {.place = {.stack = "decoder", .layer = 0, .module = module, .param = "weight"},
          .shape = {out, in}};
}

struct Case {
  DType dtype = DType::f32;
  bool hybrid = true, blockwise = false, deferring = false, keeps_weights = true,
       weight_gradients = true;
  std::optional<Fp8Rules::Delayed> delayed = {};
  bool recompute = false;
};

// An MLP's numbers: y, the gradients of x, of its weights and of their biases.
class Twin {
 public:
  explicit Twin(const Case& c)
      : case_(c),
        fc1_(table_, row("fc1", kHidden, kIn), true),
        fc2_(table_, row("fc2", kOut, kHidden), true),
        mlp_(fc1_, fc2_, Activation::gelu_tanh, 0, 0, c.recompute),
        bench_(
            {.dtype = c.dtype, .sequences = 1, .seq_length = kTokens, .deferring = c.deferring}) {
    table_.allocate(Device::cpu, c.dtype, true);
    const auto put = [&](const char* name, std::uint32_t seed, double factor) {
      Param& param = table_.at(concat("decoder.layers.0.", name));
      const HostTensor from = numbers(c.dtype, param.shape, seed, factor);
      copy(param.value, from.view(), bench_.stream());
    };
    put("fc1.weight", 2, 0.5);
    put("fc2.weight", 3, 0.25);
    put("fc1.bias", 4, 1);
    put("fc2.bias", 5, 1);
    fp8_.emplace(table_,
                 Fp8Rules{.multiplies = [](const RowPlace&) { return true; },
                          .hybrid = c.hybrid,
                          .weight_gradients = c.weight_gradients,
                          .keeps_weights = c.keeps_weights,
                          .delayed = c.delayed,
                          .blockwise = c.blockwise},
                 bench_.stream());
  }

  std::map<std::string, HostTensor> run() {
    const HostTensor x = numbers(case_.dtype, {kTokens, kIn}, 1, 1),
                     dy = numbers(case_.dtype, {kTokens, kOut}, 6, 0.01),
                     nothing(case_.dtype, {kTokens, kOut});
    std::map<std::string, HostTensor> made;
    made.emplace("y", HostTensor(case_.dtype, {kTokens, kOut}));
    made.emplace("dx", HostTensor(case_.dtype, {kTokens, kIn}));
    Step s = bench_.step();
    s.fp8 = &*fp8_;
    s.new_weights = true;
    Mlp::Saved saved;
    mlp_.forward(s, made.at("y"), nothing.view(), x.view(), &saved);
    s.new_weights = false;
    for (const Param& param : table_.rows()) set_zero(param.grad, s.stream);
    mlp_.backward(s, made.at("dx"), dy.view(), x.view(), saved);
    bench_.run_weight_grads();
    for (const Param& param : table_.rows())
      made.emplace(concat(param.place.param == "bias" ? "db" : "dw",
                          param.place.module == "fc1" ? "1" : "2"),
                   clone(param.grad));
    return made;
  }
  Fp8Layers& fp8() { return *fp8_; }
  Stream& stream() { return bench_.stream(); }

 private:
  Case case_;
  ParamTable table_;
  Linear fc1_, fc2_;
  Mlp mlp_;
  Workbench bench_;
  std::optional<Fp8Layers> fp8_;
};

void expect_same(const Case& got, const Case& expected) {
  Twin a(got), b(expected);
  const auto x = a.run(), y = b.run();
  for (const auto& [name, tensor] : y) EXPECT_SAME_BITS(x.at(name).view(), tensor.view()) << name;
}

TEST(Fp8Linear, MultipliesAsATwinOfPyTorchs) {
  std::ifstream golden(std::string(MT_TESTDATA) + "/fp8/torch.golden");
  int compared = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream words(line);
    std::string what, format, name;
    words >> what >> format >> name;
    if (what != "mlp") continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      Twin twin({.dtype = dtype, .hybrid = format == "hybrid", .blockwise = format == "blockwise"});
      const auto made = twin.run();
      const Tensor got = made.at(name).view();
      std::istringstream values(line);
      values >> what >> format >> what;
      double value = 0;
      const double bound = 2e-6 * largest(got);
      std::int64_t i = 0;
      for (; values >> value; i += 7)
        ASSERT_NEAR(element(got, i), value, bound) << name << ' ' << i;
      EXPECT_EQ(i, (got.numel() + 6) / 7 * 7);
    }
    ++compared;
  }
  EXPECT_EQ(compared, 18);
}

TEST(Fp8Linear, HasTheSameBitsDeferredAgainAndWithoutKeptWeights) {
  expect_same({.deferring = true}, {});
  expect_same({.recompute = true}, {});
  expect_same({.deferring = true, .recompute = true}, {});
  expect_same({.keeps_weights = false}, {});
  const Case blocks{.hybrid = false, .blockwise = true};
  expect_same({.hybrid = false, .blockwise = true, .deferring = true, .recompute = true}, blocks);
  expect_same({.hybrid = false, .blockwise = true, .keeps_weights = false}, blocks);
}

// The gradients of weights alone are others: nearer to those without rounding.
TEST(Fp8Linear, MayLeaveGradientsOfWeightsAsTheyAre) {
  Twin with({}), without({.weight_gradients = false});
  const auto a = with.run(), b = without.run();
  for (const auto& [name, tensor] : a) {
    if (name != "dw2" && name != "dw1") {
      EXPECT_SAME_BITS(b.at(name).view(), tensor.view()) << name;
      continue;
    }
    const double difference = worst_error(b.at(name).view(), tensor.view());
    EXPECT_GT(difference, 1e-4) << name;
    EXPECT_LT(difference, 0.1) << name;
  }
}

// The first step has scales of 1, the next those that the first one's numbers ask for; from what is
// remembered another goes on with the same bits.
TEST(Fp8Linear, DelaysScalesByAStep) {
  Twin delayed({.delayed = Fp8Rules::Delayed{.length = 3}}), at_once({});
  const auto expected = at_once.run(), first = delayed.run();
  EXPECT_GT(worst_error(first.at("dx").view(), expected.at("dx").view()), 1e-3);
  for (const auto& [name, numbers] : delayed.fp8().memories(delayed.stream()))
    EXPECT_EQ(numbers, (std::vector<float>{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})) << name;
  delayed.fp8().update_scales({}, delayed.stream());
  const auto memories = delayed.fp8().memories(delayed.stream());
  ASSERT_EQ(memories.size(), 2);
  for (const auto& [name, numbers] : memories)
    for (std::size_t operand = 0; operand < 3; ++operand) {
      const float amax = numbers[3 + 3 * operand];
      EXPECT_EQ(numbers[operand],
                fp8_scale_of(amax, operand == 2 ? Fp8Format::e5m2 : Fp8Format::e4m3));
      EXPECT_EQ(numbers[4 + 3 * operand], 0);
    }
  const auto second = delayed.run();
  Twin other({.delayed = Fp8Rules::Delayed{.length = 3}});
  for (const Fp8Layers::Memory& memory : memories) other.fp8().remember(memory, other.stream());
  const auto again = other.run();
  for (const auto& [name, tensor] : second)
    EXPECT_SAME_BITS(again.at(name).view(), tensor.view()) << name;
}

// What is not finite in a micro-batch is of the whole step.
TEST(Fp8Linear, LargestNumberStaysNanUntilTheStepIsOver) {
  Stream stream(Device::cpu);
  HostTensor x(DType::f32, {16, 16}), scale(DType::f32, {1}), amax(DType::f32, {1});
  HostTensor codes(DType::u8, {16, 16});
  fill(scale, 1, stream);
  set_zero(amax, stream);
  for (const float most : {2.F, NAN, 3.F}) {
    fill(x, most, stream);
    fp8_cast(codes, {}, amax, x, scale, Fp8Format::e4m3, stream);
  }
  EXPECT_TRUE(std::isnan(element(amax.view(), 0)));
}

TEST(Fp8Linear, IsOfMultiplesOfSixteen) {
  ParamTable table;
  table.add(row("fc1", 24, 32));
  Stream stream(Device::cpu);
  try {
    const Fp8Layers fp8(table, {.multiplies = [](const RowPlace&) { return true; }}, stream);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_config);
    EXPECT_STREQ(error.what(),
                 "decoder.layers.0.fc1.weight: [24, 32], of which fp8 needs multiples of 16");
  }
}

// Rows from one on are multiplied by their own inverses, as are those that are by themselves, of
// which sixteen are multiplied at a time: rows are of sizes 2, 4, 8 and so on.
TEST(Fp8Matmul, RowsOfBlocksHaveTheirOwnInverses) {
  constexpr std::int64_t kRows = 40, kColumns = 256, kMade = 16;
  Stream stream(Device::cpu);
  HostTensor x = numbers(DType::f32, {kRows, kColumns}, 1, 1);
  const HostTensor w = numbers(DType::f32, {kMade, kColumns}, 2, 1);
  for (std::int64_t i = 0; i < kRows * kColumns; ++i)
    x.view().as<float>()[i] *= std::ldexp(1.0F, static_cast<int>(i / kColumns));
  const auto cast = [&](const HostTensor& from, HostTensor& codes, HostTensor& inverse) {
    fp8_block_cast({codes.view(), inverse.view(), {}, {}}, from.view(), false, stream);
  };
  HostTensor a(DType::u8, {kRows, kColumns}), b(DType::u8, {kMade, kColumns}),
      of_a(DType::f32, {2, kRows}), of_b(DType::f32, {2, kMade});
  cast(x, a, of_a);
  cast(w, b, of_b);
  const auto product = [&](std::int64_t begin, std::int64_t end, bool alone) {
    HostTensor y(DType::f32, {end - begin, kMade});
    matmul({.out = y.view(),
            .a = a.view().rows(begin, end),
            .b = b.view(),
            .transpose_b = true,
            .rows_alone = alone,
            .codes = {.a_inverse = of_a.view(),
                      .b_inverse = of_b.view(),
                      .blocks = true,
                      .first_row = begin}},
           stream);
    const auto* const from = y.view().as<float>();
    return std::vector<float>(from, from + (end - begin) * kMade);
  };
  const std::vector<float> whole = product(0, kRows, false);
  EXPECT_EQ(product(0, kRows, true), whole);
  EXPECT_EQ(product(24, kRows, false), std::vector<float>(whole.begin() + 24 * kMade, whole.end()));
}

}  // namespace
}  // namespace mt
