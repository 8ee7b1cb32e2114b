#include "train/plan/plan_search.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/progress.h"
#include "base/threads.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "train/options/plan_options.h"
#include "train/options/run_options.h"
#include "train/run/drawing_model.h"
#include "train/run/task.h"

namespace mt {

std::string Layout::options() const {
  std::string text;
  const auto add = [&](const char* option, std::int64_t value) {
    if (value > 1) text += concat(option, ' ', value, ' ');
  };
  add("--tensor-model-parallel-size", tp);
  if (tp > 1) text += "--sequence-parallel ";
  add("--context-parallel-size", cp);
  add("--pipeline-model-parallel-size", pp);
  add("--num-virtual-stages-per-pipeline-rank", chunks);
  if (sharding != "no_shard") text += "--data-parallel-sharding-strategy " + sharding + ' ';
  if (sharding == "optim") text += "--overlap-grad-reduce ";
  if (sharding == "optim" || sharding == "optim_grads") text += "--overlap-param-gather ";
  if (recomputes)
    text += "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 ";
  return text + concat("--micro-batch-size ", micro_batch);
}

namespace {

constexpr int kMostChunks = 8, kMostContext = 8;
constexpr std::int64_t kMostMicroBatch = 16, kFewestTokens = 4096;

RunOptions with(RunOptions o, const Layout& layout) {
  o.ranks.count = layout.tp * layout.cp * layout.pp * layout.dp;
  ParallelOptions& parallel = o.ranks.parallel;
  parallel.tensor_model_parallel_size = layout.tp;
  parallel.context_parallel_size = layout.cp;
  parallel.pipeline_model_parallel_size = layout.pp;
  parallel.sequence_parallel = layout.tp > 1;
  parallel.tp_comm_overlap &= layout.tp > 1;
  if (layout.chunks > 1) o.ranks.pipeline.virtual_stages_per_rank = layout.chunks;
  o.batch.micro_batch_size = layout.micro_batch;
  o.optimizer.sharding_strategy = layout.sharding;
  o.optimizer.overlap_grad_reduce |= layout.sharding != "no_shard";
  o.optimizer.overlap_param_gather |= layout.sharding != "no_shard";
  return o;
}

// Whether attention stays within documents.
bool sees_documents(const Task& task) {
  return std::ranges::count(task.sample_fields(), Field::first_key, &FieldSpec::field) > 0;
}

class Search {
 public:
  Search(const RunOptions& options, const Task& task, const PlanOptions& asked, const Log& log)
      : options_(options),
        task_(task),
        model_(task.model()),
        layer_weights_(layer_weights(model_)),
        asked_(asked),
        log_(log) {
    if (!options.batch.global_batch_size)
      fail(Exit::usage, "--plan-search: needs --global-batch-size, which all layouts share");
    if (options.ranks.count > 1 || options.ranks.launch.gpus)
      fail(Exit::usage, "--plan-search: says how many GPUs; not with --gpus nor --ranks");
    if (!asked.svg.empty()) fail(Exit::usage, "--plan-svg: of one plan, not of --plan-search");
    asked_.wanted = true;
    found_.gpus = *asked.search;
    found_.machine = asked.machine.machine();
  }

  PlanSearch run() {
    for_tensor_and_context();
    measure();
    std::ranges::stable_sort(found_.fitting, {}, &Proposal::seconds);
    for (const auto& [why, layouts] : ruled_out_) found_.ruled_out.push_back({why, layouts});
    return std::move(found_);
  }

 private:
  void rule_out(const std::string& why) { ++ruled_out_[why]; }

  // What is tried where an option leaves the choice: powers of two.
  static std::vector<std::int64_t> choices(std::int64_t given, std::int64_t most) {
    if (given > 1) return {given};
    std::vector<std::int64_t> all;
    for (std::int64_t n = 1; n <= most; n *= 2) all.push_back(n);
    return all;
  }

