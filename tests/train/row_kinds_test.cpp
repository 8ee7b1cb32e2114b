// Training with rows of other kinds.  Frozen rows keep every bit in every layout, while the others
// move as on one rank; they take neither gradients nor state, and a run resumes byte for byte. Rows
// that need more bits than the others are kept, updated and stored in theirs.
#include <set>

#include "model/model.h"
#include "model/row_checkpoint.h"
#include "tests/train/layouts.h"
#include "train/plan/plan.h"

namespace mt {
namespace {

using Alter = std::function<void(ParamTable&)>;

// Pretraining of a model whose table is altered once it is made.
class Altered final : public Pretraining {
 public:
  Altered(Pretraining task, Alter alter) : Pretraining(std::move(task)), alter_(std::move(alter)) {}
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override {
    auto model = Pretraining::make_model(stages, part);
    alter_(model->table());
    return model;
  }

 private:
  Alter alter_;
};

class AlteredLayouts : public Layouts {
 protected:
  static void train_altered(PretrainOptions o, const Alter& alter) {
    Signals signals;
    Altered task(open_pretraining(o), alter);
    train(o.run, task, signals, Log({.level = Log::Level::quiet}), "{}");
  }

  // A run of four steps in a layout, saved in a folder of this name.
  PretrainOptions four_steps(const TrainedLayout& layout, const std::string& save) const {
    PretrainOptions o = options_of(layout);
    o.run.checkpoint.save = path(save);
    o.run.checkpoint.save_interval = 2;
    o.run.length.train_iters = 4;
    o.run.evaluation.eval_iters = 0;
    return o;
  }

  // Trains those steps, and the last two again, which end with the same bytes.
  void train_and_resume(const PretrainOptions& o, const Alter& alter) const {
    train_altered(o, alter);
    PretrainOptions again = o;
    again.run.checkpoint.save = again.run.checkpoint.load = copy_of("run", 2, "again");
    train_altered(again, alter);
    expect_same_files(iteration_folder(path("again"), 4), iteration_folder(path("run"), 4));
  }

  // One rank without recomputation, of the same style.
  static TrainedLayout one_rank(const TrainedLayout& layout) {
    return {.style = layout.style, .tied = layout.tied, .dtype = layout.dtype};
  }

  // Two ranks, of which the optimizer is the other one.
  PretrainOptions on_two(const TrainedLayout& layout) const {
    TrainedLayout two = one_rank(layout);
    two.ranks = 2;
    two.distributed = !layout.distributed && layout.sharding == "no_shard";
    return four_steps(two, "other");
  }
};

// --- Frozen rows --------------------------------------------------------------------------------

// The lower part of a model: what comes before its second layer; and of that layer a matrix, a norm
// and, where there are biases, one.
bool is_lower(const RowPlace& place) {
  return place.stack == "embedding" || place.layer == 0 ||
         (place.module == "self_attention.linear_proj" && place.param == "weight") ||
         (place.module == "mlp.linear_fc1" && place.param != "weight");
}

void freeze_lower(ParamTable& table) { table.freeze(is_lower); }

std::vector<TrainedLayout> frozen_layouts() {
  std::vector<TrainedLayout> all;
  for (const Style style : {Style::gpt, Style::llama}) {
    const auto add = [&](int data, int tensor, int stages,
                         const std::function<void(TrainedLayout&)>& change) {
      TrainedLayout layout{
          .style = style, .tied = style == Style::gpt, .ranks = data * tensor * stages};
      layout.parallel.tensor_model_parallel_size = tensor;
      layout.parallel.sequence_parallel = tensor > 1;
      layout.parallel.pipeline_model_parallel_size = stages;
      change(layout);
      all.push_back(layout);
    };
    add(1, 1, 1, [](TrainedLayout& layout) { layout.recompute = "full"; });
    add(2, 1, 1, [](TrainedLayout&) {});
    add(2, 1, 1, [](TrainedLayout& layout) { layout.distributed = true; });
    add(2, 1, 1, [](TrainedLayout& layout) {
      layout.distributed = true;
      layout.bucket = 1000;
    });
    add(1, 2, 1, [](TrainedLayout&) {});
    add(1, 1, 2, [](TrainedLayout&) {});  // one of whose stages has no row that is trained
    add(2, 1, 2, [](TrainedLayout& layout) { layout.distributed = true; });
    add(1, 1, 2, [](TrainedLayout& layout) { layout.pipeline.schedule = "zero-bubble"; });
    for (const char* strategy : {"optim_grads", "optim_grads_params"}) {
      add(2, 1, 1, [&](TrainedLayout& layout) { layout.sharding = strategy; });
      add(2, 2, 1, [&](TrainedLayout& layout) { layout.sharding = strategy; });
      add(2, 1, 2, [&](TrainedLayout& layout) { layout.sharding = strategy; });
    }
  }
  return all;
}

class FrozenRows : public AlteredLayouts {
 protected:
  LayoutRun run_frozen(PretrainOptions o) const {
    Altered task(open_pretraining(o), freeze_lower);
    const RunOptions& run = o.run;
    task.build(training_length(run.length, run.batch, run.evaluation, false), run.seed, run.batch,
               Log({.level = Log::Level::quiet}));
    return run_layout(run, task, kSteps);
  }

