#include "train/report/run_log.h"

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/signals.h"

namespace mt {

JsonWriter RunLog::event(const char* name) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-pretrain/1").member("event", name);
  return json;
}

void RunLog::write(JsonWriter& open_object) {
  const std::string line = open_object.end_object().text() + "\n";
  if (!options_.run_log.empty()) {
    if (!file_) file_.emplace(File::append(options_.run_log));
    file_->write(line);
  }
  if (options_.json) {
    std::fwrite(line.data(), 1, line.size(), stdout);
    if (std::fflush(stdout) == 0) return;
    if (errno == EPIPE) end_by(Signal::pipe);  // training holds the signal itself back
    fail_errno("stdout", "cannot write", Exit::io_error);
  }
}

static void write_losses(const TermValues& losses, JsonWriter& json) {
  for (std::size_t i = 0; i < losses.size(); ++i)
    json.member(member_of(losses, i), losses[i].value);
}

void RunLog::step(const StepReport& r) {
  JsonWriter json = event("step");
  json.member("iteration", r.iteration).member("consumed_samples", r.consumed_samples);
  write_losses(r.losses, json);
  const auto of_experts = [&](const char* worst, const char* all, double ExpertReport::*number) {
    if (r.experts.empty()) return;
    json.member(worst, most(r.experts, number)).key(all).begin_array();
    for (const ExpertReport& one : r.experts) json.value(one.*number);
    json.end_array();
  };
  of_experts("expert_load", "expert_loads", &ExpertReport::load);
  of_experts("expert_drop", "expert_drops", &ExpertReport::dropped);
  json.member("lr", r.learning_rate).member("grad_norm", r.grad_norm);
  if (r.num_zeros) json.member("num_zeros", *r.num_zeros);
  json.member("tokens_per_second", static_cast<double>(r.tokens) / r.seconds)
      .member("step_seconds", r.seconds);
  if (r.skipped) json.member("skipped", true);
  if (r.loss_scale != 1) json.member("loss_scale", r.loss_scale);
  if (r.skipped_samples > 0) json.member("skipped_samples", r.skipped_samples);
  if (r.params_norm) json.member("params_norm", *r.params_norm);
  if (r.max_attention_logit) json.member("max_attention_logit", *r.max_attention_logit);
  const double tflops = r.flops / (r.seconds * 1e12 * ranks_);
  if (options_.log_throughput) json.member("tflops", tflops);
  if (options_.peak_tflops) json.member("mfu", tflops / *options_.peak_tflops);
  write(json);
}

void RunLog::evaluation(const EvaluationReport& r) {
  JsonWriter json = event("eval");
  json.member("split", r.split);
  if (!r.set.empty()) json.member("set", r.set);
  json.member("iteration", r.iteration);
  write_losses(r.losses, json);
  write(json);
}

void RunLog::drawn(const DrawnReport& r) {
  JsonWriter json = event("eval");
  json.member("split", "valid").member("iteration", r.iteration);
  for (const auto& [name, number] : r.numbers) json.member(name, number);
  write(json);
}

void RunLog::epoch(std::int64_t epoch, std::int64_t iteration, const EpochReport& r) {
  JsonWriter json = event("epoch");
  json.member("epoch", epoch);
  if (!r.set.empty()) json.member("set", r.set);
  json.member("iteration", iteration);
  for (const auto& [name, number] : r.numbers)
    std::visit([&](auto value) { json.member(name, value); }, number);
  write(json);
}

}  // namespace mt
