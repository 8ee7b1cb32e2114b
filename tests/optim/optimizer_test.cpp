// The optimizer over a table: the golden steps, what decays, what is scaled, what is clipped, what
// stays as it is.
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <sstream>

#include "base/file.h"
#include "ops/ops.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

class OverATable : public testing::Test {
 protected:
  OverATable() {
    options_.adam = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    options_.clip_grad = 0;
    table_.add({.place = {.module = "matrix"}, .shape = {1, 3}});
    table_.add({.place = {.module = "vector"}, .shape = {3}});
    table_.add({.place = {.module = "frozen"}, .shape = {1, 3}, .trainable = false});
    table_.add({.place = {.module = "slow"}, .shape = {1, 3}, .learning_rate_mult = 0.5});
  }

  Optimizer make(DType dtype) {
    Optimizer optimizer(table_, Device::cpu, dtype, options_, alone_);
    for (Param& row : table_.rows()) fill_with(row.value, [](std::int64_t) { return 1; });
    return optimizer;
  }

  StepResult step(Optimizer& optimizer, double gradient, double divisor = 1) {
    for (Param& row : table_.rows())
      if (row.trainable) fill_with(row.grad, [&](std::int64_t) { return gradient; });
    return optimizer.step(
        {.learning_rate = 1e-3, .decoupled_learning_rate = 1e-3, .weight_decay = 0.1}, divisor,
        stream_);
  }

  double value(const char* name) { return element(table_.at(name).value, 2); }
  Tensor state(const Optimizer& optimizer, const char* name, std::size_t slot) {
    for (const Optimizer::Piece& piece : optimizer.pieces())
      if (piece.row->name() == name) return piece.state.at(slot);
    return {};
  }

  OptimizerOptions options_;
  ParamTable table_;
  std::unique_ptr<Group> group_ = make_single_group();
  World alone_{*group_, {}};
  Stream stream_{Device::cpu};
};

// p = 1, learning rate 1e-3, weight decay 0.1, gradients 0.5, -0.25, 0.1.
constexpr double kGradients[] = {0.5, -0.25, 0.1};
constexpr double kGolden[] = {0.99890000002, 0.99853174058, 0.99811060233};

TEST_F(OverATable, GoldenSteps) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Optimizer optimizer = make(dtype);
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(step(optimizer, kGradients[i]).skipped);
      EXPECT_NEAR(value("matrix"), kGolden[i], dtype == DType::f64 ? 1e-11 : 1e-7) << i;
    }
    EXPECT_EQ(optimizer.steps(), 3);
  }
}

TEST_F(OverATable, OnlyMatricesDecay) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, 0.5);
  // Without decay the first step is -lr g / (|g| + eps), whatever g is.
  EXPECT_NEAR(value("vector"), 1 - 1e-3, 1e-10);
  EXPECT_NEAR(value("matrix"), 1 - 1e-3 - 1e-3 * 0.1, 1e-10);
}

TEST_F(OverATable, NormsOfQueriesAndKeysMayDecay) {
  table_.add({.place = {.module = "self_attention.q_layernorm", .param = "weight"}, .shape = {3}});
  table_.add({.place = {.module = "self_attention.k_layernorm", .param = "bias"}, .shape = {3}});
  options_.decays_qk_norms = true;
  Optimizer optimizer = make(DType::f64);
  step(optimizer, 0.5);
  EXPECT_NEAR(value("vector"), 1 - 1e-3, 1e-10);
  for (const char* const norm :
       {"self_attention.q_layernorm.weight", "self_attention.k_layernorm.bias"})
    EXPECT_NEAR(value(norm), 1 - 1e-3 - 1e-3 * 0.1, 1e-10) << norm;
}

TEST_F(OverATable, LearningRatesHaveFactors) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, 0.5);
  EXPECT_NEAR(value("slow"), 1 - 0.5e-3 * 1.1, 1e-10);
}

TEST_F(OverATable, FrozenParametersStayAsTheyAre) {
  Optimizer optimizer = make(DType::f32);
  step(optimizer, 0.5);
  EXPECT_EQ(value("frozen"), 1);
  EXPECT_FALSE(table_.at("frozen").grad);
  EXPECT_EQ(optimizer.pieces().size(), 3U);
}

