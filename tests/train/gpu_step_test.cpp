// Steps of training on a GPU beside the same steps on the CPU, and that their bits repeat: the
// program's self-test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/half.h"
#include "kernels/gpu.h"
#include "model/config/model_config.h"
#include "ops/ops.h"
#include "tensor/device.h"
#include "tensor/host_copy.h"
#include "train/check/self_test.h"

namespace mt {
namespace {

class GpuStep : public testing::Test {
 protected:
  void SetUp() override {
    if (device::count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(GpuStep, AgreesWithTheCpuAndWithItself) {
  const std::vector<Comparison> comparisons = self_test(Device::cuda);
  EXPECT_EQ(comparisons.size(), 20);
  std::fputs(self_test_text(comparisons).c_str(), stdout);
  EXPECT_NO_THROW(check_self_test(comparisons));
}

// Work that was captured between others' is replayed in another order.
TEST_F(GpuStep, GivesTheSameBitsWithoutGraphsWithTwoMicroBatchesInFlight) {
  SmallRun run{.model = small_llama, .device = Device::cuda, .dtype = DType::f32, .ahead = true};
  const SmallRunResult with = run_small(run);
  run.graphs = false;
  const SmallRunResult without = run_small(run);
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.weights, without.weights);
}

// The experts are in a Llama's second layer; their routers have losses, and one expert is shared.
ModelConfig small_experts() {
  ModelConfig config = small_llama();
  config.family = ModelFamily::mixtral;
  config.num_experts = 6;
  config.moe_router_topk = 2;
  config.moe_layer_freq = "[0,1]";
  config.moe_ffn_hidden_size = 136;
  config.moe_shared_expert_intermediate_size = 64;
  config.moe_router_load_balancing_type = {"aux_loss", "seq_aux_loss"};
  config.moe_aux_loss_coeff = {0.1, 0.07};
  config.moe_z_loss_coeff = 0.01;
  return config;
}

// Some of these experts have no room for tokens that chose them.
ModelConfig small_full_experts() {
  ModelConfig config = small_experts();
  config.moe_expert_capacity_factor = 0.75;
  return config;
}

// The host reads how many rows experts have only where no kernel does.
TEST_F(GpuStep, GivesTheSameBitsWithoutGraphsOfExperts) {
  for (const auto model : {&small_experts, &small_full_experts})
    for (const bool ahead : {false, true}) {
      SCOPED_TRACE(
          concat(model == &small_experts ? "all rows" : "few rows", ahead ? ", ahead" : ""));
      SmallRun run{.model = model, .device = Device::cuda, .dtype = DType::bf16, .ahead = ahead};
      const SmallRunResult with = run_small(run);
      EXPECT_EQ(with.graphs > 0, counts_groups(Device::cuda, DType::bf16, 6, {8}));
      EXPECT_EQ(run_small(run).weights, with.weights);
      run.graphs = false;
      const SmallRunResult without = run_small(run);
      EXPECT_EQ(with.losses, without.losses);
      EXPECT_EQ(with.gradients, without.gradients);
      EXPECT_EQ(with.weights, without.weights);
      run.device = Device::cpu;
      run.dtype = DType::f64;
      const SmallRunResult exact = run_small(run);
      EXPECT_LT(relative_error(with.losses, exact.losses), 2e-2);
      // Of experts, some tokens go to others than they do by exact numbers.
      for (const auto& [name, gradient] : exact.gradients)
        EXPECT_LT(relative_error(with.gradients.at(name), gradient), 0.2) << name;
    }
}

ModelConfig of_routers(const char* type) {
  ModelConfig config = small_experts();
  config.moe_router_dtype = type;
  return config;
}
ModelConfig routers_of_f32() { return of_routers("fp32"); }
ModelConfig routers_of_f64() { return of_routers("fp64"); }

// Without gates, and with biases, of routers too.
ModelConfig small_biased_experts() {
  ModelConfig config = small_experts();
  config.swiglu = false;
  config.add_bias_linear = true;
  config.moe_layer_freq = "1";
  config.moe_shared_expert_intermediate_size = 0;
  return config;
}
ModelConfig biased_routers_of_f32() {
  ModelConfig config = small_biased_experts();
  config.moe_router_dtype = "fp32";
  return config;
}

// Routers of f32 are near those of f64, in front of which all is the same, and others are not.
TEST_F(GpuStep, ComputesRoutersInWiderTypes) {
  const std::string router = "decoder.layers.1.mlp.router.weight";
  for (const bool bf16_gradients : {false, true}) {
    SmallRun run{.device = Device::cuda, .dtype = DType::bf16, .bf16_gradients = bf16_gradients};
    const auto ran = [&](ModelConfig (*model)()) {
      run.model = model;
      run.graphs = true;
      SmallRunResult with = run_small(run);
      EXPECT_EQ(with.used, with.planned);
      EXPECT_EQ(run_small(run).weights, with.weights);
      run.graphs = false;
      EXPECT_EQ(run_small(run).weights, with.weights);
      return with;
    };
    const SmallRunResult own = ran(small_experts), single = ran(routers_of_f32),
                         precise = ran(routers_of_f64);
    const double near = relative_error(single.gradients.at(router), precise.gradients.at(router)),
                 far = relative_error(own.gradients.at(router), precise.gradients.at(router));
    std::printf("gradients of routers: f32 %g, bf16 %g from f64\n", near, far);
    EXPECT_LT(near, bf16_gradients ? 1e-2 : 1e-3);
    EXPECT_GT(far, 2 * near);
    ran(biased_routers_of_f32);
  }
  SmallRun run{.model = small_experts, .device = Device::cuda, .dtype = DType::f32};
  const SmallRunResult own = run_small(run);
  run.model = routers_of_f32;
  EXPECT_EQ(run_small(run).weights, own.weights);
  run.model = routers_of_f64;
  const SmallRunResult precise = run_small(run);
  run.device = Device::cpu;
  EXPECT_LT(relative_error(run_small(run).losses, precise.losses), 1e-5);
}

ModelConfig small_gelu_experts() {
  ModelConfig config = small_experts();
  config.swiglu = false;
  config.bias_gelu_fusion = false;
  return config;
}
ModelConfig small_squared_experts() {
  ModelConfig config = small_experts();
  config.swiglu = false;
  config.squared_relu = true;
  return config;
}

TEST_F(GpuStep, ComputesExpertsWithoutGates) {
  for (const auto model : {&small_gelu_experts, &small_squared_experts, &small_biased_experts}) {
    SmallRun run{.model = model};
    const SmallRunResult exact = run_small(run);
    run.device = Device::cuda;
    run.dtype = DType::f32;
    const SmallRunResult single = run_small(run);
    EXPECT_LT(relative_error(single.losses, exact.losses), 1e-5);
    for (const auto& [name, gradient] : exact.gradients)
      EXPECT_LT(relative_error(single.gradients.at(name), gradient), 1e-3) << name;
    run.dtype = DType::bf16;
    const SmallRunResult with = run_small(run);
    EXPECT_EQ(with.used, with.planned);
    EXPECT_EQ(with.graphs > 0,
              model != &small_biased_experts && counts_groups(Device::cuda, DType::bf16, 6, {8}));
    EXPECT_LT(relative_error(with.losses, exact.losses), 2e-2);
    for (const auto& [name, gradient] : exact.gradients)
      EXPECT_LT(relative_error(with.gradients.at(name), gradient), 0.2) << name;
    run.graphs = false;
    EXPECT_EQ(run_small(run).weights, with.weights);
  }
}

// The expert that all tokens go to has a gate.
ModelConfig small_gated_expert() {
  ModelConfig config = small_experts();
  config.moe_shared_expert_gate = true;
  return config;
}

TEST_F(GpuStep, ComputesSharedExpertsAsideWithTheSameBits) {
  for (const auto model : {&small_experts, &small_gated_expert})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool ahead : {false, true}) {
        SCOPED_TRACE(concat(model == &small_experts ? "plain " : "gated ", name_of(dtype),
                            ahead ? ", ahead" : ""));
        SmallRun run{.model = model, .device = Device::cuda, .dtype = dtype, .ahead = ahead};
        const SmallRunResult behind = run_small(run);
        run.shared_experts_aside = true;
        for (const bool graphs : {true, false}) {
          run.graphs = graphs;
          const SmallRunResult aside = run_small(run);
          EXPECT_EQ(aside.graphs, graphs ? behind.graphs : 0);
          EXPECT_EQ(aside.used, aside.planned);
          EXPECT_EQ(aside.losses, behind.losses);
          EXPECT_EQ(aside.gradients, behind.gradients);
          EXPECT_EQ(aside.weights, behind.weights);
        }
      }
}

// The optimizer counts on it.
TEST_F(GpuStep, BeginsWithMemoryOfZeros) {
  const Shape bytes{1 << 24};
  for (const std::uint8_t left : {1, 2}) {
    const Buffer buffer(Device::cuda, 1 << 24);
    const HostCopy found = HostCopy::of(buffer.tensor(DType::u8, bytes));
    const auto values = found.tensor().span<std::uint8_t>();
    EXPECT_EQ(std::ranges::count(values, 0), std::ssize(values));
    std::ranges::fill(values, left);
    found.upload();
  }
}

TEST_F(GpuStep, KeepsMomentsInBf16) {
  SmallRun run{.model = small_llama, .dtype = DType::f32, .bf16_moments = true};
  const SmallRunResult expected = run_small(run);
  run.device = Device::cuda;
  const SmallRunResult got = run_small(run);
  EXPECT_LT(relative_error(got.losses, expected.losses), 1e-5);
  run.bf16_moments = false;
  EXPECT_NE(run_small(run).losses, got.losses);
}

TEST_F(GpuStep, KeepsMainWeightsInFp16) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    SmallRun run{.model = small_llama, .device = Device::cuda, .dtype = dtype};
    const SmallRunResult whole = run_small(run);
    run.fp16_masters = true;
    const SmallRunResult got = run_small(run);
    EXPECT_EQ(run_small(run).losses, got.losses);
    EXPECT_LT(relative_error(got.losses, whole.losses), 1e-3);
    for (const auto& [name, weights] : whole.weights) {
      SCOPED_TRACE(name);
      const double error = relative_error(got.weights.at(name), weights);
      EXPECT_LT(error, 4e-3);  // of 11 bits, step by step, and of gradients that differ by it
      EXPECT_GT(error, 0);
    }
  }
}

// Rounded after each micro-batch, as Megatron's buffer is by the products that add to it; what a
// product adds may have been rounded before.
TEST_F(GpuStep, AddsGradientsUpInBf16) {
  SmallRun run{.model = small_llama, .device = Device::cuda, .dtype = DType::bf16};
  const SmallRunResult two = run_small(run);
  run.micro_batches = 1;
  const SmallRunResult first = run_small(run);
  run.bf16_gradients = true;
  const SmallRunResult first_rounded = run_small(run);
  run.micro_batches = 2;
  const SmallRunResult two_rounded = run_small(run);
  const auto rounded = [](double x) { return static_cast<float>(Bf16(static_cast<float>(x))); };
  std::size_t elements = 0, at_the_end = 0;  // whose sum is another if only that is rounded
  for (const auto& [name, sums] : two.gradients) {
    SCOPED_TRACE(name);
    const std::vector<double>& of_first = first.gradients.at(name);
    const std::vector<double>& got = two_rounded.gradients.at(name);
    std::vector<double> expected_first, expected, of_rounded;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double second = sums[i] - of_first[i];
      expected_first.push_back(rounded(of_first[i]));
      expected.push_back(rounded(expected_first[i] + second));
      of_rounded.push_back(rounded(expected_first[i] + rounded(second)));
      at_the_end += rounded(sums[i]) != expected[i];
    }
    // A product may add in another order where its result is of another type.
    constexpr double kOrder = 4e-4;
    const bool by_product =
        name.find("linear_") != std::string::npos || name.starts_with("output_");
    EXPECT_LT(relative_error(first_rounded.gradients.at(name), expected_first), kOrder);
    const double error = relative_error(got, expected);
    EXPECT_LT(by_product ? std::min(error, relative_error(got, of_rounded)) : error, kOrder);
    elements += sums.size();
  }
  EXPECT_GT(at_the_end, elements / 20);
  EXPECT_LT(relative_error(two_rounded.losses, two.losses), 1e-3);
}

