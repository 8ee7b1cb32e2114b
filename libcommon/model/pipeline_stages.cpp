#include "model/pipeline_stages.h"

#include <algorithm>

#include "base/command.h"
#include "model/layers.h"

namespace mt {

void PipelineOptions::add_to(CommandLine& cl) {
  cl.section("Pipeline");
  cl.option("--pipeline-schedule", &schedule, "NAME",
            "order of a step's micro-batches: 1f1b (interleaved, with virtual stages), gpipe or "
            "zero-bubble (ZB-H1: weight gradients fill the waiting)",
            one_of({"1f1b", "gpipe", "zero-bubble"}));
  cl.option("--decoder-first-pipeline-num-layers", &first_layers, "N", "layers of the first rank",
            at_least(1));
  cl.option("--decoder-last-pipeline-num-layers", &last_layers, "N", "layers of the last rank",
            at_least(1));
  cl.option("--num-layers-per-virtual-pipeline-stage", &layers_per_virtual_stage, "N",
            "give each rank several virtual stages, of so many layers", at_least(1));
  cl.option("--num-virtual-stages-per-pipeline-rank", &virtual_stages_per_rank, "N",
            "give each rank so many virtual stages", at_least(1));
  cl.option("--microbatch-group-size-per-virtual-pipeline-stage", &microbatch_group_size, "N",
            "micro-batches that a virtual stage computes before the next one's turn; default the "
            "ranks of the pipeline",
            at_least(1));
  cl.flag("--account-for-embedding-in-pipeline-split", &account_for_embedding,
          "the first rank has one layer fewer than the others");
  cl.flag("--account-for-loss-in-pipeline-split", &account_for_loss,
          "the last rank has one layer fewer than the others");
  cl.option("--pipeline-model-parallel-layout", &layout, "STAGES",
            "what each stage holds, of embedding E, layers t, those that predict further tokens m, "
            "which are the last one's, and loss L: \"Et*3|(tt|)*4tL\"");
}

// --- Layout strings -----------------------------------------------------------------------------

namespace {

constexpr std::size_t kMaxLayout = 1 << 20;  // characters

[[noreturn]] void refuse(const std::string& layout, const std::string& why) {
  fail(Exit::bad_config, "--pipeline-model-parallel-layout ", layout, ": ", why);
}

// Reads "*N" at `at` and moves past it; 1 where there is none.
std::size_t read_factor(const std::string& layout, const std::string& text, std::size_t& at) {
  if (at >= text.size() || text[at] != '*') return 1;
  std::size_t n = 0, digits = 0;
  for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++digits) {
    n = n * 10 + static_cast<std::size_t>(text[at] - '0');
    if (n > kMaxLayout) refuse(layout, concat("repeats more than ", kMaxLayout, " times"));
  }
  if (digits == 0) refuse(layout, "a * without a number");
  return n;
}

void repeat(const std::string& layout, std::string& to, const std::string& part, std::size_t n) {
  if (part.size() * n > kMaxLayout - to.size())
    refuse(layout, concat("more than ", kMaxLayout, " letters"));
  while (n-- > 0) to += part;
}

std::string expand_groups(const std::string& layout, const std::string& text) {
  std::string expanded;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '(') {
      expanded += text[at++];
      continue;
    }
    const std::size_t end = text.find_first_of("()", at + 1);
    if (end == std::string::npos || text[end] == '(')
      refuse(layout, "parentheses do not nest, and each ( wants its )");
    const std::string part = text.substr(at + 1, end - at - 1);
    at = end + 1;
    repeat(layout, expanded, part, read_factor(layout, text, at));
  }
  return expanded;
}

std::string expand_letters(const std::string& layout, const std::string& text) {
  std::string expanded;
  for (std::size_t at = 0; at < text.size();) {
    const std::string letter(1, text[at++]);
    if (std::string("EtmL|").find(letter) == std::string::npos)
      refuse(layout, concat("'", letter, "' is none of E, t, m, L, |"));
    repeat(layout, expanded, letter, read_factor(layout, text, at));
  }
  return expanded;
}

}  // namespace

std::vector<std::string> stages_of_layout(const std::string& layout) {
  std::string text = layout;
  std::erase_if(text, [](char c) { return c == ',' || c == ' '; });
  text = expand_letters(layout, expand_groups(layout, text));
  std::vector<std::string> stages(1);
  for (const char c : text) {
    if (c == '|')
      stages.emplace_back();
    else
      stages.back() += c;
  }
  return stages;
}