TEST_F(OverATable, MomentsAreThoseOfTheAveragedGradient) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, 5, 10);
  EXPECT_NEAR(value("matrix"), kGolden[0], 1e-11);
  EXPECT_NEAR(element(state(optimizer, "vector", 0), 1), 0.1 * 0.5, 1e-15);
  EXPECT_NEAR(element(state(optimizer, "vector", 1), 1), 0.05 * 0.25, 1e-15);
}

TEST_F(OverATable, GoesOnFromAnotherStep) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, kGradients[0]);
  step(optimizer, kGradients[1]);
  const double before = value("matrix");
  const HostTensor m = clone(state(optimizer, "matrix", 0)),
                   v = clone(state(optimizer, "matrix", 1));
  Optimizer resumed = make(DType::f64);
  fill_with(table_.at("matrix").value, [&](std::int64_t) { return before; });
  resumed.set_steps(optimizer.steps());
  std::memcpy(state(resumed, "matrix", 0).data(), m.view().data(), m.view().bytes());
  std::memcpy(state(resumed, "matrix", 1).data(), v.view().data(), v.view().bytes());
  step(resumed, kGradients[2]);
  EXPECT_NEAR(value("matrix"), kGolden[2], 1e-11);
}

TEST_F(OverATable, ClipsToTheNorm) {
  options_.clip_grad = 1;
  Optimizer optimizer = make(DType::f64);
  // 9 trainable elements, each averaged to 2.5 / 3: a norm of 2.5.
  const StepResult result = step(optimizer, 4 * 2.5 / 3, 4);
  EXPECT_NEAR(result.grad_norm, 2.5, 1e-14);
  EXPECT_NEAR(element(state(optimizer, "vector", 0), 0), 0.1 * 0.39999984 * 2.5 / 3, 1e-9);
}

TEST_F(OverATable, CountsZeros) {
  options_.log_num_zeros_in_grad = true;
  Optimizer optimizer = make(DType::f32);
  EXPECT_EQ(step(optimizer, 0).num_zeros, 9);
  EXPECT_EQ(step(optimizer, 1).num_zeros, 0);
  options_.log_num_zeros_in_grad = false;
  Optimizer silent = make(DType::f32);
  EXPECT_EQ(step(silent, 0).num_zeros, std::nullopt);
}

TEST_F(OverATable, GradientsThatAreNotFiniteChangeNothing) {
  Optimizer optimizer = make(DType::f32);
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_TRUE(step(optimizer, bad).skipped);
    EXPECT_EQ(optimizer.steps(), 0);
    EXPECT_EQ(value("matrix"), 1);
    EXPECT_EQ(largest(state(optimizer, "matrix", 0)), 0);
  }
}

// A constant scale of a power of two changes no bit.
TEST_F(OverATable, UnscalesGradients) {
  Optimizer plain = make(DType::f32);
  for (const double g : kGradients) step(plain, g);
  const double expected = value("matrix");
  options_.loss_scale.loss_scale = 1024;
  options_.clip_grad = 1000;
  Optimizer scaled = make(DType::f32);
  EXPECT_EQ(scaled.loss_scale(), 1024);
  for (const double g : kGradients) {
    const StepResult result = step(scaled, 1024 * g);
    EXPECT_NEAR(result.grad_norm, std::abs(g) * 3, 1e-7);
    EXPECT_EQ(result.loss_scale, 1024);
  }
  EXPECT_EQ(value("matrix"), expected);
}