// Rules by which modules multiply eight bits, in one layer or in all.
Fp8Rules eight_bits(const std::string& recipe, const std::string& modules,
                    std::optional<std::int64_t> layer = {}) {
  Fp8Rules rules{.multiplies =
                     [modules, layer](const RowPlace& place) {
                       return place.layer && (!layer || *place.layer == *layer) &&
                              place.module.find(modules) != std::string::npos;
                     },
                 .hybrid = recipe != "blockwise",
                 .blockwise = recipe == "blockwise"};
  if (recipe == "delayed") rules.delayed = Fp8Rules::Delayed{.length = 2, .most_recent = false};
  return rules;
}

// A number that differs in its last bits may have another code, an eighth away, and other numbers
// then have other codes, too: so after some layers a GPU's rounding to codes is not the CPU's, and
// its gradients are as far from the CPU's as those are from exact ones.  They are no farther from
// these.
TEST_F(GpuStep, MultipliesEightBitsAsTheCpu) {
  if (!device::without_fp8().empty()) GTEST_SKIP() << device::without_fp8();
  for (const std::string recipe : {"tensorwise", "delayed", "blockwise"})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      if (recipe == "blockwise" && dtype == DType::f16) continue;
      const std::string called = concat(recipe, " in ", name_of(dtype));
      SCOPED_TRACE(called);
      SmallRun run{.model = small_llama, .loss_scale = dtype == DType::f16 ? 1024.0 : 1.0};
      const SmallRunResult exact = run_small(run);
      run.fp8 = eight_bits(recipe, "linear_");
      const SmallRunResult expected = run_small(run);
      run.device = Device::cuda;
      run.dtype = dtype;
      const SmallRunResult got = run_small(run);
      const double losses = relative_error(got.losses, expected.losses),
                   rounding = relative_error(expected.losses, exact.losses);
      std::printf("%s: losses of 5 steps are %.2g from the CPU's, which are %.2g from fp64's\n",
                  called.c_str(), losses, rounding);
      EXPECT_LT(losses, rounding + 1e-3);
      for (const auto& [name, gradient] : exact.gradients) {
        const double on_gpu = relative_error(got.gradients.at(name), gradient),
                     on_cpu = relative_error(expected.gradients.at(name), gradient);
        std::printf("  %-60s %.2g from fp64's, the CPU's %.2g\n", name.c_str(), on_gpu, on_cpu);
        EXPECT_LT(on_gpu, 1.25 * on_cpu + (dtype == DType::f32 ? 0.01 : 0.02)) << name;
      }
      EXPECT_EQ(run_small(run).losses, got.losses);
      EXPECT_EQ(run_small(run).weights, got.weights);
      run.graphs = false;
      EXPECT_EQ(run_small(run).weights, got.weights);
    }
}

