#include "train/run/training_command.h"

#include <csignal>
#include <cstdio>
#include <iostream>

#include "base/command.h"
#include "base/signals.h"
#include "comm/supervisor.h"
#include "model/config/model_config.h"
#include "train/check/layout_check.h"
#include "train/options/plan_options.h"
#include "train/options/run_options.h"
#include "train/plan/plan.h"
#include "train/plan/plan_search.h"
#include "train/report/plot.h"
#include "train/run/task.h"
#include "train/run/train.h"

namespace mt {

void find_ranks(CommandLine& cl, RunOptions& run, bool runs) {
  RankOptions& ranks = run.ranks;
  ranks.launch.runs = runs;
  ranks.take_process(find_launch(ranks.launch));
  if (ranks.has_processes() && cl.log().settings().format == Log::Format::json)
    cl.speaks_as(ranks.process.rank);
}

void print_plan(RunOptions& run, PlanOptions& plan, const Log& log,
                const std::function<std::unique_ptr<Task>()>& task) {
  const auto print = [](const std::string& text) { std::fputs(text.c_str(), stdout); };
  measure_machine(plan.machine, run.compute_dtype());
  const std::unique_ptr<Task> planned = task();
  if (plan.search) {
    const PlanSearch search = search_plans(run, *planned, plan, log);
    return print(run.report.json ? search_json(search) : search_text(search));
  }
  const Plan made = make_plan(run, *planned, plan);
  print(run.report.json ? plan_json(made) : plan_text(made, terminal_columns()));
  if (!plan.svg.empty()) write_plan_svg(made, plan.svg, run.checkpoint.force);
}

void run_training(CommandLine& cl, RunOptions& run, bool check_layout,
                  const std::function<std::unique_ptr<Task>()>& open) {
  std::signal(SIGPIPE, SIG_IGN);  // training goes on where nobody reads of it any more
  Signals signals;
  const RankOptions& ranks = run.ranks;
  if (!ranks.process.must_start)
    signals.answer([&](Signal signal) {
      if (check_layout) end_by(signal);  // nothing of it remains
      if (signal != Signal::interrupt) return;
      cl.log().draw_no_more();
      cl.log().note("stops after the first step; again: now");
    });
  const std::unique_ptr<Task> task = open();
  run.compute.warn(cl.log());
  if (run.report.timing_log_level > 0 && run.device() != Device::cpu)
    cl.log().warn("--timing-log-level: has no effect on a GPU, whose steps are timed whole");
  if (run.checkpoint.save_interval && run.checkpoint.save.empty())
    cl.log().warn("--save-interval: has no effect without --save: no checkpoint is written");
  if (task->model().num_experts == 0 && cl.given("--expert-tensor-parallel-size"))
    cl.log().warn("--expert-tensor-parallel-size: has no effect on a model without experts");
  if (task->model().multi_latent_attention) {
    if (cl.given("--kv-channels"))
      cl.log().warn("--kv-channels: has no effect with --multi-latent-attention");
    if (task->model().rotary_scaling_factor == 1)
      for (const char* const name : {"--mscale", "--mscale-all-dim", "--yarn-beta-fast",
                                     "--yarn-beta-slow", "--original-max-position-embeddings"})
        if (cl.given(name))
          cl.log().warn(concat(name, ": has no effect with a --rotary-scaling-factor of 1"));
  }
  if (check_layout) return mt::check_layout(run, *task, cl.log(), std::cout);
  if (ranks.process.must_start) {
    ranks.check_gpus();
    return supervise(ranks.process,
                     {.arguments = cl.arguments(),
                      .max_restarts = ranks.launch.max_restarts,
                      .timeout = ranks.launch.timeout()},
                     signals, cl.log());
  }
  JsonWriter json;
  cl.write_options(json);
  train(run, *task, signals, cl.log(), json.text());
}

}  // namespace mt