TEST_F(OverATable, ASkippedStepLowersTheScale) {
  options_.loss_scale.initial_loss_scale = 8;
  options_.loss_scale.hysteresis = 1;
  Optimizer optimizer = make(DType::f32);
  const StepResult result = step(optimizer, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(result.skipped);
  EXPECT_EQ(result.loss_scale, 4);
  EXPECT_EQ(optimizer.steps(), 0);
  EXPECT_FALSE(step(optimizer, 4).skipped);
  EXPECT_NEAR(value("vector"), 1 - 1e-3, 1e-6);
}

// Each of a step's losses is looked at, and no other.
TEST_F(OverATable, AStepEndsWhereALossIsNotFinite) {
  for (const int losses : {1, 2}) {
    Optimizer optimizer = make(DType::f32);
    for (Param& row : table_.rows()) fill_with(row.grad, [](std::int64_t) { return 1; });
    const auto sums = optimizer.sums(2).rows(kRequests, kRequests + 4).span<double>();
    std::ranges::copy(std::array{6.0, 2.0, std::nan(""), 1.0}, sums.begin());
    optimizer.begin_step({.losses = losses, .all_finite = true}, stream_);
    const StepResult result = optimizer.end_step(stream_);
    EXPECT_EQ(result.skipped, losses == 2);
    EXPECT_EQ(result.losses[0].mean(), 3);
  }
}

TEST_F(OverATable, OnMetaCountsBytes) {
  Stream meta(Device::meta);
  Optimizer optimizer(table_, Device::meta, DType::f32, options_, alone_);
  optimizer.step({}, 1, meta);
  // The norm reads the gradients; p m v g are read and p m v written of 3 rows of 3 elements.
  EXPECT_EQ(meta.cost().bytes, static_cast<double>(optimizer.gradient_bytes()) + 3 * 3 * 7 * 4);
  EXPECT_EQ(optimizer.bytes(), 3 * 2 * 64 * sizeof(float));
}

// --- Against PyTorch -----------------------------------------------------------------------------

using Goldens = std::map<std::string, std::vector<double>>;

Goldens read_goldens() {
  Goldens goldens;
  std::istringstream file(read_file(std::string(MT_TESTDATA) + "/optim/steps.txt"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t colon = line.find(':');
    std::istringstream numbers(line.substr(colon + 1));
    std::vector<double>& values = goldens[line.substr(0, colon)];
    for (double number; numbers >> number;) values.push_back(number);
  }
  return goldens;
}

void set(Tensor tensor, const std::vector<double>& values) {
  ASSERT_EQ(tensor.numel(), std::ssize(values));
  fill_with(tensor, [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
}

struct Case {
  std::string name;
  Shape shape;
  std::string optimizer;
  MuonOptions muon = {};
  std::vector<std::int64_t> parts = {};
};

std::vector<Case> cases() {
  MuonOptions tall, unit, polar, aol;
  tall.nesterov = true;
  tall.scale_mode = "shape_scaling";
  tall.extra_scale_factor = 0.2;
  unit.coefficient_type = "simple";
  unit.num_ns_steps = 7;
  unit.scale_mode = "unit_rms_norm";
  polar.coefficient_type = "polar_express";
  polar.num_ns_steps = 9;
  aol.coefficient_type = "aol";
  aol.num_ns_steps = 4;
  return {{"adam", {3, 4}, "adam"},
          {"sgd", {3, 4}, "sgd"},
          {"muon_wide", {4, 6}, "muon"},
          {"muon_tall", {6, 4}, "muon", tall},
          {"muon_unit", {5, 3}, "muon", unit},
          {"muon_polar", {4, 6}, "muon", polar},
          {"muon_aol", {4, 6}, "muon", aol},
          {"muon_qkv", {16, 6}, "muon", {}, {4, 2, 2}}};
}

TEST(Optimizers, StepAsInPyTorch) {
  const Goldens goldens = read_goldens();
  for (const Case& c : cases())
    for (const DType dtype : {DType::f64, DType::f32}) {
      SCOPED_TRACE(c.name);
      ParamTable table;
      Segment segment{"all", c.shape[0], 0, ShardAxis::none};
      if (!c.parts.empty()) segment = {"qkv", 16, 0, ShardAxis::none, 8, c.parts};
      Param& row = table.add({.place = {.module = "w"}, .shape = c.shape, .segments = {segment}});
      const std::unique_ptr<Group> group = make_single_group();
      const World alone(*group, {});
      OptimizerOptions options;
      options.name = c.optimizer;
      options.adam.beta2 = 0.95;
      options.clip_grad = 0;
      options.muon = c.muon;
      options.complete();
      Optimizer optimizer(table, Device::cpu, dtype, options, alone);
      Stream stream(Device::cpu);
      set(row.value, goldens.at(c.name + ".start"));
      for (int i = 0; i < 3; ++i) {
        set(row.grad, goldens.at(concat(c.name, ".gradient", i)));
        optimizer.step({.learning_rate = 0.02, .weight_decay = 0.1}, 1, stream);
      }
      HostTensor expected(dtype, c.shape);
      set(expected, goldens.at(c.name + ".end"));
      EXPECT_TENSORS_NEAR(row.value, expected.view(), dtype == DType::f64 ? 1e-12 : 1e-5);
    }
}

// --- Shared by ranks -----------------------------------------------------------------------------

// A table of several rows, of which one is cut by every number of ranks.
ParamTable sample_table() {
  ParamTable table;
  table.add({.place = {.module = "words"}, .shape = {40, 16}, .embedding_or_output = true});
  table.add({.place = {.module = "norm"}, .shape = {16}});
  table.add({.place = {.module = "fc1"}, .shape = {24, 16}});
  table.add({.place = {.module = "fc1", .param = "bias"}, .shape = {24}});
  table.add({.place = {.module = "fc2"}, .shape = {16, 24}});
  table.add({.place = {.module = "frozen"}, .shape = {5}, .trainable = false});
  return table;
}

// Values of all rows after five steps on `size` ranks, whose gradients add up to the same for every
// size.
std::vector<double> train(const std::string& name, bool distributed, int size, double clip) {
  std::vector<double> values;  // and before them the norms
  run_ranks(size, [&](Group& ranks) {
    ParamTable table = sample_table();
    OptimizerOptions options;
    options.name = name;
    options.clip_grad = clip;
    options.use_distributed_optimizer = distributed;
    options.log_num_zeros_in_grad = true;
    options.complete();
    const World world(ranks, {.dp = size});
    Optimizer optimizer(table, Device::cpu, DType::f64, options, world);
    Stream stream(Device::cpu);
    for (Param& row : table.rows()) fill_uniform(row.value, static_cast<unsigned>(row.index));
    for (unsigned i = 0; i < 5; ++i) {
      optimizer.zero_gradients(stream);
      for (Param& row : table.rows()) {
        if (!row.trainable) continue;
        fill_uniform(row.grad, 100 * i + static_cast<unsigned>(row.index));
        row.grad.as<double>()[i] = 0;
        if (ranks.rank() > 0) scale(row.grad, row.grad, 1.0 / 1024, stream);
      }
      const StepResult result = optimizer.step(
          {.learning_rate = 0.01, .decoupled_learning_rate = 0.02, .weight_decay = 0.1}, size,
          stream);
      EXPECT_FALSE(result.skipped);
      EXPECT_EQ(result.num_zeros, 5);
      if (ranks.rank() == 0) values.push_back(result.grad_norm);
    }
    if (ranks.rank() != 0) return;
    for (const Param& row : table.rows())
      for (std::int64_t i = 0; i < row.value.numel(); ++i) values.push_back(element(row.value, i));
  });
  return values;
}

TEST(DistributedOptimizer, SameBitsAsTheWhole) {
  for (const char* name : {"adam", "muon"})
    for (const int size : {1, 2, 3, 4}) {
      std::vector<double> shared = train(name, true, size, 0), whole = train(name, false, size, 0);
      ASSERT_EQ(shared.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i)
        if (i < 5)
          EXPECT_NEAR(shared[i], whole[i], 1e-12 * whole[i]);  // norms: sums in another order
        else
          ASSERT_EQ(shared[i], whole[i]) << name << size << " at " << i;
    }
}

TEST(DistributedOptimizer, ClipsAsTheWhole) {
  for (const int size : {1, 2, 4}) {
    const std::vector<double> shared = train("adam", true, size, 0.5),
                              whole = train("adam", false, size, 0.5);
    ASSERT_EQ(shared.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_NEAR(shared[i], whole[i], 1e-12 * std::abs(whole[i]) + 1e-14) << i;
  }
}

TEST(DistributedOptimizer, DividesItsState) {
  const auto bytes = [](bool distributed, int size, const char* name) {
    ParamTable table;
    table.add({.place = {.module = "a"}, .shape = {256, 256}});
    table.add({.place = {.module = "b"}, .shape = {256, 256}});
    OptimizerOptions options;
    options.name = name;
    options.use_distributed_optimizer = distributed;
    Stream meta(Device::meta);
    const std::unique_ptr<Group> ranks = make_meta_group(size - 1, size, meta);
    const World world(*ranks, {.dp = size});
    return Optimizer(table, Device::meta, DType::f32, options, world).bytes();
  };
  EXPECT_EQ(bytes(true, 4, "adam"), bytes(false, 4, "adam") / 4);
  EXPECT_EQ(bytes(true, 1, "adam"), bytes(false, 1, "adam"));
  EXPECT_LT(bytes(true, 2, "muon"), bytes(false, 2, "muon"));
}

TEST(DistributedOptimizer, ReducesByScatterAndGather) {
  ParamTable table = sample_table();
  OptimizerOptions options;
  options.use_distributed_optimizer = true;
  Stream meta(Device::meta);
  const std::unique_ptr<Group> ranks = make_meta_group(0, 4, meta);
  const World world(*ranks, {.dp = 4});
  Optimizer optimizer(table, Device::meta, DType::f32, options, world);
  optimizer.step({}, 4, meta);
  // Three quarters of the trainable rows' buffer out and back, and the norm's number.
  EXPECT_EQ(meta.cost().messages, 3);
  EXPECT_EQ(
      meta.cost().message_bytes,
      2 * 0.75 * static_cast<double>(table.flat_rows().front().values.bytes()) + 2 * 0.75 * 8);
}

TEST(OptimizerOptions, WhatDoesNotFitTogether) {
  OptimizerOptions sgd;
  sgd.name = "sgd";
  sgd.use_distributed_optimizer = true;
  EXPECT_THROW(sgd.complete(), Error);
  OptimizerOptions muon;
  muon.name = "dist_muon";
  muon.complete();
  EXPECT_EQ(muon.name, "muon");
  EXPECT_TRUE(muon.use_distributed_optimizer);
  const auto refusal = [](OptimizerOptions options) -> std::string {
    try {
      options.complete();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  OptimizerOptions adam;
  adam.overlap_param_gather = true;
  EXPECT_EQ(refusal(adam), "--overlap-param-gather only supported with distributed optimizer");
  adam.use_distributed_optimizer = true;
  EXPECT_EQ(refusal(adam), "Must use --overlap-param-gather with --overlap-grad-reduce");
  adam.overlap_grad_reduce = true;
  EXPECT_EQ(refusal(adam), "");
  adam.ddp_bucket_size = adam.ddp_num_buckets = 3;
  EXPECT_EQ(refusal(adam), "--ddp-bucket-size and --ddp-num-buckets exclude each other");
  OptimizerOptions parts;
  parts.distributed_optimizer_instances = 2;
  EXPECT_EQ(refusal(parts),
            "--num-distributed-optimizer-instances: needs --use-distributed-optimizer");
}

// Large gradients that a step replaces are left as they are; what lies between rows is not.
TEST(Optimizer, ZeroesWhatIsAddedTo) {
  ParamTable table;
  table.add({.place = {.module = "small"}, .shape = {3}, .gradient_replaced = true});
  table.add({.place = {.module = "replaced"}, .shape = {257, 257}, .gradient_replaced = true});
  table.add({.place = {.module = "added.to"}, .shape = {300, 300}});
  table.add({.place = {.module = "frozen"},
             .shape = {300, 300},
             .trainable = false,
             .gradient_replaced = true});
  const auto group = make_single_group();
  const World alone(*group, {});
  OptimizerOptions options;
  options.complete();
  Optimizer optimizer(table, Device::cpu, DType::f64, options, alone);
  Stream stream(Device::cpu);
  const Tensor gradients = table.flat_rows().front().gradients;
  fill(gradients, 1, stream);
  optimizer.zero_gradients(stream);
  EXPECT_EQ(sum_squares(gradients, stream), 257 * 257);
  EXPECT_EQ(sum_squares(table.rows()[1].grad, stream), 257 * 257);
}

TEST(Optimizer, SumsOverManyTensors) {
  Stream stream(Device::cpu);
  const Buffer buffer(Device::cpu, 5000 * sizeof(float));
  const Tensor whole = buffer.tensor(DType::f32, {5000});
  fill(whole, 3, stream);
  set_zero(whole.rows(17, 4000), stream);
  const ConstTensor parts[] = {whole.rows(0, 20), whole.rows(3999, 5000)};
  EXPECT_EQ(sum_squares(parts, stream), 9 * (17 + 1000));
  double zeros = 0;
  count_zeros({&zeros, DType::f64, {1}}, parts, stream);
  EXPECT_EQ(zeros, 3 + 1);
}

}  // namespace
}  // namespace mt