// With one layer's codes few others follow.  Hopper's forward products keep some 13 bits; where a
// gradient read after them is off by so much, its code is another, a quarter away in E5M2, once in
// 2^11 numbers: that is 2^-7.5 in the root of the mean square; and half of it in E4M3, which blocks
// have.  Elsewhere blocks are multiplied by what their codes stand for, exactly.
TEST_F(GpuStep, MultipliesEightBitsOfOneLayerAsTheCpu) {
  if (!device::without_fp8().empty()) GTEST_SKIP() << device::without_fp8();
  for (const std::string recipe : {"tensorwise", "delayed", "blockwise"})
    for (const std::string module : {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}) {
      SCOPED_TRACE(concat(recipe, " in ", module));
      SmallRun run{.model = small_llama};
      run.fp8 = eight_bits(recipe, module, 1);
      const SmallRunResult expected = run_small(run);
      run.device = Device::cuda;
      run.dtype = DType::f32;
      const SmallRunResult got = run_small(run);
      double most = 0;
      for (const auto& [name, gradient] : expected.gradients)
        most = std::max(most, relative_error(got.gradients.at(name), gradient));
      std::printf("%s in %s: gradients are %.2g from the CPU's\n", recipe.c_str(), module.c_str(),
                  most);
      EXPECT_LT(most, recipe != "blockwise" ? 0.01 : cuda::hopper_kernels() ? 0.005 : 1e-3);
    }
}