  void for_tensor_and_context() {
    const ParallelOptions& given = options_.ranks.parallel;
    for (const std::int64_t tp : choices(given.tensor_model_parallel_size,
                                         std::min(found_.gpus, found_.machine.gpus_per_node)))
      for (const std::int64_t cp : choices(given.context_parallel_size, kMostContext)) {
        if (cp > 1 && keeps_sequences_whole(model_)) continue;
        if (cp > 1 && given.context_parallel_size == 1 && task_.seq_length() / cp < kFewestTokens)
          continue;
        if (found_.gpus % (tp * cp) != 0)
          rule_out("ranks that share matrices and sequences do not divide the GPUs");
        else if (model_.num_attention_heads % tp != 0 || model_.kv_heads() % tp != 0)
          rule_out("ranks that share matrices do not divide the attention heads");
        else
          for_pipeline({.tp = static_cast<int>(tp), .cp = static_cast<int>(cp)});
      }
  }

  void for_pipeline(Layout layout) {
    const int ranks = found_.gpus / (layout.tp * layout.cp);
    const std::int64_t layers = model_.all_layers();
    const int given = options_.ranks.parallel.pipeline_model_parallel_size;
    if (ranks % given != 0)
      return rule_out("--pipeline-model-parallel-size does not divide the GPUs");
    const std::int64_t most = given > 1 ? given : std::min<std::int64_t>(ranks, layers);
    for (layout.pp = given; layout.pp <= most; ++layout.pp) {
      if (ranks % layout.pp != 0) continue;
      if (layers % layout.pp != 0) {
        rule_out("stages do not divide the layers");
        continue;
      }
      layout.dp = ranks / layout.pp;
      const std::int64_t micro_batch = options_.batch.micro_batch_size;
      for (const std::int64_t n : choices(micro_batch, micro_batch == 1 ? 1 : kMostMicroBatch)) {
        layout.micro_batch = n;
        for_chunks(layout);
      }
    }
  }

  void for_chunks(Layout layout) {
    const std::int64_t at_once = layout.micro_batch * layout.dp;
    if (*options_.batch.global_batch_size % at_once != 0)
      return rule_out("micro-batches of all data-parallel ranks do not divide the global batch");
    const std::int64_t micro_batches = *options_.batch.global_batch_size / at_once;
    const std::int64_t layers = model_.all_layers() / layout.pp;
    const int most = layout.pp > 1 ? kMostChunks : 1;
    for (layout.chunks = 1; layout.chunks <= std::min<std::int64_t>(most, layers);
         ++layout.chunks) {
      if (layers % layout.chunks != 0 ||
          layout.chunks != options_.ranks.pipeline.virtual_stages_per_rank.value_or(layout.chunks))
        continue;
      if (layout.chunks > 1 && micro_batches % layout.pp != 0) {
        rule_out("stages do not divide the micro-batches, as virtual stages ask for");
        continue;
      }
      add(layout);
    }
  }

  void add(Layout layout) {
    std::vector<std::string> shardings = {"no_shard", "optim", "optim_grads_params"};
    if (options_.optimizer.sharding_strategy != "no_shard")
      shardings = {options_.optimizer.sharding_strategy};
    else if (options_.optimizer.use_distributed_optimizer)
      shardings = {"optim"};
    else if (layout.dp * layout.cp == 1)
      shardings = {"no_shard"};
    for (const std::string& sharding : shardings) {
      layout.sharding = sharding;
      const RecomputeOptions& given = model_.recompute;
      layout.recomputes = false;
      layouts_.push_back(layout);
      if (given.activations || !given.granularity.empty()) continue;
      layout.recomputes = true;
      layouts_.push_back(layout);
    }
  }

  // What becomes of a layout.
  struct Outcome {
    std::string ruled_out;
    Proposal proposal = {};
    Exit code = Exit::ok;  // of the options that exclude it
  };

