#include "train/step_profile.h"

#include <algorithm>
#include <cstdio>

#include "ops/ops.h"

namespace mt {
namespace {

// Of one call of body, called for at least so long, after a first call that does not count.
template <class Body>
double seconds_of(Stream& stream, const Body& body) {
  constexpr double kLong = 0.2;
  body();
  for (int calls = 1;; calls *= 2) {
    Profile profile(stream.handle());
    for (int i = 0; i < calls; ++i) body();
    const double seconds = profile.stop().total();
    if (seconds > kLong) return seconds / calls;
  }
}

double product_rate(DType dtype, Stream& stream) {
  const std::int64_t n = stream.device() == Device::cuda ? 4096 : 1024;
  const Shape shape{n, n};
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  const Buffer out(stream.device(), bytes), a(stream.device(), bytes), b(stream.device(), bytes);
  const std::array runs{ElementRun{.local = 0, .global = 0, .count = shape.numel()}};
  for (const Buffer* input : {&a, &b})  // zeros would be faster
    fill_uniform(input->tensor(dtype, shape), 1, RandomKey::make(1, 1), runs, stream);
  search_products(stream);
  return 2.0 * static_cast<double>(n * n * n) / seconds_of(stream, [&] {
           matmul({.out = out.tensor(dtype, shape),
                   .a = a.tensor(dtype, shape),
                   .b = b.tensor(dtype, shape),
                   .transpose_b = true},
                  stream);
         });
}

// A GPU copies by itself, the CPU with all threads.
double copy_rate(Stream& stream) {
  const std::int64_t count = stream.device() == Device::cuda ? 1 << 26 : 1 << 24;
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  const Buffer from(stream.device(), bytes), to(stream.device(), bytes);
  const Tensor x = from.tensor(DType::f32, {count}), y = to.tensor(DType::f32, {count});
  set_zero(x, stream);
  return 2.0 * static_cast<double>(bytes) / seconds_of(stream, [&] {
           if (stream.device() == Device::cuda)
             copy(y, x, stream);
           else
             scale(y, x, 1, stream);
         });
}

double of_step(const ProfileReport& report, double seconds) {
  return seconds / static_cast<double>(report.last - report.first + 1);
}

}  // namespace

double roof_seconds(const Cost& cost, const Ceilings& ceilings) {
  return std::max(cost.flops / ceilings.flops, cost.bytes / ceilings.bytes);
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

StepProfiler::StepProfiler(const TrainOptions& options, const RankPlan& plan, int rank,
                           Stream& stream)
    : options_(options.report), stream_(stream) {
  wanted_ = options_.profile && std::ranges::count(options_.profile_ranks, rank) > 0;
  if (!wanted_) return;
  report_.rank = rank;
  if (!options.batches.changes()) report_.step = plan.families;
  report_.ceilings.flops = options_.peak_tflops ? *options_.peak_tflops * 1e12
                                                : product_rate(options.compute_dtype(), stream);
  report_.ceilings.bytes = copy_rate(stream);
}

StepProfiler::~StepProfiler() { stream_.measure_with(nullptr); }

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