TEST_F(GpuStep, SumsOverManyTensors) {
  Stream stream(Device::cuda);
  const Buffer buffer(Device::cuda, 5000 * sizeof(float));
  const Tensor whole = buffer.tensor(DType::f32, {5000});
  fill(whole, 3, stream);
  set_zero(whole.rows(17, 4000), stream);
  const std::vector<ConstTensor> few{whole.rows(0, 20), whole.rows(3999, 5000)};
  EXPECT_EQ(sum_squares(few, stream), 9 * (17 + 1000));
  const Buffer sum(Device::cuda, sizeof(double));
  const auto zeros = [&](std::span<const ConstTensor> parts) {
    const Tensor there = sum.tensor(DType::f64, {1});
    count_zeros(there, parts, stream);
    stream.synchronize();
    return HostCopy::of(there).tensor().as<double>()[0];
  };
  EXPECT_EQ(zeros(few), 3 + 1);
  const std::vector<ConstTensor> many(300, few[0]);
  EXPECT_EQ(sum_squares(many, stream), 300 * 9 * 17);
  EXPECT_EQ(zeros(many), 300 * 3);
}

TEST_F(GpuStep, StreamHasItsQueueAgainWhereWorkBesideItFails) {
  Stream stream(Device::cuda);
  stream.open_aside();
  const StreamHandle own = stream.handle();
  const auto body = [&] {
    EXPECT_NE(stream.handle(), own);
    fail(Exit::internal, "no more");
  };
  EXPECT_THROW(stream.aside(body), Error);
  EXPECT_EQ(stream.handle(), own);
}

TEST_F(GpuStep, TakesTheMemoryThatWasPlanned) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool document_masks : {false, true}) {
      const SmallRunResult result = run_small({.model = small_llama,
                                               .device = Device::cuda,
                                               .dtype = dtype,
                                               .document_masks = document_masks});
      EXPECT_EQ(result.used, result.planned);
    }
}

}  // namespace
}  // namespace mt