static StageRanges ranges_of_layout(const std::string& layout, std::int64_t num_layers) {
  const std::vector<std::string> stages = stages_of_layout(layout);
  std::string all;
  StageRanges ranges;
  for (const std::string& stage : stages) {
    all += stage;
    const std::int64_t begin = ranges.empty() ? 0 : ranges.back().end;
    ranges.push_back({.begin = begin,
                      .end = begin + std::ranges::count(stage, 't'),
                      .first = stage.find('E') != std::string::npos,
                      .last = stage.find('L') != std::string::npos});
  }
  const std::int64_t further = std::ranges::count(all, 'm');
  if (further > 0 && !stages.back().ends_with(std::string(further, 'm') + 'L'))
    refuse(layout, "m: layers that predict further tokens are in the last stage, before L");
  if (std::ranges::count(all, 'E') != 1 || all.front() != 'E')
    refuse(layout, "expected one E, before all else");
  if (std::ranges::count(all, 'L') != 1 || all.back() != 'L')
    refuse(layout, "expected one L, after all else");
  if (ranges.back().end != num_layers)
    refuse(layout, concat("has ", ranges.back().end, " layers t, the model ", num_layers));
  return ranges;
}

void check_layout_predicts(const std::string& layout, std::int64_t further_tokens) {
  std::int64_t letters = 0;
  for (const std::string& stage : stages_of_layout(layout))
    letters += std::ranges::count(stage, 'm');
  if (letters != 0 && letters != further_tokens)
    refuse(layout, concat("has ", letters, " layers m, the model ", further_tokens));
}

// --- Numbers of layers --------------------------------------------------------------------------

static int chunks_of(const PipelineOptions& o, int ranks, std::int64_t num_layers) {
  if (!o.layers_per_virtual_stage && !o.virtual_stages_per_rank) return 1;
  if (ranks <= 1)
    fail(Exit::bad_config, o.size_flag, ' ', ranks,
         ": When interleaved schedule is used, pipeline-model-parallel size should be greater than "
         "1");
  if (o.layers_per_virtual_stage && o.virtual_stages_per_rank)
    fail(Exit::usage,
         "--num-layers-per-virtual-pipeline-stage and --num-virtual-stages-per-pipeline-rank "
         "cannot be set at the same time");
  if (o.virtual_stages_per_rank) return *o.virtual_stages_per_rank;
  if (o.first_layers || o.last_layers)
    fail(Exit::usage,
         "please use --num-virtual-stages-per-pipeline-rank to specify virtual pipeline parallel "
         "degree when enable uneven pipeline parallelism");
  const std::int64_t layers = num_layers + o.account_for_embedding + o.account_for_loss;
  if (layers % ranks != 0)
    fail(Exit::bad_config, o.size_flag, ' ', ranks,
         ": number of layers of the model must be divisible pipeline model parallel size");
  if (layers / ranks % *o.layers_per_virtual_stage != 0)
    fail(Exit::bad_config, "--num-layers-per-virtual-pipeline-stage ", *o.layers_per_virtual_stage,
         ": number of layers per pipeline stage must be divisible number of layers per virtual "
         "pipeline stage");
  return static_cast<int>(layers / ranks / *o.layers_per_virtual_stage);
}

// Layers of each of a rank's chunks.
static std::int64_t each_chunk(std::int64_t layers, int chunks) {
  if (layers % chunks != 0)
    fail(Exit::bad_config, "--num-virtual-stages-per-pipeline-rank ", chunks, ": does not divide ",
         layers, " layers of a rank");
  return layers / chunks;
}

// Layers of each rank's every chunk, before embedding and loss take theirs.
static std::vector<std::int64_t> even_layers(const PipelineOptions& o, int ranks, int chunks,
                                             std::int64_t num_layers) {
  const std::int64_t layers = num_layers + o.account_for_embedding + o.account_for_loss;
  if (layers % ranks != 0)
    fail(Exit::bad_config, o.size_flag, ' ', ranks,
         ": Number of layers should be divisible by the pipeline-model-parallel size");
  return std::vector<std::int64_t>(static_cast<std::size_t>(ranks),
                                   each_chunk(layers / ranks, chunks));
}

static std::vector<std::int64_t> uneven_layers(const PipelineOptions& o, int ranks, int chunks,
                                               std::int64_t num_layers) {
  if (o.account_for_embedding || o.account_for_loss)
    fail(Exit::usage,
         "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers cannot be set "
         "at the same time with --account-for-embedding-in-pipeline-split and "
         "--account-for-loss-in-pipeline-split");
  const std::int64_t left = num_layers - o.first_layers.value_or(0) - o.last_layers.value_or(0);
  const int middle = ranks - o.first_layers.has_value() - o.last_layers.has_value();
  if (middle < 0 || left < 0 || (middle == 0 ? left > 0 : left % middle != 0))
    fail(Exit::bad_config,
         "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers: ", left,
         " layers are left for ", middle, " ranks, expected as many for each");
  const std::int64_t each = middle == 0 ? 0 : left / middle;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(ranks), each);
  layers.front() = o.first_layers.value_or(each);
  layers.back() = o.last_layers.value_or(each);
  for (std::int64_t& count : layers) count = each_chunk(count, chunks);
  return layers;
}

