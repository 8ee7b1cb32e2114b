#include "train/plan/drawing_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "comm/meta_group.h"
#include "comm/nccl_memory.h"
#include "comm/rank_grid.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/pass.h"
#include "nn/cached_past.h"
#include "nn/kv_cache.h"
#include "train/options/run_options.h"
#include "train/plan/plan.h"
#include "train/plan/rank_memory.h"
#include "train/run/drawing_model.h"

namespace mt {
namespace {

constexpr double kRateOfFewRows = 0.45, kBytes = 0.25;
constexpr std::int64_t kAtOnce = 256;  // texts that are written at a time, at most

// Elements of the matrices that a token is multiplied with, or may be: by experts.
struct Matrices {
  double dense = 0, experts = 0;
};

Matrices matrices_of(const Task& task) {
  const bool tied = !task.model().untie_embeddings_and_output_weights;
  Matrices all;
  const ParamTable table = task.rows();
  for (const Param& row : table.rows()) {
    if (row.shape.rank() < 2 || (row.place.stack == "embedding" && !(tied && row.is_vocabulary())))
      continue;
    (row.copies == Copies::experts ? all.experts : all.dense) +=
        static_cast<double>(row.shape.numel());
  }
  return all;
}

// A sum of so many bytes on each of these ranks.
Message sum_of(double bytes, const std::vector<int>& ranks, const Machine& machine) {
  const auto count = static_cast<double>(ranks.size());
  return {.group = "",
          .collective = "all_reduce",
          .ranks = static_cast<int>(ranks.size()),
          .hosts = machine.nodes(ranks),
          .bytes = 2 * (count - 1) / count * bytes};
}

// Of keys and values, on each of so many ranks that draw together.
std::size_t bytes_of_token(const RunOptions& options, const Task& task, int ranks) {
  constexpr std::int64_t kTokens = 256;  // of which nothing is rounded up
  return KvCache::bytes(
             cache_of(task.model(), {.pages = 1, .page_tokens = kTokens, .ranks = ranks}),
             options.compute_dtype()) /
         kTokens;
}

std::size_t bytes_of_texts(const RunOptions& options, const Task& task, const DrawnWork& work,
                           std::int64_t texts) {
  return static_cast<std::size_t>(texts * (work.prompt + work.completion)) *
         bytes_of_token(options, task, work.together);
}

// What a pass takes over the next token of each of so many texts that behold no images; most of it
// are its logits.
std::size_t bytes_of_pass(const RunOptions& options, const Task& task, const DrawnWork& work,
                          std::int64_t texts) {
  Stream meta(Device::meta);
  const ModelConfig& config = task.model();
  const std::unique_ptr<Group> ranks =
      work.together > 1 ? make_meta_group(0, work.together, meta) : nullptr;
  const PassRanks together{.group = ranks.get()};
  const auto model = task.make_model({{.end = std::ssize(layers_of(config))}}, together.part());
  model->table().allocate(Device::meta, options.compute_dtype(), false);
  const std::int64_t length = work.prompt + work.completion;
  const KvCache cache(
      Device::meta, options.compute_dtype(),
      cache_of(config,
               {.pages = 1, .page_tokens = length, .slots = texts, .ranks = work.together}));
  Pass pass(*model, meta, config.padded_vocab_size, together);
  pass.reserve([&](Pass& measured) {
    measured.input({.sequences = texts, .rows = texts, .pages = 1});
    measured.logits({.cache = &cache, .longest = length});
  });
  return pass.bytes();
}

// As many texts as there is room for, one at least, each with its part of a pass over `most`.
std::int64_t texts_in(std::size_t room, std::size_t bytes_of_text, std::size_t pass,
                      std::int64_t most) {
  const std::size_t part = pass / static_cast<std::size_t>(most) + 1,
                    texts = room / (bytes_of_text + part);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(texts), 1, most);
}

// How long some ranks together take for texts, each so many of a prompt's.
class Writer {
 public:
  Writer(const RunOptions& options, const Task& task, const Machine& machine, int ranks)
      : machine_(machine),
        model_(task.model()),
        ranks_(ranks_between(0, ranks)),
        matrices_(matrices_of(task)),
        bytes_of_number_(static_cast<double>(size_of(options.compute_dtype()))) {
    const ModelConfig& model = task.model();
    matrices_.dense /= ranks;
    matrices_.experts /= ranks;
    if (model.num_experts > 0)
      chosen_ = static_cast<double>(model.moe_router_topk) / static_cast<double>(model.num_experts);
    bytes_of_token_ = mt::bytes_of_token(options, task, ranks);
  }

  std::size_t bytes_of_token() const { return bytes_of_token_; }

