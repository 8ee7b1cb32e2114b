// Which layers lie where: Megatron's examples, and what is refused in its words.
#include "train/run/pipeline_layout.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/layers.h"
#include "model/pipeline_stages.h"

namespace mt {
namespace {

using Counts = std::vector<std::int64_t>;
using Stages = std::vector<std::string>;

// "1-2 5-6" for the chunks of a rank, counted from 1 as Megatron does; E and L where they are.
std::string chunks_of(const PipelineLayout& layout, int rank) {
  std::string text;
  for (const StageRange& range : layout.of_rank(rank)) {
    if (!text.empty()) text += " ";
    if (range.first) text += "E";
    if (range.end > range.begin) text += concat(range.begin + 1, "-", range.end);
    if (range.last) text += "L";
  }
  return text;
}

// Of so many layers of one stack.
PipelineLayout layout_of(const PipelineOptions& options, int ranks, std::int64_t layers) {
  return make_pipeline_layout(options, ranks,
                              std::vector<LayerPlan>(static_cast<std::size_t>(layers)));
}

Counts layers_of_ranks(const PipelineLayout& layout) {
  Counts counts;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    std::int64_t count = 0;
    for (const StageRange& range : layout.of_rank(rank)) count += range.end - range.begin;
    counts.push_back(count);
  }
  return counts;
}

TEST(PipelineLayout, Even) {
  const PipelineLayout two = layout_of({.virtual_stages_per_rank = 2}, 2, 8);
  EXPECT_EQ(chunks_of(two, 0), "E1-2 5-6");
  EXPECT_EQ(chunks_of(two, 1), "3-4 7-8L");
  const PipelineLayout four = layout_of({.layers_per_virtual_stage = 2}, 4, 16);
  EXPECT_EQ(four.chunks, 2);
  for (int rank = 1; rank < 4; ++rank) {
    const int a = 2 * rank + 1, b = 8 + a;
    EXPECT_EQ(chunks_of(four, rank),
              concat(a, "-", a + 1, " ", b, "-", b + 1, rank == 3 ? "L" : ""));
  }
  EXPECT_EQ(chunks_of(layout_of({}, 1, 8), 0), "E1-8L");
}

TEST(PipelineLayout, EmbeddingAndLossAreWorthALayer) {
  const PipelineLayout both =
      layout_of({.account_for_embedding = true, .account_for_loss = true}, 4, 14);
  EXPECT_EQ(chunks_of(both, 0), "E1-3");
  EXPECT_EQ(chunks_of(both, 1), "4-7");
  EXPECT_EQ(chunks_of(both, 2), "8-11");
  EXPECT_EQ(chunks_of(both, 3), "12-14L");
}

// One layer a stage, less the one that the embedding or the loss is worth.
TEST(PipelineLayout, StandaloneEmbeddingAndLoss) {
  const PipelineLayout alone = layout_of(
      {.layers_per_virtual_stage = 1, .account_for_embedding = true, .account_for_loss = true}, 2,
      6);
  EXPECT_EQ(alone.chunks, 4);
  EXPECT_EQ(chunks_of(alone, 0), "E 2-2 4-4 6-6");
  EXPECT_EQ(chunks_of(alone, 1), "1-1 3-3 5-5 L");
}

TEST(PipelineLayout, UnevenEnds) {
  const auto layers = [](const PipelineOptions& options, int ranks, std::int64_t num_layers) {
    return layers_of_ranks(layout_of(options, ranks, num_layers));
  };
  EXPECT_EQ(layers({.first_layers = 15, .last_layers = 15}, 4, 62), (Counts{15, 16, 16, 15}));
  Counts deepseek(16, 4);
  deepseek.front() = 3;
  deepseek.back() = 2;
  EXPECT_EQ(layers({.first_layers = 3, .last_layers = 2}, 16, 61), deepseek);
  EXPECT_EQ(layers({.last_layers = 1}, 3, 9), (Counts{4, 4, 1}));
  EXPECT_EQ(layers({.first_layers = 3, .last_layers = 5}, 2, 8), (Counts{3, 5}));
  const PipelineLayout chunks =
      layout_of({.first_layers = 2, .last_layers = 2, .virtual_stages_per_rank = 2}, 3, 12);
  EXPECT_EQ(chunks_of(chunks, 0), "E1-1 7-7");
  EXPECT_EQ(chunks_of(chunks, 1), "2-5 8-11");
  EXPECT_EQ(chunks_of(chunks, 2), "6-6 12-12L");
}

TEST(PipelineLayout, GoldenStrings) {
  EXPECT_EQ(stages_of_layout("E|t*3|(t*2|)*5mL"),
            (Stages{"E", "ttt", "tt", "tt", "tt", "tt", "tt", "mL"}));
  EXPECT_EQ(stages_of_layout("Ettt|(tt|)*2,m|L"), (Stages{"Ettt", "tt", "tt", "m", "L"}));
  EXPECT_EQ(stages_of_layout("E|(t|)*6L"), (Stages{"E", "t", "t", "t", "t", "t", "t", "L"}));
  EXPECT_EQ(stages_of_layout("E t|*3 L"), (Stages{"Et", "", "", "L"}));
}

TEST(PipelineLayout, FromAString) {
  const PipelineLayout layout = layout_of({.layout = "E|t*3|(t*2|)*3tL"}, 3, 10);
  EXPECT_EQ(layout.chunks, 2);
  EXPECT_EQ(chunks_of(layout, 0), "E 6-7");
  EXPECT_EQ(chunks_of(layout, 1), "1-3 8-9");
  EXPECT_EQ(chunks_of(layout, 2), "4-5 10-10L");
}

std::string refusal(const PipelineOptions& options, int ranks, std::int64_t num_layers) {
  try {
    layout_of(options, ranks, num_layers);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PipelineLayout, RefusalsInMegatronsWords) {
  EXPECT_EQ(refusal({}, 4, 14),
            "--pipeline-model-parallel-size 4: Number of layers should be divisible by the "
            "pipeline-model-parallel size");
  EXPECT_EQ(refusal({.layers_per_virtual_stage = 1}, 4, 14),
            "--pipeline-model-parallel-size 4: number of layers of the model must be divisible "
            "pipeline model parallel size");
  EXPECT_EQ(refusal({.layers_per_virtual_stage = 3}, 4, 16),
            "--num-layers-per-virtual-pipeline-stage 3: number of layers per pipeline stage must "
            "be divisible number of layers per virtual pipeline stage");
  EXPECT_EQ(refusal({.virtual_stages_per_rank = 2}, 1, 16),
            "--pipeline-model-parallel-size 1: When interleaved schedule is used, "
            "pipeline-model-parallel size should be greater than 1");
  EXPECT_EQ(refusal({.layers_per_virtual_stage = 2, .virtual_stages_per_rank = 2}, 4, 16),
            "--num-layers-per-virtual-pipeline-stage and --num-virtual-stages-per-pipeline-rank "
            "cannot be set at the same time");
  EXPECT_EQ(refusal({.first_layers = 2, .layers_per_virtual_stage = 2}, 4, 16),
            "please use --num-virtual-stages-per-pipeline-rank to specify virtual pipeline "
            "parallel degree when enable uneven pipeline parallelism");
}

TEST(PipelineLayout, Refusals) {
  EXPECT_EQ(refusal({.virtual_stages_per_rank = 3}, 4, 16),
            "--num-virtual-stages-per-pipeline-rank 3: does not divide 4 layers of a rank");
  EXPECT_EQ(refusal({.first_layers = 2, .last_layers = 3}, 4, 16),
            "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers: 11 layers "
            "are left for 2 ranks, expected as many for each");
  EXPECT_EQ(refusal({.first_layers = 9, .last_layers = 9}, 4, 16),
            "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers: -2 layers "
            "are left for 2 ranks, expected as many for each");
  EXPECT_EQ(refusal({.first_layers = 2, .last_layers = 2}, 1, 4),
            "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers: 0 layers "
            "are left for -1 ranks, expected as many for each");
  EXPECT_EQ(refusal({.schedule = "gpipe", .virtual_stages_per_rank = 2}, 4, 16),
            "--pipeline-schedule gpipe: not with virtual stages");
  EXPECT_EQ(refusal({.microbatch_group_size = 8}, 4, 16),
            "--microbatch-group-size-per-virtual-pipeline-stage: needs virtual stages");
}

TEST(PipelineLayout, RefusalsOfStrings) {
  const auto refused = [](const std::string& layout, int ranks = 2) {
    const std::string line = refusal({.layout = layout}, ranks, 4),
                      front = "--pipeline-model-parallel-layout " + layout + ": ";
    return line.starts_with(front) ? line.substr(front.size()) : line;
  };
  EXPECT_EQ(refused("Ett|ttL"), "");
  EXPECT_EQ(refused("Ett|ttL", 4),
            "2 stages are not a multiple of --pipeline-model-parallel-size 4");
  EXPECT_EQ(refused("Ett|ttL", 1), "several stages need --pipeline-model-parallel-size");
  EXPECT_EQ(refused("Ett|tL"), "has 3 layers t, the model 4");
  EXPECT_EQ(refused("tEt|ttL"), "expected one E, before all else");
  EXPECT_EQ(refused("Ett|EttL"), "expected one E, before all else");
  EXPECT_EQ(refused("Ett|tLt"), "expected one L, after all else");
  EXPECT_EQ(refused("Ett|tt"), "expected one L, after all else");
  EXPECT_EQ(refused("Ett|ttmL"), "");
  EXPECT_EQ(refused("Ettm|ttL"),
            "m: layers that predict further tokens are in the last stage, before L");
  EXPECT_EQ(refused("Ett|tmtL"),
            "m: layers that predict further tokens are in the last stage, before L");
  EXPECT_EQ(refused("Ett|txL"), "'x' is none of E, t, m, L, |");
  EXPECT_EQ(refused("E(t(t|))*2L"), "parentheses do not nest, and each ( wants its )");
  EXPECT_EQ(refused("E(tt|"), "parentheses do not nest, and each ( wants its )");
  EXPECT_EQ(refused("Et*|ttL"), "a * without a number");
  EXPECT_EQ(refused("Et*9999999999|L"), "repeats more than 1048576 times");
  EXPECT_EQ(refused("E(t*1000)*1000000|L"), "more than 1048576 letters");
  EXPECT_EQ(refusal({.first_layers = 1, .layout = "Ett|ttL"}, 2, 4),
            "--pipeline-model-parallel-layout: says what each stage holds; not with numbers of "
            "layers, of virtual stages, or --account-for-...");
}

TEST(PipelineLayout, SchedulesOfItsRanks) {
  const PipelineLayout plain = layout_of({}, 2, 4);
  EXPECT_EQ(plain.training(1, 3), one_f_one_b({.rank = 1, .ranks = 2}, 3));
  EXPECT_EQ(layout_of({.schedule = "gpipe"}, 2, 4).training(1, 3),
            gpipe({.rank = 1, .ranks = 2}, 3));
  EXPECT_EQ(layout_of({.schedule = "zero-bubble"}, 2, 4).training(1, 3),
            zero_bubble({.rank = 1, .ranks = 2}, 3));
  const PipelineLayout chunks =
      layout_of({.virtual_stages_per_rank = 2, .microbatch_group_size = 3}, 2, 4);
  EXPECT_EQ(chunks.training(1, 6),
            interleaved({.rank = 1, .ranks = 2, .chunks = 2, .group = 3}, 6));
  EXPECT_THROW(chunks.check_step(4), Error);  // a remainder of 1
  chunks.check_step(5);
  plain.check_step(1);
}

// A T5's stages go over both stacks, or each stack has its own, with ends of its own.
TEST(PipelineLayout, TwoStacks) {
  std::vector<LayerPlan> layers;
  for (std::int64_t i = 0; i < 2; ++i) layers.push_back({"encoder", i, {}});
  for (std::int64_t i = 0; i < 4; ++i) layers.push_back({"decoder", i, {}});
  EXPECT_EQ(chunks_of(make_pipeline_layout({}, 2, layers), 0), "E1-3");
  EXPECT_EQ(chunks_of(make_pipeline_layout({}, 2, layers), 1), "4-6L");
  const StageRanges own = make_pipeline_stages({.encoder_ranks = 1}, 2, layers).ranges;
  ASSERT_EQ(own.size(), 3U);
  const auto is = [](const StageRange& range, std::int64_t begin, std::int64_t end, bool first,
                     bool last) {
    return range.begin == begin && range.end == end && range.first == first && range.last == last;
  };
  EXPECT_TRUE(is(own[0], 0, 2, true, true));
  EXPECT_TRUE(is(own[1], 2, 4, true, false));
  EXPECT_TRUE(is(own[2], 4, 6, false, true));
}

}  // namespace
}  // namespace mt
