#include "train/report/train_progress.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/progress.h"

namespace mt {

using std::chrono::duration;

TrainProgress::TrainProgress(const Log& log, std::int64_t train_iters)
    : log_(log), train_iters_(train_iters) {
  if (log_.settings().rank.value_or(0) > 0) return;
  asked_.emplace(log, [this] {
    const std::lock_guard lock(mutex_);
    tell("state", Log::Level::quiet);
  });
}

void TrainProgress::starts_at(std::int64_t iteration) {
  const std::lock_guard lock(mutex_);
  iteration_ = first_ = iteration;
  doing_ = "training";
  log_.draw(concat("step ", iteration + 1, " of ", train_iters_, ", the first"));
}

double TrainProgress::seconds_left() const {
  return static_cast<double>(train_iters_ - iteration_) * seconds_;
}

double TrainProgress::tokens_per_second() const {
  return static_cast<double>(last_->tokens) / seconds_;
}

static std::string loss_text(const StepReport& report) {
  char text[64];
  std::snprintf(text, sizeof text, "loss %.4g",
                report.losses.empty() ? NAN : report.losses[0].value);
  return text;
}

void TrainProgress::step(const StepReport& report) {
  constexpr double kOfLast = 0.1;  // how much one step counts
  const std::lock_guard lock(mutex_);
  // The first step searches kernels and fills caches: the second says more of those to come.
  const bool says_all = iteration_ <= first_ + 1;
  seconds_ += (report.seconds - seconds_) * (says_all ? 1 : kOfLast);
  last_ = report;
  iteration_ = report.iteration;
  ended_ = Clock::now();
  show();
}

void TrainProgress::doing(const char* what) {
  const std::lock_guard lock(mutex_);
  doing_ = what;
  if (!last_ || !log_.draws()) return;
  shown_ = {};
  show();
}

// In text "step 120 of 5000  loss 3.418  181k tokens/s  1h03m left".
void TrainProgress::show() {
  const Log::Settings& settings = log_.settings();
  if (!log_.shows(Log::Level::normal) || settings.progress == Log::Show::none) return;
  const bool json = settings.format == Log::Format::json, first = iteration_ == first_ + 1;
  const bool every_second = settings.progress == Log::Show::json;
  const auto often = json ? std::chrono::milliseconds(1000) : std::chrono::milliseconds(100);
  if (!first && ended_ - shown_ < often) return;
  if (json) {
    if (first || every_second) tell("progress", Log::Level::normal);
  } else {
    std::string line = concat("step ", iteration_, " of ", train_iters_, "  ", loss_text(*last_),
                              "  ", short_number(tokens_per_second()), " tokens/s  ",
                              short_duration(seconds_left()), " left");
    if (doing_ != std::string_view("training")) line += concat("  (", doing_, ")");
    if (log_.draws())
      log_.draw(line);
    else if (first)
      log_.note(line);
  }
  shown_ = Clock::now();
}

static double tenths(double number) { return std::round(number * 10) / 10; }

void TrainProgress::tell(const char* event, Log::Level at) const {
  const Clock::time_point now = Clock::now();
  const double since = tenths(duration<double>(now - ended_).count());
  const double seconds = tenths(duration<double>(now - start_).count());
  if (!last_)
    return log_.event(event,
                      {{"what", doing_},
                       {"unit", "steps"},
                       {"done", iteration_},
                       {"total", train_iters_},
                       {"seconds", seconds}},
                      at);
  log_.event(event,
             {{"what", doing_},
              {"unit", "steps"},
              {"done", iteration_},
              {"total", train_iters_},
              {"seconds", seconds},
              {"per_second", 1 / seconds_},
              {"seconds_left", std::round(seconds_left())},
              {"consumed_samples", last_->consumed_samples},
              {"loss", last_->losses.empty() ? NAN : last_->losses[0].value},
              {"tokens_per_second", std::round(tokens_per_second())},
              {"seconds_since_step", since}},
             at);
}

}  // namespace mt
