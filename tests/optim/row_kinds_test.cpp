// Rows of several kinds under one optimizer: those of experts, of which other ranks have copies
// than of the rest, those that need more bits than the others, and frozen ones.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "ops/ops.h"
#include "optim/optimizer.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr StepRates kRates{
    .learning_rate = 0.01, .decoupled_learning_rate = 0.02, .weight_decay = 0.1};

// --- Experts ------------------------------------------------------------------------------------

// All rows of a model with two experts, whole, and under "norm" those of the steps' gradients.
using Values = std::map<std::string, std::vector<double>>;

// What a rank has of it: words on the first stage, a router and experts on the last; of two experts
// each of two ranks has one.  An expert is cut where tensor-parallel ranks share it.
void declare(ParamTable& table, const World& world) {
  const ParallelSizes& sizes = world.sizes();
  table.divide(world.tensor().rank(), world.tensor().size());
  if (world.pipeline().rank() == 0)
    table.add({.place = {.module = "words"},
               .shape = {40, 16},
               .segments = {{"vocab", 40, 0, ShardAxis::tp}},
               .embedding_or_output = true});
  if (world.pipeline().rank() < sizes.pp - 1) return;
  table.add({.place = {.module = "router"}, .shape = {2, 16}, .summed_over = SummedOver::tp});
  const bool cut = world.expert_tensor().size() > 1;
  for (int expert = 0; expert < 2; ++expert) {
    if (sizes.ep == 2 && expert != world.experts().rank()) continue;
    table.add({.place = {.expert = expert, .module = "fc1"},
               .shape = {24, 16},
               .segments = {{"up", 24, 0, cut ? ShardAxis::tp : ShardAxis::none}},
               .copies = Copies::experts});
  }
}

// The part of what is random in all of a row.
void fill_part(const Param& row, Tensor part, unsigned seed, double factor) {
  for (const char c : row.name()) seed = seed * 31 + static_cast<unsigned char>(c);
  const HostTensor whole(DType::f64, {row.shape.numel()});
  fill_uniform(whole, seed);
  for (const ElementRun& run : row.runs())
    for (std::int64_t i = 0; i < run.count; ++i)
      part.as<double>()[run.local + i] = factor * element(whole, run.global + i);
}

// Five steps, in which each of the ranks that have copies of a row, or sum it, has an equal part of
// its gradient.
Values train(const ParallelSizes& sizes, bool distributed, double clip) {
  Values values;
  std::mutex mutex;
  run_ranks(sizes.ranks(), [&](Group& ranks) {
    const World world(ranks, sizes);
    ParamTable table;
    declare(table, world);
    OptimizerOptions options;
    options.clip_grad = clip;
    options.use_distributed_optimizer = distributed;
    options.log_num_zeros_in_grad = true;
    options.complete();
    Optimizer optimizer(table, Device::cpu, DType::f64, options, world);
    Stream stream(Device::cpu);
    optimizer.set_values([](const Param& row) { fill_part(row, row.value, 1, 1); }, stream);
    std::vector<double> norms;
    for (unsigned step = 0; step < 5; ++step) {
      optimizer.zero_gradients(stream);
      for (Param& row : table.rows()) {
        const bool of_expert = row.copies == Copies::experts;
        int parts = of_expert ? world.expert_data().size() : world.data_context().size();
        if (row.summed_over == SummedOver::tp) parts *= world.tensor().size();
        fill_part(row, row.grad, 100 + step, 1.0 / parts);
        if (row.runs().front().global == 0) row.grad.as<double>()[0] = 0;
      }
      const StepResult result = optimizer.step(kRates, 1, stream);
      EXPECT_EQ(result.num_zeros, 4);  // one in each row
      norms.push_back(result.grad_norm);
    }
    norms.push_back(optimizer.parameter_norm(stream));
    const std::lock_guard lock(mutex);
    values["norm"].insert(values["norm"].end(), norms.begin(), norms.end());
    for (const Param& row : table.rows()) {
      std::vector<double>& whole = values[row.name()];
      whole.resize(static_cast<std::size_t>(row.shape.numel()), std::nan(""));
      for (const ElementRun& run : row.runs())
        for (std::int64_t i = 0; i < run.count; ++i) {
          double& there = whole[static_cast<std::size_t>(run.global + i)];
          const double here = element(row.value, run.local + i);
          EXPECT_TRUE(std::isnan(there) || there == here) << row.name();  // all copies are the same
          there = here;
        }
    }
  });
  return values;
}

