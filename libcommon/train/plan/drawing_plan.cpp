#include "train/plan/drawing_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/json.h"
#include "comm/meta_group.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "nn/kv_cache.h"
#include "train/options/run_options.h"
#include "train/plan/plan.h"
#include "train/run/whole_model.h"

namespace mt {
namespace {

constexpr double kRateOfFewRows = 0.45, kBytes = 0.25;
constexpr std::int64_t kTogether = 256;  // texts that are written at a time, at most

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

// How long a rank takes for texts, each so many of a prompt's.
class Writer {
 public:
  Writer(const RunOptions& options, const Task& task, const Machine& machine)
      : machine_(machine),
        matrices_(matrices_of(task)),
        bytes_of_number_(static_cast<double>(size_of(options.compute_dtype()))) {
    const ModelConfig& model = task.model();
    if (model.num_experts > 0)
      chosen_ = static_cast<double>(model.moe_router_topk) / static_cast<double>(model.num_experts);
    bytes_of_token_ =
        KvCache::bytes(cache_of(model, {.pages = 1, .page_tokens = 1}), options.compute_dtype());
  }

  std::size_t bytes_of_token() const { return bytes_of_token_; }

  double seconds(const DrawnWork& work, std::int64_t texts, std::int64_t together) const {
    double sum = 0;
    for (std::int64_t left = texts; left > 0; left -= together) {
      const auto now = static_cast<double>(std::min(left, together));
      const double prompts = std::ceil(now / static_cast<double>(work.group));
      sum += products(prompts * static_cast<double>(work.prompt), 1);
      const double seen = static_cast<double>(work.prompt) +
                          static_cast<double>(work.completion) / 2;  // by a token, in the mean
      const double keys = now * seen * static_cast<double>(bytes_of_token_) / machine_.bytes;
      sum += static_cast<double>(work.completion) *
             (products(now, kRateOfFewRows) + keys + machine_.launch);
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

  const Machine& machine_;
  Matrices matrices_;
  double bytes_of_number_, chosen_ = 0;
  std::size_t bytes_of_token_ = 0;
};

}  // namespace

std::size_t copy_bytes(const RunOptions& options, const Task& task) {
  if (!task.drawn_work() || !WholeModel::is_due(options)) return 0;
  return WholeModel(options, task, Device::meta).bytes();
}

DrawingPlan plan_drawing(const RunOptions& options, const Task& task, const Plan& plan) {
  const Machine& machine = *plan.machine;
  DrawingPlan drawing{.work = *task.drawn_work()};
  const DrawnWork& work = drawing.work;
  const std::int64_t ranks = plan.ranks;
  drawing.texts = (work.texts + ranks - 1) / ranks;
  const Writer writer(options, task, machine);
  drawing.bytes_of_text =
      writer.bytes_of_token() * static_cast<std::size_t>(work.prompt + work.completion);
  const std::size_t needed = plan.fullest().memory.total(),
                    room = plan.room() > needed ? plan.room() - needed : 0;
  const std::int64_t most = std::min(kTogether, drawing.texts);
  drawing.together =
      room == 0
          ? most
          : std::clamp<std::int64_t>(
                static_cast<std::int64_t>(room / std::max<std::size_t>(1, drawing.bytes_of_text)),
                1, most);
  drawing.generation = writer.seconds(work, drawing.texts, drawing.together);
  if (const std::size_t bytes = copy_bytes(options, task); bytes > 0) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const double sent = 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    drawing.refit = machine.seconds(Message{.group = "",
                                            .collective = "all_reduce",
                                            .ranks = plan.ranks,
                                            .hosts = machine.nodes(all),
                                            .bytes = sent * static_cast<double>(bytes)}) +
                    3 * static_cast<double>(bytes) / machine.bytes;  // zeroed, read and written
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
      .member("texts_of_rank", texts)
      .member("texts_at_a_time", together)
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
  std::snprintf(
      row, sizeof row,
      "%lld texts of %lld + %lld tokens, %lld on a rank, %lld of them at a time, learnt in "
      "%lld step%s: %.1f s, %.0f tokens/s\n",
      static_cast<long long>(work.texts), static_cast<long long>(work.prompt),
      static_cast<long long>(work.completion), static_cast<long long>(texts),
      static_cast<long long>(together), static_cast<long long>(work.steps),
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