  double seconds(const DrawnWork& work, std::int64_t texts, std::int64_t at_once) const {
    double sum = 0;
    for (std::int64_t left = texts; left > 0; left -= at_once) {
      const auto now = static_cast<double>(std::min(left, at_once));
      const double prompts = std::ceil(now / static_cast<double>(work.group)),
                   read = prompts * static_cast<double>(work.prompt);
      sum += products(read, 1) + messages(read, prompts);
      const double seen = static_cast<double>(work.prompt) +
                          static_cast<double>(work.completion) / 2;  // by a token, in the mean
      const double keys = now * seen * static_cast<double>(bytes_of_token_) / machine_.bytes;
      sum += static_cast<double>(work.completion) *
             (products(now, kRateOfFewRows) + keys + messages(now, now) + machine_.launch);
    }
    return sum;
  }

 private:
  double products(double tokens, double rate) const {
    const double touched = chosen_ > 0 ? 1 - std::pow(1 - chosen_, tokens) : 0;
    const double moving =
        (matrices_.dense + touched * matrices_.experts) * bytes_of_number_ / machine_.bytes;
    const double flops = 2 * tokens * (matrices_.dense + chosen_ * matrices_.experts);
    return std::max(flops / (rate * machine_.products) + kBytes * moving, moving);
  }

  // Of so many tokens, and of those whose logits are asked for.
  double messages(double tokens, double asked) const {
    if (ranks_.size() == 1) return 0;
    const double hidden = tokens * static_cast<double>(model_.hidden_size) * bytes_of_number_,
                 logits = asked * static_cast<double>(model_.padded_vocab_size * sizeof(float));
    Message gathered = sum_of(logits, ranks_, machine_);
    gathered.bytes /= 2;
    return static_cast<double>(2 * model_.num_layers + 1) *
               machine_.seconds(sum_of(hidden, ranks_, machine_)) +
           machine_.seconds(gathered);
  }

  const Machine& machine_;
  const ModelConfig& model_;
  std::vector<int> ranks_;
  Matrices matrices_;
  double bytes_of_number_, chosen_ = 0;
  std::size_t bytes_of_token_ = 0;
};

}  // namespace

std::size_t copy_bytes(const RunOptions& options, const Task& task) {
  if (!task.drawn_work() || !DrawingModel::is_due(options, task.drawn_work()->together)) return 0;
  return DrawingModel(options, task, 0, Device::meta).bytes();
}

std::size_t flight_bytes(const RunOptions& options, const Task& task) {
  const auto work = task.drawn_work();
  if (!work || work->in_flight == 0) return 0;
  const std::int64_t writers = options.ranks.count / work->together,
                     texts = (work->texts + writers - 1) / writers;
  return bytes_of_texts(options, task, *work, work->in_flight * texts);
}

std::optional<DrawerPlan> plan_drawer(const RunOptions& options, const Task& task,
                                      std::size_t gpu_memory) {
  const std::int64_t drawers = options.ranks.drawers;
  if (drawers == 0) return std::nullopt;
  const DrawnWork work = *task.drawn_work();
  const auto model = task.make_model({{.end = std::ssize(layers_of(task.model()))}}, {});
  model->table().allocate(Device::meta, options.compute_dtype(), false);
  DrawerPlan plan{.text = bytes_of_texts(options, task, work, 1),
                  .at_once = std::min(kAtOnce, (work.texts + drawers - 1) / drawers)};
  for (const FlatRows& flat : model->table().flat_rows()) plan.model += flat.values.bytes();
  plan.pass = bytes_of_pass(options, task, work, plan.at_once);
  if (options.device() == Device::cpu) return plan;
  NcclMemory nccl;  // of all ranks, of those that draw, and to the first of the others
  nccl.add(Carries::numbers);
  if (drawers > 1) nccl.add(Carries::numbers);
  nccl.add(Carries::tensors).collectives = true;
  plan.of_gpu = kCudaMemory + nccl.bytes();
  const std::size_t needed = plan.model + plan.of_gpu,
                    room = gpu_memory > needed ? gpu_memory - needed : 0;
  plan.at_once = texts_in(room, plan.text, plan.pass, plan.at_once);
  plan.pass = bytes_of_pass(options, task, work, plan.at_once);
  return plan;
}

// Until those that draw for others have so many bytes of values: from the first of the others to
// each of them, by links, or on one machine by its memory.
static double handing_seconds(const RunOptions& options, double bytes, const Machine& machine) {
  const int drawers = options.ranks.drawers;
  if (options.device() == Device::cpu) return drawers * bytes / machine.bytes;
  return machine.seconds({.group = "",
                          .collective = "broadcast",
                          .ranks = drawers + 1,
                          .hosts = machine.nodes(options.ranks.linked_ranks()),
                          .bytes = bytes});
}