TEST(Experts, AreUpdatedAsOnOneRank) {
  const ParallelSizes layouts[] = {{.dp = 4, .ep = 2},
                                   {.cp = 2, .dp = 2, .ep = 2},
                                   {.dp = 2, .ep = 2},
                                   {.tp = 2, .dp = 2, .ep = 2},
                                   {.tp = 2, .dp = 2, .ep = 2, .etp = 1},
                                   {.tp = 2, .ep = 2, .etp = 1},
                                   {.tp = 2, .dp = 2, .etp = 1},
                                   {.dp = 4, .pp = 2, .ep = 2},
                                   {.tp = 2, .dp = 2, .pp = 2, .ep = 2, .etp = 1}};
  for (const double clip : {0.0, 0.5}) {
    const Values one = train({}, false, clip);
    ASSERT_EQ(one.size(), 5U);
    for (const ParallelSizes& sizes : layouts)
      for (const bool distributed : {false, true}) {
        SCOPED_TRACE(concat("tp", sizes.tp, " cp", sizes.cp, " dp", sizes.dp, " pp", sizes.pp,
                            " ep", sizes.ep, " etp", sizes.etp, distributed ? " distributed" : ""));
        const Values got = train(sizes, distributed, clip);
        ASSERT_EQ(got.size(), 5U);
        for (const auto& [name, expected] : one)
          for (std::size_t i = 0; i < got.at(name).size(); ++i) {
            const double there = expected[i % expected.size()];
            if (name == "norm" || clip > 0)  // whose squares are summed in another order
              ASSERT_NEAR(got.at(name)[i], there, 1e-12 * std::abs(there) + 1e-14) << name << i;
            else
              ASSERT_EQ(got.at(name)[i], there) << name << i;
          }
      }
  }
}

// A rank of four has the state of a quarter of the dense rows and of half of its expert's.
TEST(Experts, ShareTheirStateAmongTheirOwnRanks) {
  Stream meta(Device::meta);
  const std::unique_ptr<Group> ranks = make_meta_group(3, 4, meta);
  const World world(*ranks, {.dp = 4, .ep = 2});
  ParamTable table;
  table.add({.place = {.module = "dense"}, .shape = {64, 64}});
  table.add({.place = {.expert = 1, .module = "fc"}, .shape = {64, 64}, .copies = Copies::experts});
  OptimizerOptions options;
  options.use_distributed_optimizer = true;
  options.complete();
  const Optimizer optimizer(table, Device::meta, DType::f32, options, world);
  EXPECT_EQ(optimizer.bytes(), (64 * 64 / 4 + 64 * 64 / 2) * 2 * sizeof(float));
  EXPECT_EQ(optimizer.buffers().size(), 2U);
  ASSERT_EQ(optimizer.pieces().size(), 2U);
  EXPECT_EQ(optimizer.pieces()[0].begin, 3 * 64 * 64 / 4);
  EXPECT_EQ(optimizer.pieces()[1].begin, 64 * 64 / 2);  // the second of ranks 1 and 3
}

// With --data-parallel-sharding-strategy the values of each kind are gathered from its own ranks.
TEST(Experts, AreGatheredWhenTheyAreUsed) {
  Stream counting(Device::meta);
  const std::unique_ptr<Group> ranks = make_meta_group(3, 4, counting);
  const World world(*ranks, {.dp = 4, .ep = 2});
  ParamTable table;
  for (const Copies copies : {Copies::dense, Copies::experts})
    table.add({.place = {.module = copies == Copies::dense ? "dense" : "fc"},
               .shape = {64, 64},
               .copies = copies});
  OptimizerOptions options;
  options.sharding_strategy = "optim_grads_params";
  options.complete();
  SharedBuffers buffers(table, Device::meta, DType::f32, options, world);
  const auto bytes_of = [&](const Param& row) {
    const double before = counting.cost().message_bytes;
    buffers.use(row);
    return counting.cost().message_bytes - before;
  };
  EXPECT_EQ(bytes_of(table.rows()[0]), 64 * 64 * 4 * 3 / 4.0);
  EXPECT_EQ(bytes_of(table.rows()[1]), 64 * 64 * 4 / 2.0);
  buffers.finish();
}

// --- Types --------------------------------------------------------------------------------------

// A row that needs a type of more bits and, unless it is alone, others beside it.
struct Router {
  Router(Group& ranks, DType dtype, DType wide, bool alone, OptimizerOptions options)
      : world(ranks, {.dp = ranks.size()}) {
    options.complete();
    if (!alone) table.add({.place = {.module = "fc"}, .shape = {8, 24}});
    table.add({.place = {.module = "router"}, .shape = {4, 24}, .dtype = wide});
    if (!alone) table.add({.place = {.module = "norm"}, .shape = {24}});
    optimizer.emplace(table, Device::cpu, dtype, options, world);
  }

  // Its values after three steps in which the others have no gradients.
  HostTensor train() {
    Stream stream(Device::cpu);
    optimizer->set_values([](const Param& row) { fill_uniform(row.value, 5); }, stream);
    for (unsigned step = 0; step < 3; ++step) {
      optimizer->zero_gradients(stream);
      fill_uniform(table.at("router").grad, 9 + step);
      optimizer->step(kRates, world.data().size(), stream);
    }
    return clone(table.at("router").value);
  }

  World world;
  ParamTable table;
  std::optional<Optimizer> optimizer;
};

