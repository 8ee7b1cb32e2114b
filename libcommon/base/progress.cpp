#include "base/progress.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace mt {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string short_number(double number) {
  const char* unit = "";
  for (const char* const next : {"k", "M", "G", "T", "P"}) {
    if (number < 999.5) break;
    number /= 1000;
    unit = next;
  }
  char text[32];
  const bool whole = *unit == '\0' && number == std::floor(number);
  const int decimals = whole || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f%s", decimals, number, unit);
  return text;
}

std::string short_duration(double length) {
  const auto total = static_cast<long long>(std::llround(length));
  char text[48];
  if (total < 60)
    std::snprintf(text, sizeof text, "%llds", total);
  else if (total < 3600)
    std::snprintf(text, sizeof text, "%lldm%02llds", total / 60, total % 60);
  else if (total < 86400)
    std::snprintf(text, sizeof text, "%lldh%02lldm", total / 3600, total / 60 % 60);
  else
    std::snprintf(text, sizeof text, "%lldd%02lldh", total / 86400, total / 3600 % 24);
  return text;
}

Progress::Progress(const Log& log, std::string what, std::string unit, std::uint64_t total,
                   Clock::duration interval)
    : log_(log),
      what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      start_(Clock::now()),
      asked_(log, [this] { tell(Log::Level::quiet); }) {
  const Log::Settings& settings = log.settings();
  const bool json = settings.progress == Log::Show::json;
  if (settings.progress == Log::Show::none || !log.shows(Log::Level::normal))
    form_ = Form::none;
  else
    form_ = log.draws() ? Form::bar : Form::lines;
  interval_ = interval != Clock::duration() ? interval
              : form_ == Form::bar          ? milliseconds(100)
              : json                        ? seconds(1)
                                            : seconds(30);
  due_ = (start_ + interval_).time_since_epoch().count();
}

void Progress::add(std::uint64_t count) {
  done_.fetch_add(count, std::memory_order_relaxed);
  if (form_ == Form::none) return;
  const Clock::time_point now = Clock::now();
  Clock::rep due = due_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < due) return;
  if (due_.compare_exchange_strong(due, (now + interval_).time_since_epoch().count())) show();
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (form_ == Form::bar) {
    log_.draw();
  } else if (form_ == Form::lines && log_.settings().progress == Log::Show::json) {
    tell(Log::Level::normal);
  }
}

// It is "encoding   42% ========            1.2M of 2.9M documents  31.4k/s  55s left", say.
std::string Progress::bar(double passed, std::uint64_t count) const {
  const double done = static_cast<double>(count), total = static_cast<double>(total_.load());
  const double rate = passed > 0 ? done / passed : 0;
  std::string line = what_ + " ";
  if (total > 0) {
    constexpr int kCells = 20;
    const double fraction = std::fmin(done / total, 1);
    const int full = static_cast<int>(fraction * kCells);
    char percent[16];
    std::snprintf(percent, sizeof percent, "%3d%% ",
                  static_cast<int>(std::fmin(100 * done / total, 100)));
    line += percent + std::string(static_cast<std::size_t>(full), '=') +
            std::string(static_cast<std::size_t>(kCells - full), ' ') + " ";
  }
  line += short_number(done);
  if (total > 0) line += " of " + short_number(total);
  line += " " + unit_ + "  " + short_number(rate) + "/s";
  if (total > 0 && rate > 0) line += "  " + short_duration((total - done) / rate) + " left";
  return line;
}

double Progress::elapsed() const { return duration<double>(Clock::now() - start_).count(); }

void Progress::show() const {
  if (form_ != Form::bar) return tell(Log::Level::normal);
  log_.draw(bar(elapsed(), done()));
}

void Progress::tell(Log::Level at) const {
  const double passed = elapsed();
  const std::uint64_t count = done();
  const double rate = passed > 0 ? static_cast<double>(count) / passed : 0;
  const double rounded = std::round(rate * 10) / 10, spent = std::round(passed * 10) / 10;
  const std::uint64_t all = total_;
  if (all == 0)
    return log_.event("progress",
                      {{"what", what_},
                       {"unit", unit_},
                       {"done", count},
                       {"seconds", spent},
                       {"per_second", rounded}},
                      at);
  const double left = static_cast<double>(all > count ? all - count : 0);
  log_.event("progress",
             {{"what", what_},
              {"unit", unit_},
              {"done", count},
              {"total", all},
              {"seconds", spent},
              {"per_second", rounded},
              {"seconds_left", rate > 0 ? std::round(left / rate) : NAN}},
             at);
}

}  // namespace mt
