// A BERT in all kinds of layouts against one rank.
#include "tests/train/encoder_layouts.h"

namespace mt {
namespace {

// Kinds for four layers and steps of four micro-batches on one data-parallel rank and two on two.
const std::vector<LayoutKind> kBertKinds{
    {.tensor = 2},
    {.tensor = 2, .sequence = true},
    {.tensor = 4, .data = 2, .sequence = true},
    {.data = 2},
    {.data = 4},
    {.tensor = 2, .data = 2},
    {.stages = 4, .data = 2},
    {.tensor = 4, .stages = 2, .sequence = true},
    {.stages = 2},
    {.stages = 4},
    {.tensor = 2, .stages = 2, .sequence = true},
    {.tensor = 2, .stages = 2, .data = 2},
    {.stages = 2, .data = 2},
    {.stages = 2, .pipeline = {.virtual_stages_per_rank = 2}},
    {.tensor = 2, .stages = 2, .sequence = true, .pipeline = {.virtual_stages_per_rank = 2}},
    {.stages = 4, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 2, .data = 2, .pipeline = {.schedule = "gpipe"}},
    {.stages = 2, .pipeline = {.layout = "E|ttt|t|L"}},
};

std::vector<TrainedLayout> bert_layouts() {
  std::vector<TrainedLayout> all;
  std::size_t turn = 0;
  add_layouts(all, {.style = Style::bert, .num_layers = 4}, kBertKinds, turn);
  add_layouts(all, {.style = Style::bert, .num_layers = 4, .seq_length = 48, .packed = true},
              {{.tensor = 2, .stages = 2, .data = 2, .sequence = true}}, turn);
  return all;
}

class BertLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, BertLayouts, in_this_run(bert_layouts()), name_of_layout);

TEST_P(BertLayouts, AsOneRank) { expect_as_one_rank(); }

class BertRun : public Layouts {
 protected:
  PretrainOptions run_of(const std::string& save) const {
    PretrainOptions o = options_of({.style = Style::bert});
    o.run.checkpoint.save = path(save);
    o.run.length.train_iters = 4;
    o.run.checkpoint.save_interval = 2;
    return o;
  }
};

TEST_F(BertRun, GoesOnToTheSameBytes) {
  for (const bool packed : {false, true}) {
    const std::string whole = packed ? "packed" : "whole", parts = whole + "_parts";
    const auto of_samples = [&](const std::string& save) {
      PretrainOptions o = run_of(save);
      o.data.masks.pack_sequences = packed;
      return o;
    };
    train_with(of_samples(whole));
    PretrainOptions o = of_samples(parts);
    o.run.length.exit_interval = 2;
    train_with(o);
    o = of_samples(parts);
    o.run.checkpoint.load = o.run.checkpoint.save;
    train_with(o);
    expect_same_files(iteration_folder(path(parts), 4), iteration_folder(path(whole), 4));
    EXPECT_EQ(losses(parts), losses(whole));
  }
}

// Each term has its name in what a run reports of steps and of evaluations.
TEST_F(BertRun, ReportsBothLosses) {
  PretrainOptions o = run_of("run");
  o.run.evaluation.eval_interval = 2;
  train_with(o);
  for (const char* kind : {"step", "eval"}) {
    const std::vector<std::string> lines = events("run", kind);
    EXPECT_FALSE(lines.empty()) << kind;
    for (const std::string& line : lines)
      EXPECT_NE(line.find(",\"sop_loss\":0."), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace mt