  // The rows of the whole model with their initial values.
  ParamTable initial() const {
    PretrainOptions o = options_of(one_rank(GetParam()));
    ParamTable table = Altered(open_pretraining(o), freeze_lower).rows();
    table.allocate(Device::cpu, DType::f64, false);
    Stream stream(Device::cpu);
    for (const Param& row : table.rows()) initialize(row, row.value, o.run.seed, stream);
    return table;
  }
};

INSTANTIATE_TEST_SUITE_P(All, FrozenRows, testing::ValuesIn(frozen_layouts()), name_of_layout);

TEST_P(FrozenRows, KeepEveryBitWhileTheOthersMoveAsOnOneRank) {
  const LayoutRun got = run_frozen(options_of(GetParam()));
  static std::map<Style, LayoutRun> of_one;
  if (!of_one.contains(GetParam().style))
    of_one[GetParam().style] = run_frozen(options_of(one_rank(GetParam())));
  const LayoutRun& one = of_one.at(GetParam().style);
  const LayoutDifference worst = largest_difference(got, one);
  EXPECT_LE(worst.value, 1e-9) << worst.where;
  const ParamTable whole = initial();
  int frozen = 0;
  for (const Param& row : whole.rows()) {
    const std::vector<double>& weights = got.weights.at(row.name());
    const std::span<const double> start = row.value.span<double>();
    EXPECT_EQ(std::ranges::equal(weights, start), is_lower(row.place)) << row.name();
    EXPECT_EQ(got.steps.front().gradients.contains(row.name()), !is_lower(row.place));
    frozen += is_lower(row.place);
  }
  EXPECT_GT(frozen, 5);
  EXPECT_LT(frozen, std::ssize(whole.rows()) - 3);
}

// Trained rows have in the first step the gradients that they have where nothing is frozen, which
// other tests compare with derivatives.
TEST_P(FrozenRows, ChangeNoOtherGradient) {
  const LayoutRun got = run_frozen(options_of(GetParam()));
  const LayoutRun& all = run_on_one(one_rank(GetParam()));
  for (const auto& [name, gradient] : got.steps.front().gradients) {
    const std::vector<double>& expected = all.steps.front().gradients.at(name);
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < gradient.size(); ++i)
      ASSERT_NEAR(gradient[i], expected[i], 1e-9 * largest) << name << " at " << i;
  }
  // The norm is that of the trained rows alone.
  EXPECT_LT(got.steps.front().grad_norm, all.steps.front().grad_norm);
  EXPECT_NEAR(got.steps.front().loss, all.steps.front().loss, 1e-9 * all.steps.front().loss);
}

class FrozenCheckpoints : public FrozenRows {};
std::vector<TrainedLayout> saved_layouts() {
  std::vector<TrainedLayout> some;
  for (const TrainedLayout& layout : frozen_layouts())
    if (layout.ranks <= 2 && layout.recompute.empty() && layout.pipeline.schedule == "1f1b")
      some.push_back(layout);
  return some;
}
INSTANTIATE_TEST_SUITE_P(All, FrozenCheckpoints, testing::ValuesIn(saved_layouts()),
                         name_of_layout);

TEST_P(FrozenCheckpoints, HaveTheirValuesAndNoStateOfThem) {
  const PretrainOptions o = four_steps(GetParam(), "run");
  train_and_resume(o, freeze_lower);
  const MegatronCheckpoint checkpoint(iteration_folder(path("run"), 4));
  const DistReader& tensors = checkpoint.tensors();
  const ParamTable whole = initial();
  std::set<std::string> trained;
  for (const Param& row : whole.rows()) {
    HostTensor stored(DType::f64, row.shape);
    read_row(tensors, row, "", stored);
    EXPECT_EQ(bool(same_bits("", "", stored.view(), row.value)), is_lower(row.place)) << row.name();
    const std::string key = state_prefix("exp_avg") + key_of(row, {.of_state = true});
    if (is_lower(row.place)) continue;
    trained.insert(key);
    ASSERT_NE(tensors.find(key), nullptr) << key;
    read_row(tensors, row, "exp_avg", stored);
    EXPECT_GT(largest(stored.view()), 0) << key;
  }
  for (const auto& [key, tensor] : tensors.tensors())
    EXPECT_TRUE(!key.starts_with(state_prefix("exp_avg")) || trained.contains(key)) << key;

  // It goes on in another layout, and there with the same numbers.
  PretrainOptions other = on_two(GetParam());
  other.run.checkpoint.load = copy_of("run", 2, "first");
  train_altered(other, freeze_lower);
  const MegatronCheckpoint elsewhere(iteration_folder(path("other"), 4));
  for (const Param& row : whole.rows()) {
    HostTensor got(DType::f64, row.shape), expected(DType::f64, row.shape);
    read_row(elsewhere.tensors(), row, "", got);
    read_row(tensors, row, "", expected);
    EXPECT_TENSORS_NEAR(got.view(), expected.view(), is_lower(row.place) ? 0 : 1e-9) << row.name();
  }
}

// Its weight gradients are not computed, and it takes memory for its values alone.
TEST_F(Training, AFrozenLowerPartCostsItsForwardAndItsInputsGradient) {
  PretrainOptions o = options("");
  o.run.compute.dtype = "fp32";
  o.model.untie_embeddings_and_output_weights = true;
  o.model.padded_vocab_size = 384;
  const auto plan_of = [&](const Alter& alter) {
    PretrainOptions own = o;
    const Altered task(open_pretraining(own), alter);
    return make_plan(own.run, task).pipeline.front();
  };
  const RankPlan all = plan_of([](ParamTable&) {});
  const auto is_frozen = [](const RowPlace& place) { return place.layer == 0; };
  const RankPlan some = plan_of([&](ParamTable& table) { table.freeze(is_frozen); });
  const ParamTable rows = open_pretraining(o).rows();
  std::int64_t of_matrices = 0, with_room = 0;
  for (const Param& row : rows.rows()) {
    if (!is_frozen(row.place)) continue;
    with_room += (row.shape.numel() + 63) / 64 * 64;
    if (row.shape.rank() == 2) of_matrices += row.shape.numel();
  }
  EXPECT_GT(of_matrices, 3000);
  EXPECT_EQ(some.memory.parameters, all.memory.parameters);
  EXPECT_EQ(all.memory.gradients - some.memory.gradients, 4 * static_cast<std::size_t>(with_room));
  EXPECT_EQ(all.memory.optimizer - some.memory.optimizer, 8 * static_cast<std::size_t>(with_room));
  constexpr double kTokens = 8 * 16;
  EXPECT_EQ(all.step.flops - some.step.flops, 2 * kTokens * static_cast<double>(of_matrices));
}

// --- Rows of a wider type -----------------------------------------------------------------------

const RowPlace kRouter{.stack = "decoder", .module = "router", .param = "weight"};

// A row in f64 that no module reads: it decays.
void add_router(ParamTable& table) {
  table.begin_unit();
  table.add({.place = kRouter,
             .shape = {3, 5},
             .init = {Initializer::Kind::normal, 0.1},
             .dtype = DType::f64});
}

class WideRows : public AlteredLayouts {};

std::vector<TrainedLayout> wide_layouts() {
  std::vector<TrainedLayout> all(5, {.dtype = DType::f32, .ranks = 2});
  all[0].ranks = 1;
  all[1].distributed = true;
  all[2].parallel.tensor_model_parallel_size = 2;
  all[3].sharding = "optim_grads_params";
  all[4].bucket = 1000;
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, WideRows, testing::ValuesIn(wide_layouts()), name_of_layout);

TEST_P(WideRows, AreStoredAndResumedInTheirType) {
  train_and_resume(four_steps(GetParam(), "run"), add_router);
  ParamTable table;
  add_router(table);
  const Param& row = table.rows().front();
  const auto stored = [&](const std::string& run, int iteration, const std::string& state) {
    const MegatronCheckpoint checkpoint(iteration_folder(path(run), iteration));
    for (const auto& [key, tensor] : checkpoint.tensors().tensors())
      EXPECT_EQ(tensor.dtype, key.ends_with(kRouter.name()) ? DType::f64 : DType::f32) << key;
    HostTensor values(DType::f64, row.shape);
    read_row(checkpoint.tensors(), row, state, values);
    return values;
  };
  const HostTensor before = stored("run", 2, ""), after = stored("run", 4, "");
  EXPECT_GT(worst_error(after, before), 0);
  EXPECT_EQ(largest(stored("run", 4, "exp_avg")), 0);
  // The other optimizer decays it to the same bits.
  PretrainOptions other = on_two(GetParam());
  other.run.checkpoint.load = copy_of("run", 2, "first");
  train_altered(other, add_router);
  EXPECT_SAME_BITS(stored("other", 4, "").view(), after.view());
}

TEST_P(WideRows, AreCountedInTheirType) {
  PretrainOptions o = options_of(GetParam());
  const Altered task(open_pretraining(o), add_router), narrow(open_pretraining(o), [](auto&) {});
  const Plan with = make_plan(o.run, task), without = make_plan(o.run, narrow);
  const auto grows = [&](std::size_t RankMemory::*of) {
    return with.pipeline.front().memory.*of - without.pipeline.front().memory.*of;
  };
  const bool shards = GetParam().sharding != "no_shard", shares = GetParam().distributed || shards;
  const std::size_t room = shares || GetParam().bucket > 0 ? 128 : 64;  // elements of a bucket, row
  EXPECT_EQ(grows(&RankMemory::parameters), 8 * (shards ? room + room / 2 : room));
  EXPECT_EQ(grows(&RankMemory::gradients), 8 * (shards ? room + room / 2 : room));
  EXPECT_EQ(grows(&RankMemory::optimizer), 2 * 8 * 64);
}

}  // namespace
}  // namespace mt