  Outcome plan(const Layout& layout) const {
    RunOptions o = with(options_, layout);
    try {
      const RunOptions::Instead instead{asked_};
      o.complete(instead);
      const auto task = task_.changed(
          {.recomputes = layout.recomputes, .tensor_ranks = layout.tp, .context_ranks = layout.cp});
      o.complete_for(task->model(), task->seq_length(), sees_documents(*task), instead);
      if (o.device() != Device::cuda || size_of(o.compute_dtype()) != 2)
        fail(Exit::usage, "--plan-search: for GPUs in 16 bits; see --bf16 and --plan-machine");
      if (const auto work = task->drawn_work();
          work && DrawingModel::ranks_of_layers(o.ranks.sizes()) % work->together != 0)
        return {"ranks that draw together do not divide those that have the same layers"};
      if (least_bytes(layout) > room()) return {too_large()};
      const Plan plan = make_plan(o, *task, asked_, PlanDetail::without_largest);
      if (plan.fullest().memory.total() > room()) return {too_large()};
      const StepTimes& times = *plan.times;
      return {{},
              {.layout = layout,
               .bytes = plan.fullest().memory.total(),
               .seconds = times.seconds,
               .mfu = plan.mfu(),
               .idle = times.waiting / times.seconds,
               .waited = times.families[Family::communication] / times.seconds}};
    } catch (const Error& error) {
      if (error.code() != Exit::bad_config && error.code() != Exit::usage) throw;
      return {error.what(), {}, error.code()};
    }
  }

  std::size_t room() const { return found_.machine.memory / 100 * 97; }
  std::string too_large() const {
    return concat("more memory than 97% of a GPU's ", found_.machine.memory >> 20, " MiB");
  }

  // Weights, gradients and the optimizer's state of the layers alone.
  std::size_t least_bytes(const Layout& layout) const {
    const ParallelOptions& asked = options_.ranks.parallel;
    const int of_experts =
        asked.expert_model_parallel_size * asked.expert_tensor_parallel_size.value_or(layout.tp);
    const double weights = layer_weights_ / layout.pp / std::max(layout.tp, of_experts);
    constexpr double kValues = 6, kState = 12;  // bytes of each
    const double sharers = layout.dp * layout.cp;
    return static_cast<std::size_t>(weights * (layout.sharding == "no_shard" ? kValues + kState
                                               : layout.sharding == "optim"
                                                   ? kValues + kState / sharers
                                                   : (kValues + kState) / sharers));
  }

  void measure() {
    std::vector<Outcome> outcomes(layouts_.size());
    Progress progress(log_, "planning", "layouts", layouts_.size());
    Workers(0).run([&] {
      parallel_for_ordered_errors(std::ssize(layouts_), [&](std::int64_t i) {
        outcomes[static_cast<std::size_t>(i)] = plan(layouts_[static_cast<std::size_t>(i)]);
        progress.add(1);
      });
    });
    // What is wrong with all of them is not the layouts'.
    const auto is_usage = [](const Outcome& outcome) { return outcome.code == Exit::usage; };
    const auto is_as_first = [&](const Outcome& outcome) {
      return outcome.code != Exit::ok && outcome.ruled_out == outcomes.front().ruled_out;
    };
    if (!outcomes.empty() &&
        (std::ranges::all_of(outcomes, is_usage) || std::ranges::all_of(outcomes, is_as_first)))
      fail(outcomes.front().code, outcomes.front().ruled_out);
    for (Outcome& outcome : outcomes) {
      if (outcome.ruled_out.empty())
        found_.fitting.push_back(std::move(outcome.proposal));
      else
        rule_out(outcome.ruled_out);
    }
  }