TEST(WideRows, AreUpdatedAsInATableOfTheirType) {
  OptimizerOptions options;
  options.clip_grad = 0.1;
  const auto group = make_single_group();
  const HostTensor expected = Router(*group, DType::f64, DType::f64, true, options).train();
  for (const bool distributed : {false, true})
    for (const int ranks : {1, 2, 3})
      run_ranks(ranks, [&](Group& all) {
        OptimizerOptions o = options;
        o.use_distributed_optimizer = distributed;
        Router wide(all, DType::f32, DType::f64, false, o);
        EXPECT_EQ(wide.optimizer->buffers().size(), 2U);
        const HostTensor got = wide.train();
        EXPECT_EQ(got.view().dtype(), DType::f64);
        EXPECT_EQ(wide.table.at("router").grad.dtype(), DType::f64);
        EXPECT_EQ(wide.table.at("fc").value.dtype(), DType::f32);
        EXPECT_TENSORS_NEAR(got, expected, 1e-12);
      });
}

// Of f32 no master is kept; values, gradients and state are counted each in its type.
TEST(WideRows, TakeTheMemoryOfTheirType) {
  const auto group = make_single_group();
  const Router wide(*group, DType::bf16, DType::f32, false, {});
  const std::size_t narrow_elements = 192 + 64, wide_elements = 128;
  EXPECT_EQ(wide.optimizer->value_bytes(), 2 * narrow_elements + 4 * wide_elements);
  EXPECT_EQ(wide.optimizer->gradient_bytes(), 4 * (narrow_elements + wide_elements));
  EXPECT_EQ(wide.optimizer->bytes(), 3 * 4 * narrow_elements + 2 * 4 * wide_elements);
  for (const Optimizer::Piece& piece : wide.optimizer->pieces())
    EXPECT_EQ(piece.has_master, piece.row->name() != "router");
}

// --- Frozen rows --------------------------------------------------------------------------------

TEST(FrozenRows, TakeTheMemoryOfTheirValues) {
  Stream meta(Device::meta);
  const auto bytes = [&](const char* strategy, bool frozen) {
    const std::unique_ptr<Group> ranks = make_meta_group(1, 4, meta);
    const World world(*ranks, {.dp = 4});
    ParamTable table;
    for (const char* name : {"lower", "upper"}) {
      table.begin_unit();
      table.add({.place = {.module = name}, .shape = {64, 64}});
    }
    if (frozen) table.freeze([](const RowPlace& place) { return place.module == "lower"; });
    OptimizerOptions options;
    options.sharding_strategy = strategy;
    options.complete();
    const Optimizer optimizer(table, Device::meta, DType::bf16, options, world);
    return std::array{optimizer.value_bytes(), optimizer.gradient_bytes(), optimizer.bytes()};
  };
  const std::size_t row = 64 * 64;
  using Bytes = std::array<std::size_t, 3>;
  EXPECT_EQ(bytes("no_shard", false), (Bytes{2 * 2 * row, 2 * 4 * row, 2 * 12 * row}));
  EXPECT_EQ(bytes("no_shard", true), (Bytes{2 * 2 * row, 4 * row, 12 * row}));
  EXPECT_EQ(bytes("optim", true), (Bytes{2 * 2 * row, 4 * row, 12 * row / 4}));
  EXPECT_EQ(bytes("optim_grads", true), (Bytes{2 * 2 * row, 4 * (row + row / 4), 12 * row / 4}));
  // A place for the one of each kind, and a quarter of both.
  EXPECT_EQ(bytes("optim_grads_params", true),
            (Bytes{2 * (2 * row + 2 * row / 4), 4 * (row + row / 4), 12 * row / 4}));
}

// A rank all of whose rows are frozen takes part in the sums over the model.
TEST(FrozenRows, MayBeAllOfAStage) {
  run_ranks(2, [](Group& ranks) {
    const World world(ranks, {.pp = 2});
    ParamTable table;
    Param& row = table.add({.place = {.module = "row"}, .shape = {4}});
    row.trainable = ranks.rank() == 1;
    OptimizerOptions options;
    options.log_num_zeros_in_grad = true;
    options.complete();
    Optimizer optimizer(table, Device::cpu, DType::f64, options, world);
    Stream stream(Device::cpu);
    optimizer.set_values([](const Param& r) { fill_with(r.value, [](auto) { return 1; }); },
                         stream);
    optimizer.zero_gradients(stream);
    if (row.trainable) fill_with(row.grad, [](std::int64_t i) { return i; });
    const StepResult result = optimizer.step(kRates, 1, stream);
    EXPECT_NEAR(result.grad_norm, std::sqrt(14), 1e-14);
    EXPECT_EQ(result.num_zeros, 1);
    EXPECT_EQ(element(row.value, 3) == 1, !row.trainable);
    EXPECT_EQ(optimizer.bytes() == 0, !row.trainable);
  });
}

}  // namespace
}  // namespace mt
