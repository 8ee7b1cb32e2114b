#include "train/report/step_profile.h"

#include <algorithm>
#include <cstdio>

namespace mt {
namespace {

double of_step(const ProfileReport& report, double seconds) {
  return seconds / static_cast<double>(report.last - report.first + 1);
}

}  // namespace

double roof_seconds(const Cost& cost, const Ceilings& ceilings) {
  return std::max(cost.wide_flops() / ceilings.flops, cost.bytes / ceilings.bytes);
}

std::string profile_text(const ProfileReport& report) {
  const double total = of_step(report, report.seconds.total());
  char line[160];
  std::snprintf(line, sizeof line, "steps %lld to %lld of rank %d: %.3f ms each\n",
                static_cast<long long>(report.first), static_cast<long long>(report.last),
                report.rank, 1e3 * total);
  std::string text = line;
  text += "                       ms   share   TFLOP/s      GB/s  of roof\n";
  for (std::size_t i = 0; i < kFamilies; ++i) {
    const auto family = static_cast<Family>(i);
    const double seconds = of_step(report, report.seconds.families[family]);
    const Cost& cost = report.step[family];
    if (seconds == 0) continue;
    std::snprintf(line, sizeof line, "%-14s %10.3f  %5.1f%%", kFamilyNames[i], 1e3 * seconds,
                  100 * seconds / total);
    text += line;
    if (cost.bytes > 0) {
      std::snprintf(line, sizeof line, "  %8.3f  %8.2f  %6.1f%%", cost.flops / seconds * 1e-12,
                    cost.bytes / seconds * 1e-9,
                    100 * roof_seconds(cost, report.ceilings) / seconds);
      text += line;
    }
    text += '\n';
  }
  const double waiting = of_step(report, report.seconds.waiting);
  std::snprintf(line, sizeof line, "%-14s %10.3f  %5.1f%%\n", "waiting", 1e3 * waiting,
                100 * waiting / total);
  text += line;
  std::snprintf(line, sizeof line, "roof: %.3f TFLOP/s of large products, %.2f GB/s of a copy\n",
                report.ceilings.flops * 1e-12, report.ceilings.bytes * 1e-9);
  return text + line;
}

void write_profile(const ProfileReport& report, JsonWriter& object) {
  object.member("rank", report.rank).member("first", report.first).member("last", report.last);
  object.member("step_seconds", of_step(report, report.seconds.total()));
  object.key("families").begin_object();
  for (std::size_t i = 0; i < kFamilies; ++i) {
    const auto family = static_cast<Family>(i);
    const double seconds = of_step(report, report.seconds.families[family]);
    const Cost& cost = report.step[family];
    if (seconds == 0) continue;
    object.key(kFamilyNames[i])
        .begin_object()
        .member("seconds", seconds)
        .member("flops", cost.flops)
        .member("bytes", cost.bytes)
        .member("roof_seconds", roof_seconds(cost, report.ceilings))
        .end_object();
  }
  object.end_object().member("waiting", of_step(report, report.seconds.waiting));
  object.key("ceilings")
      .begin_object()
      .member("flops", report.ceilings.flops)
      .member("bytes", report.ceilings.bytes)
      .end_object();
}

StepProfiler::StepProfiler(const ReportOptions& options, DType dtype, const PerFamily<Cost>& step,
                           int rank, Stream& stream)
    : options_(options), stream_(stream) {
  wanted_ = options_.profile && std::ranges::count(options_.profile_ranks, rank) > 0;
  if (!wanted_) return;
  report_.rank = rank;
  report_.step = step;
  report_.ceilings = measure_ceilings(dtype, stream);
  if (options_.peak_tflops) report_.ceilings.flops = *options_.peak_tflops * 1e12;
}

StepProfiler::~StepProfiler() { stream_.measure_with(nullptr); }

bool StepProfiler::is_bound(std::int64_t done) const {
  return options_.profile &&
         (done == options_.profile_step_start || done == options_.profile_step_end);
}

void StepProfiler::before_step(std::int64_t done) {
  if (!wanted_ || profile_ || done != options_.profile_step_start) return;
  report_.first = done + 1;
  stream_.synchronize();
  if (stream_.device() == Device::cuda) device::start_profiler();
  profile_.emplace(stream_.handle());
  stream_.measure_with(&*profile_);
}

std::optional<ProfileReport> StepProfiler::after_step(std::int64_t done) {
  return done == options_.profile_step_end ? at_end(done) : std::nullopt;
}

std::optional<ProfileReport> StepProfiler::at_end(std::int64_t done) {
  if (!profile_) return std::nullopt;
  report_.last = done;
  report_.seconds = profile_->stop();
  stream_.measure_with(nullptr);
  profile_.reset();
  if (stream_.device() == Device::cuda) device::stop_profiler();
  return report_;
}

}  // namespace mt