  const RunOptions& options_;
  const Task& task_;
  const ModelConfig& model_;
  double layer_weights_;
  PlanOptions asked_;
  const Log& log_;
  std::vector<Layout> layouts_;
  std::map<std::string, int> ruled_out_;
  PlanSearch found_;
};

// --- Reports ------------------------------------------------------------------------------------

constexpr std::size_t kMostShown = 10;

// How the best layout differs from the fastest of those with another value on one axis.
struct Reason {
  std::string what;
  const Proposal* other;
};

template <class T>
void add_reason(std::vector<Reason>& reasons, const PlanSearch& search, const char* what,
                T Layout::*axis) {
  const Proposal& best = search.fitting.front();
  const auto other = std::ranges::find_if(
      search.fitting, [&](const Proposal& p) { return p.layout.*axis != best.layout.*axis; });
  if (other != search.fitting.end()) reasons.push_back({what, &*other});
}

std::vector<Reason> reasons_of(const PlanSearch& search) {
  std::vector<Reason> reasons;
  add_reason(reasons, search, "ranks that share matrices", &Layout::tp);
  add_reason(reasons, search, "ranks that share sequences", &Layout::cp);
  add_reason(reasons, search, "stages", &Layout::pp);
  add_reason(reasons, search, "virtual stages", &Layout::chunks);
  add_reason(reasons, search, "sequences of a micro-batch", &Layout::micro_batch);
  add_reason(reasons, search, "sharding", &Layout::sharding);
  add_reason(reasons, search, "recomputation or not", &Layout::recomputes);
  return reasons;
}

std::string row(const Proposal& p) {
  char text[200];
  std::snprintf(text, sizeof text,
                "%4d %4d %4d %4d %5d %6lld  %-18s  %-3s %10.3f %6.1f %6.1f %6.1f %9.1f\n",
                p.layout.tp, p.layout.cp, p.layout.pp, p.layout.chunks, p.layout.dp,
                static_cast<long long>(p.layout.micro_batch), p.layout.sharding.c_str(),
                p.layout.recomputes ? "yes" : "no", 1e3 * p.seconds, 100 * p.mfu, 100 * p.idle,
                100 * p.waited, static_cast<double>(p.bytes) / (1 << 30));
  return text;
}

constexpr const char* kHead =
    "  tp   cp   pp   vp    dp  micro  sharding            rec         ms   MFU%  idle%  wait%     "
    "  GiB\n";

void write(JsonWriter& json, const Proposal& p) {
  json.begin_object()
      .member("tensor", p.layout.tp)
      .member("context", p.layout.cp)
      .member("pipeline", p.layout.pp)
      .member("virtual_stages", p.layout.chunks)
      .member("data", p.layout.dp)
      .member("micro_batch_size", p.layout.micro_batch)
      .member("sharding", p.layout.sharding)
      .member("recompute", p.layout.recomputes)
      .member("step_seconds", p.seconds)
      .member("mfu", p.mfu)
      .member("idle", p.idle)
      .member("waited", p.waited)
      .member("bytes", p.bytes)
      .member("options", p.layout.options())
      .end_object();
}

}  // namespace

PlanSearch search_plans(const RunOptions& options, const Task& task, const PlanOptions& asked,
                        const Log& log) {
  return Search(options, task, asked, log).run();
}

std::string search_json(const PlanSearch& search) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-plan-search/1")
      .member("gpus", search.gpus)
      .member("machine", search.machine.name)
      .member("gpu_memory", search.machine.memory)
      .key("layouts")
      .begin_array();
  for (const Proposal& proposal : search.fitting) write(json, proposal);
  json.end_array().key("ruled_out").begin_array();
  for (const PlanSearch::RuledOut& out : search.ruled_out)
    json.begin_object().member("why", out.why).member("layouts", out.layouts).end_object();
  return json.end_array().end_object().text() + "\n";
}

std::string search_text(const PlanSearch& search) {
  std::string text = concat(search.gpus, " x ", search.machine.name, ": ", search.fitting.size(),
                            " layouts fit\n");
  if (!search.fitting.empty()) {
    text += kHead;
    for (std::size_t i = 0; i < std::min(kMostShown, search.fitting.size()); ++i)
      text += row(search.fitting[i]);
    text += concat("the first: ", search.fitting.front().layout.options(),
                   "\nthe fastest with other\n");
    for (const Reason& reason : reasons_of(search))
      text += concat("  ", reason.what, ":\n") + row(*reason.other);
  }
  if (!search.ruled_out.empty()) text += "ruled out:\n";
  for (const PlanSearch::RuledOut& out : search.ruled_out)
    text += concat("  ", out.layouts, out.layouts == 1 ? " layout: " : " layouts: ", out.why, "\n");
  return text;
}

}  // namespace mt