static StageRanges ranges_of_counts(const PipelineOptions& o, int ranks, int chunks,
                                    std::int64_t num_layers) {
  const bool uneven = o.first_layers || o.last_layers;
  const std::vector<std::int64_t> layers = uneven ? uneven_layers(o, ranks, chunks, num_layers)
                                                  : even_layers(o, ranks, chunks, num_layers);
  StageRanges stages;
  std::int64_t begin = 0;
  const int count = ranks * chunks;
  for (int i = 0; i < count; ++i) {
    const bool first = i == 0, last = i == count - 1;
    const std::int64_t taken = (first && o.account_for_embedding) + (last && o.account_for_loss);
    const std::int64_t end = begin + layers[static_cast<std::size_t>(i % ranks)] - taken;
    stages.push_back({begin, end, first, last});
    begin = end;
  }
  return stages;
}

// --- The stages ---------------------------------------------------------------------------------

static void check_alone(const PipelineOptions& o, const char* who) {
  if (o.first_layers || o.last_layers || o.layers_per_virtual_stage || o.virtual_stages_per_rank ||
      o.account_for_embedding || o.account_for_loss)
    fail(Exit::usage, who,
         ": says what each stage holds; not with numbers of layers, of virtual stages, or "
         "--account-for-...");
}

static PipelineStages stages_of_segments(const PipelineOptions& o, int ranks) {
  constexpr const char* kParts = "--hybrid-layer-pattern with |";
  check_alone(o, kParts);
  if (!o.layout.empty()) fail(Exit::usage, kParts, ": not with --pipeline-model-parallel-layout");
  const int count = static_cast<int>(o.segments.size());
  if (count % ranks != 0)
    fail(Exit::bad_config, kParts, ": ", count, " stages are not a multiple of ", o.size_flag, ' ',
         ranks);
  if (ranks == 1) fail(Exit::bad_config, kParts, ": several stages need ", o.size_flag);
  PipelineStages stages{.chunks = count / ranks, .ranges = {}};
  std::int64_t begin = 0;
  for (const std::int64_t layers : o.segments) {
    const bool first = stages.ranges.empty(), last = std::ssize(stages.ranges) == count - 1;
    stages.ranges.push_back({begin, begin + layers, first, last});
    begin += layers;
  }
  return stages;
}

// The encoder's stages, and behind them those of the other layers.
static PipelineStages stages_of_stacks(const PipelineOptions& o, int ranks,
                                       const std::vector<LayerPlan>& layers) {
  const auto turn = std::ranges::find_if(
      layers, [&](const LayerPlan& layer) { return layer.stack != layers.front().stack; });
  const PipelineStages encoder =
      make_pipeline_stages({.size_flag = "--encoder-pipeline-model-parallel-size"}, o.encoder_ranks,
                           std::vector(layers.begin(), turn));
  PipelineOptions of_others = o;
  of_others.encoder_ranks = 0;
  PipelineStages all = make_pipeline_stages(of_others, ranks, std::vector(turn, layers.end()));
  for (StageRange& range : all.ranges) {
    range.begin += turn - layers.begin();
    range.end += turn - layers.begin();
  }
  all.ranges.insert(all.ranges.begin(), encoder.ranges.begin(), encoder.ranges.end());
  return all;
}

PipelineStages make_pipeline_stages(const PipelineOptions& o, int ranks,
                                    const std::vector<LayerPlan>& layers) {
  if (o.encoder_ranks > 0) return stages_of_stacks(o, ranks, layers);
  const std::int64_t num_layers = std::ssize(layers);
  if (!o.segments.empty()) return stages_of_segments(o, ranks);
  if (o.layout.empty()) {
    const int chunks = chunks_of(o, ranks, num_layers);
    return {chunks, ranges_of_counts(o, ranks, chunks, num_layers)};
  }
  check_alone(o, "--pipeline-model-parallel-layout");
  const StageRanges ranges = ranges_of_layout(o.layout, num_layers);
  if (ranges.size() % static_cast<std::size_t>(ranks) != 0)
    refuse(o.layout,
           concat(ranges.size(), " stages are not a multiple of ", o.size_flag, ' ', ranks));
  const int chunks = static_cast<int>(ranges.size()) / ranks;
  if (ranks == 1 && chunks > 1) refuse(o.layout, concat("several stages need ", o.size_flag));
  return {chunks, ranges};
}

}  // namespace mt