// Until each rank has so many bytes of values.  Where it draws by all of the model all ranks
// together have these.  Where it draws by parts of the matrices, those of a pipeline have each its
// layers', which data-parallel ranks may have in parts, and tensor-parallel ones other parts.
static double refit_seconds(const RunOptions& options, double bytes, int together,
                            const Machine& machine) {
  const ParallelSizes sizes = options.ranks.sizes();
  double seconds = 3 * bytes / machine.bytes;  // zeroed, read and written
  if (together == 1)
    return seconds + machine.seconds(sum_of(bytes, ranks_between(0, sizes.ranks()), machine));
  const std::vector<int> data = rank_group(sizes, "cp-dp", 0);
  const double trained = bytes * together / sizes.tp / sizes.pp;  // what one of those has
  if (options.optimizer.shards_values() && data.size() > 1)
    seconds += machine.seconds(sum_of(trained, data, machine)) / 2;  // gathered: half of a sum
  if (sizes.tp > 1 && sizes.tp != together)
    seconds += machine.seconds(sum_of(trained * sizes.tp, rank_group(sizes, "tp", 0), machine));
  if (sizes.pp > 1) seconds += machine.seconds(sum_of(bytes, rank_group(sizes, "pp", 0), machine));
  return seconds;
}

DrawingPlan plan_drawing(const RunOptions& options, const Task& task, const Plan& plan) {
  const Machine& machine = *plan.machine;
  const int drawers = options.ranks.drawers;
  DrawingPlan drawing{.work = *task.drawn_work(), .drawers = drawers};
  const DrawnWork& work = drawing.work;
  const std::int64_t writers = drawers > 0 ? drawers : plan.ranks / work.together;
  drawing.texts = (work.texts + writers - 1) / writers;
  const Writer writer(options, task, machine, work.together);
  drawing.bytes_of_text =
      writer.bytes_of_token() * static_cast<std::size_t>(work.prompt + work.completion);
  const std::size_t needed = plan.fullest().memory.total(),
                    room = plan.room() > needed ? plan.room() - needed : 0;
  const std::int64_t most = std::min(kAtOnce, drawing.texts);
  const std::optional<DrawerPlan> drawer = plan_drawer(options, task, plan.device_memory);
  drawing.at_once = drawer      ? drawer->at_once
                    : room == 0 ? most
                                : texts_in(room, drawing.bytes_of_text,
                                           bytes_of_pass(options, task, work, most), most);
  drawing.generation = writer.seconds(work, drawing.texts, drawing.at_once);
  if (const std::size_t bytes = copy_bytes(options, task); bytes > 0)
    drawing.refit = refit_seconds(options, static_cast<double>(bytes), work.together, machine);
  if (drawer) {
    drawing.bytes_of_drawer = drawer->bytes();
    drawing.refit += handing_seconds(options, static_cast<double>(drawer->model), machine);
  }
  drawing.training = plan.times->seconds * static_cast<double>(work.steps);
  for (const RankPlan& rank : plan.pipeline)  // the first texts pass one rank after the other
    drawing.log_probs = std::max(drawing.log_probs, rank.evaluation);
  drawing.log_probs *=
      (1 + static_cast<double>(plan.pipeline.size() - 1) / options.batch.micro_batches()) *
      static_cast<double>(work.texts) / static_cast<double>(options.batch.largest());
  return drawing;
}

void DrawingPlan::write(JsonWriter& json) const {
  json.begin_object()
      .member("texts", work.texts)
      .member("prompt_tokens", work.prompt)
      .member("completion_tokens", work.completion)
      .member("ranks_together", work.together)
      .member("ranks_that_draw", drawers)
      .member("bytes_of_rank_that_draws", bytes_of_drawer)
      .member("texts_of_ranks", texts)
      .member("texts_at_a_time", at_once)
      .member("bytes_of_text", bytes_of_text)
      .member("steps", work.steps)
      .member("refit_seconds", refit)
      .member("generation_seconds", generation)
      .member("log_probs_seconds", log_probs)
      .member("training_seconds", training)
      .member("seconds", seconds())
      .member("tokens_per_second", static_cast<double>(work.texts * work.completion) / seconds())
      .end_object();
}

std::string DrawingPlan::text() const {
  char row[160];
  const std::string who = drawers > 0          ? concat("each of ", drawers, " ranks that draw")
                          : work.together == 1 ? "a rank"
                                               : concat(work.together, " ranks together");
  std::snprintf(row, sizeof row,
                "%lld texts of %lld + %lld tokens, %lld on %s, %lld of them at a time, learnt in "
                "%lld step%s: %.1f s, %.0f tokens/s\n",
                static_cast<long long>(work.texts), static_cast<long long>(work.prompt),
                static_cast<long long>(work.completion), static_cast<long long>(texts), who.c_str(),
                static_cast<long long>(at_once), static_cast<long long>(work.steps),
                work.steps == 1 ? "" : "s", seconds(),
                static_cast<double>(work.texts * work.completion) / seconds());
  std::string text = row;
  for (const auto& [name, part] :
       {std::pair("refit", refit), std::pair("generation", generation),
        std::pair("log-probabilities", log_probs), std::pair("training", training)}) {
    std::snprintf(row, sizeof row, "%-23s %11.3f s   %5.1f%%\n", name, part,
                  100 * part / seconds());
    text += row;
  }
  return text;
}

}  // namespace mt
