#include "train/report/reports.h"

#include <algorithm>
#include <cmath>

#include "comm/group.h"
#include "train/options/run_options.h"
#include "train/report/memory_report.h"
#include "train/report/timer_report.h"

namespace mt {

static ReportOptions options_of_rank(const RunOptions& options, const Group& ranks) {
  ReportOptions report = options.report;
  if (ranks.rank() == 0) return report;
  report.run_log.clear();
  report.json = false;
  return report;
}

Reports::Reports(const RunOptions& options, const ModelConfig& model, const Log& log, Group& ranks)
    : options_(options),
      model_(model),
      log_(log),
      ranks_(ranks),
      run_log_(options_of_rank(options, ranks), ranks.size()),
      megatron_log_(log, options.report, options.length.train_iters, ranks.size()),
      train_progress_(log, options.length.train_iters),
      timers_(options.device() == Device::cpu ? options.report.timing_log_level : 0) {}

void Reports::start(std::int64_t iteration, std::int64_t parameters, double flops_before,
                    const std::string& options_json) {
  if (!speaks()) return;
  train_progress_.starts_at(iteration);
  const ReportOptions& o = options_.report;
  JsonWriter json = RunLog::event("start");
  json.member("iteration", iteration).member("parameters", parameters);
  json.key("options").raw(options_json);
  run_log_.write(json);
  if (!o.tensorboard_dir.empty()) events_.emplace(o.tensorboard_dir, o.tensorboard_queue_size);
  if (o.wandb_is_on()) {
    const std::string folder =
        o.wandb_save_dir.empty() ? options_.checkpoint.save + "/wandb" : o.wandb_save_dir;
    wandb_.emplace(folder, WandbRun::Names{*o.wandb_project, o.wandb_exp_name, o.wandb_entity},
                   options_json);
  }
  if (o.log_progress && !options_.checkpoint.save.empty())
    progress_.emplace(options_.checkpoint.save, ranks_.size(), flops_before);
}

void Reports::step(const StepReport& report, const RankMemory& memory) {
  timed_steps_ += 1;
  timed_seconds_ += report.seconds;
  if (speaks()) {
    run_log_.step(report);
    results_.step(report);
    if (has_curves() && report.iteration % options_.report.tensorboard_log_interval == 0)
      step_to_curves(report, memory);
    megatron_log_.step(report);
    train_progress_.step(report);
  }
  if (report.iteration % options_.report.log_interval != 0) return;
  if (speaks() && !megatron_log_.is_drawn() && !std::exchange(memory_reported_, true)) {
    megatron_log_.lines(theoretical_memory_text(model_, ranks_.size(),
                                                options_.optimizer.use_distributed_optimizer));
    megatron_log_.lines(memory_text(report.iteration, memory.total()));
  }
  report_times(report);
}

void Reports::curve(const std::string& tag, double value, std::int64_t iteration) {
  if (events_) events_->scalar(tag, value, iteration);
  if (wandb_) wandb_->scalar(tag, value, iteration);
}

void Reports::curve(const std::string& tag, double value, std::int64_t iteration,
                    std::int64_t samples) {
  curve(tag, value, iteration);
  if (events_) events_->scalar(tag + " vs samples", value, samples);
}

void Reports::step_to_curves(const StepReport& r, const RankMemory& memory) {
  const ReportOptions& o = options_.report;
  const auto one = [&](const std::string& tag, double value) { curve(tag, value, r.iteration); };
  const auto both = [&](const std::string& tag, double value) {
    curve(tag, value, r.iteration, r.consumed_samples);
  };
  if (wandb_)
    wandb_->scalar("samples vs steps", static_cast<double>(r.consumed_samples), r.iteration);
  both("learning-rate", r.next_learning_rate);
  if (r.skipped_samples > 0) one("skipped-train-samples", static_cast<double>(r.skipped_samples));
  both("batch-size", static_cast<double>(r.global_batch_size));
  for (const TermValue& loss : r.losses) both(loss.name, loss.value);
  if (!r.experts.empty()) {
    both("expert_load", most(r.experts, &ExpertReport::load));
    both("expert_drop", most(r.experts, &ExpertReport::dropped));
  }
  for (const ExpertReport& expert : r.experts) {
    one(concat("moe/expert_load_layer_", expert.layer), expert.load);
    one(concat("moe/expert_drop_layer_", expert.layer), expert.dropped);
  }
  if (o.loss_scale_to_tensorboard) both("loss-scale", r.loss_scale);
  if (o.world_size_to_tensorboard) both("world-size", ranks_.size());
  if (!r.skipped) both("grad-norm", r.grad_norm);
  if (r.num_zeros) both("num-zeros", static_cast<double>(*r.num_zeros));
  if (r.params_norm) both("params-norm", *r.params_norm);
  if (r.max_attention_logit) both("max_attention_logit", *r.max_attention_logit);
  if (!o.memory_to_tensorboard) return;
  const auto allocated = static_cast<double>(memory.total());
  one("mem-reserved-bytes", resident_bytes());
  one("mem-allocated-bytes", allocated);
  one("mem-max-allocated-bytes", allocated);
}

// Means over the steps since the last log line.
void Reports::report_times(const StepReport& r) {
  const auto seconds = gather_seconds(timers_, ranks_);
  const auto steps = static_cast<double>(timed_steps_);
  if (speaks()) {
    if (has_curves() && options_.report.timers_to_tensorboard) {
      for (const auto& [name, mean] : longest_seconds(seconds, steps))
        curve(name + "-time", mean, r.iteration);
      curve("iteration-time", timed_seconds_ / steps, r.iteration);
      const double tflops = r.flops * steps / (timed_seconds_ * 1e12 * ranks_.size());
      if (options_.report.log_throughput) curve("throughput", tflops, r.iteration);
      if (options_.report.peak_tflops)
        curve("mfu", tflops / *options_.report.peak_tflops, r.iteration);
    }
    const std::string text = timer_text(seconds, options_.report.timing_log_option, steps);
    if (!text.empty() && !megatron_log_.is_drawn()) megatron_log_.lines(text);
  }
  timers_.reset();
  timed_steps_ = 0;
  timed_seconds_ = 0;
}

void Reports::evaluation(const EvaluationReport& r) {
  if (!speaks()) return;
  run_log_.evaluation(r);
  results_.evaluation(r);
  megatron_log_.evaluation(r);
  if (!has_curves() || options_.evaluation.skip_train) return;
  const auto both = [&](const std::string& name, double value) {
    curve(name, value, r.iteration, r.consumed_samples);
  };
  for (const TermValue& loss : r.losses) {
    const std::string tag = concat(loss.name, " ", r.split == "valid" ? "validation" : r.split,
                                   r.set.empty() ? "" : "-" + r.set);
    both(tag, loss.value);
    if (options_.report.validation_ppl_to_tensorboard)
      both(tag + " ppl", std::exp(std::min(20.0, loss.value)));
  }
}

void Reports::drawn(const DrawnReport& r) {
  if (!speaks()) return;
  run_log_.drawn(r);
  results_.drawn(r);
  std::vector<LogField> fields{{"iteration", r.iteration}};
  for (const auto& [name, number] : r.numbers) {
    fields.emplace_back(name, number);
    if (!options_.evaluation.skip_train) curve(name + " validation", number, r.iteration);
  }
  log_.event("validation", fields);
}

void Reports::epoch(std::int64_t epoch, std::int64_t iteration,
                    std::span<const EpochReport> reports) {
  if (!speaks()) return;
  for (const EpochReport& report : reports) {
    run_log_.epoch(epoch, iteration, report);
    megatron_log_.epoch(epoch, iteration, report);
  }
  results_.epoch(reports);
}

void Reports::saving(const SaveReport& r) {
  if (speaks() && progress_)
    progress_->saved("Saving async checkpoint", r.iteration, r.flops, r.tokens);
}

void Reports::saved(const SaveReport& r) {
  if (!speaks()) return;
  JsonWriter json = RunLog::event("save");
  json.member("iteration", r.iteration).member("seconds", r.seconds);
  run_log_.write(json);
  log_.event("saved", {{"iteration", r.iteration}, {"folder", r.folder}});
  if (events_) events_->flush();
  const char* const event = r.async ? "Saved async checkpoint" : "Saved checkpoint";
  if (progress_) progress_->saved(event, r.iteration, r.flops, r.tokens);
}

void Reports::profile(const ProfileReport& report) {
  if (!options_.report.json) {
    std::fputs(profile_text(report).c_str(), stdout);
    std::fflush(stdout);
  }
  if (!speaks()) return;
  JsonWriter json = RunLog::event("profile");
  write_profile(report, json);
  run_log_.write(json);
}

void Reports::end(const std::string& reason, std::int64_t iteration, const RankMemory& memory) {
  if (!speaks()) return;
  train_progress_.finish();
  JsonWriter json = RunLog::event("end");
  json.member("reason", reason).member("iteration", iteration).key("memory");
  memory.write(json);
  run_log_.write(json);
  if (events_) events_->flush();
  if (wandb_) wandb_->end();
  if (!options_.report.results.empty() && reason == "done")
    results_.write(options_.report.results, iteration);
}

}  // namespace mt
