#include "train/report/megatron_log.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <string>
#include <vector>

namespace mt {

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local;
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

static std::string formatted(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

static long long wide(std::int64_t number) { return number; }  // for %lld

void MegatronLog::lines(const std::string& text) const {
  if (!log_.shows(Log::Level::normal)) return;
  if (log_.settings().format == Log::Format::text) return log_.write_line(text);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) log_.note(line);
}

bool MegatronLog::is_drawn() const { return log_.draws() && !log_.shows(Log::Level::verbose); }

std::string MegatronLog::step_line(const StepReport& r) const {
  const double seconds = sums_.seconds / (sums_.advanced + sums_.skipped);
  const double tflops = r.flops / (seconds * 1e12 * ranks_);
  std::string line = " [" + timestamp() + "]";
  line += formatted(" iteration %8lld/%8lld | consumed samples: %12lld |", wide(r.iteration),
                    wide(train_iters_), wide(r.consumed_samples));
  if (r.skipped_samples > 0)
    line += formatted(" skipped samples: %12lld |", wide(r.skipped_samples));
  line += formatted(" elapsed time per iteration (ms): %.1f |", 1000 * seconds);
  if (options_.log_throughput)
    line += formatted(" throughput per GPU (TFLOP/s/GPU): %.1f |", tflops);
  if (options_.peak_tflops)
    line += formatted(" MFU (%%): %.1f |", 100 * tflops / *options_.peak_tflops);
  line += formatted(" learning rate: %.6E |", r.next_learning_rate);
  if (r.next_decoupled_learning_rate)
    line += formatted(" decoupled learning rate: %.6E |", *r.next_decoupled_learning_rate);
  line += formatted(" global batch size: %5lld |", wide(r.global_batch_size));
  for (const TermValue& sum : sums_.losses)
    if (const double loss = sum.value / sums_.advanced; loss > 0)
      line += formatted(" %s: %.6E |", sum.name, loss);
  if (!r.experts.empty())
    line +=
        formatted(" expert load: %.3f | expert drop: %.4f |", most(r.experts, &ExpertReport::load),
                  most(r.experts, &ExpertReport::dropped));
  line += formatted(" loss scale: %.1f |", r.loss_scale);
  if (!r.skipped) line += formatted(" grad norm: %.3f |", r.grad_norm);
  if (r.num_zeros) line += formatted(" num zeros: %lld.0 |", wide(*r.num_zeros));
  if (r.params_norm) line += formatted(" params norm: %.3f |", *r.params_norm);
  if (r.max_attention_logit)
    line += formatted(" max attention logit: %.3f |", *r.max_attention_logit);
  line += formatted(" number of skipped iterations: %3d | number of nan iterations: %3d |",
                    sums_.skipped, sums_.nan);
  return line;
}

// Returns the names, of which the fields are views.
static std::vector<std::string> add_losses(const TermValues& losses,
                                           std::vector<LogField>& fields) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < losses.size(); ++i) names.push_back(member_of(losses, i));
  for (std::size_t i = 0; i < losses.size(); ++i) fields.emplace_back(names[i], losses[i].value);
  return names;
}

void MegatronLog::step_event(const StepReport& r) const {
  const double seconds = sums_.seconds / (sums_.advanced + sums_.skipped);
  const double tflops = r.flops / (seconds * 1e12 * ranks_);
  std::vector<LogField> fields = {{"iteration", r.iteration},
                                  {"train_iters", train_iters_},
                                  {"consumed_samples", r.consumed_samples},
                                  {"seconds", seconds},
                                  {"lr", r.next_learning_rate},
                                  {"global_batch_size", r.global_batch_size}};
  TermValues losses = sums_.losses;
  for (TermValue& loss : losses) loss.value /= sums_.advanced;
  const std::vector<std::string> names = add_losses(losses, fields);
  if (losses.empty()) fields.emplace_back("loss", NAN);  // all steps were skipped
  if (!r.experts.empty()) {
    fields.emplace_back("expert_load", most(r.experts, &ExpertReport::load));
    fields.emplace_back("expert_drop", most(r.experts, &ExpertReport::dropped));
  }
  if (options_.log_throughput) fields.emplace_back("tflops", tflops);
  if (options_.peak_tflops) fields.emplace_back("mfu", tflops / *options_.peak_tflops);
  fields.emplace_back("grad_norm", r.grad_norm);
  fields.emplace_back("loss_scale", r.loss_scale);
  if (r.num_zeros) fields.emplace_back("num_zeros", *r.num_zeros);
  if (r.params_norm) fields.emplace_back("params_norm", *r.params_norm);
  if (r.max_attention_logit) fields.emplace_back("max_attention_logit", *r.max_attention_logit);
  fields.emplace_back("skipped", sums_.skipped);
  fields.emplace_back("nan", sums_.nan);
  log_.event("step", fields);
}

static void add(TermValues& sums, const TermValues& values) {
  if (sums.empty()) sums = TermValues(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i] = {values[i].name, sums[i].value + values[i].value};
}

static bool is_finite(const TermValue& loss) { return std::isfinite(loss.value); }

void MegatronLog::step(const StepReport& r) {
  if (r.skipped) {
    ++sums_.skipped;
    if (!std::ranges::all_of(r.losses, is_finite)) ++sums_.nan;
  } else {
    ++sums_.advanced;
    add(sums_.losses, r.losses);
  }
  sums_.seconds += r.seconds;
  if (r.iteration % options_.log_interval != 0) return;
  if (log_.settings().format == Log::Format::json)
    step_event(r);
  else if (!is_drawn())
    lines(step_line(r));
  sums_ = {};
}

void MegatronLog::evaluation(const EvaluationReport& r) const {
  if (log_.settings().format == Log::Format::json) {
    std::vector<LogField> fields = {{"split", r.split}, {"set", r.set}, {"iteration", r.iteration}};
    const std::vector<std::string> names = add_losses(r.losses, fields);
    return log_.event("evaluation", fields);
  }
  std::string line =
      formatted(" validation%s loss at iteration %lld%s | ",
                r.set.empty() ? "" : ("-" + r.set).c_str(), wide(r.iteration), r.where.c_str());
  for (const auto& [name, loss] : r.losses)
    line += formatted("%s value: %.6E | %s PPL: %.6E | ", name, loss, name,
                      std::exp(std::min(20.0, loss)));
  const std::string dashes(line.size() + 1, '-');
  lines(dashes);
  lines(line);
  lines(dashes);
}

void MegatronLog::epoch(std::int64_t epoch, std::int64_t iteration, const EpochReport& r) const {
  if (log_.settings().format != Log::Format::json) return lines(r.line);
  std::vector<LogField> fields = {{"epoch", epoch}, {"set", r.set}, {"iteration", iteration}};
  for (const auto& [name, number] : r.numbers)
    std::visit([&](auto value) { fields.emplace_back(name, value); }, number);
  log_.event("epoch", fields);
}

}  // namespace mt
