// Axes of a plot: a range of numbers, where its ticks stand and what they are called.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "train/report/plot.h"

namespace mt {

struct Range {
  double low = INFINITY, high = -INFINITY;
  bool is_log = false;  // by powers: of values above 0
  bool shows(double value) const { return !is_log || value > 0; }
  void take(double value) {
    if (!shows(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
  // Where a value stands between the ends, 0 to 1; a range of one value has it in the middle.
  double place(double value) const {
    if (!(high > low)) return 0.5;
    return is_log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

// 1, 2 and 5 times powers of ten within the range, or those of 1 alone if they are too many.
inline std::vector<double> log_ticks(const Range& range, std::size_t count) {
  std::vector<double> list;
  for (const bool all : {true, false}) {
    list.clear();
    for (double power = std::pow(10, std::floor(std::log10(range.low))); power <= range.high;
         power *= 10)
      for (const double factor : {1., 2., 5.})
        if ((all || factor == 1) && factor * power >= range.low && factor * power <= range.high)
          list.push_back(factor * power);
    if (list.size() <= count) break;
  }
  return list;
}

// At most `count` and some multiples of 1, 2 or 5 times a power of ten within the range.
inline std::vector<double> ticks(const Range& range, int count) {
  const double width = range.high - range.low;
  if (!(width > 0)) return {range.low};
  if (range.is_log && range.high / range.low > 5)
    return log_ticks(range, static_cast<std::size_t>(2 * count));
  const double rough = width / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5., 2., 1.})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> list;
  for (auto i = static_cast<long long>(std::ceil(range.low / step - 1e-9));
       static_cast<double>(i) * step <= range.high + 1e-9 * width; ++i)
    list.push_back(static_cast<double>(i) * step);
  return list;
}

// Few digits: "2.5", "1500", "1.2e-05", "190k", "3.1M".
inline std::string tick_text(double value) {
  char text[32];
  if (std::abs(value) >= 1e6)
    std::snprintf(text, sizeof text, "%.4gM", value / 1e6);
  else if (std::abs(value) >= 1e4)
    std::snprintf(text, sizeof text, "%.4gk", value / 1e3);
  else
    std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// The values of a curve's steps, or running means of them in which the one before counts `smooth`;
// a mean of the first few counts as what there is of it.
inline std::vector<std::pair<std::int64_t, double>> smoothed(const Curve& curve, double smooth) {
  std::vector<std::pair<std::int64_t, double>> points(curve.steps.begin(), curve.steps.end());
  double mean = 0, weight = 0;
  for (auto& [iteration, value] : points) {
    mean = smooth * mean + (1 - smooth) * value;
    weight = smooth * weight + (1 - smooth);
    value = mean / weight;
  }
  return points;
}

// A panel's points and axes, over all runs.
struct PanelData {
  struct Run {
    std::vector<std::pair<std::int64_t, double>> steps, validation;
  };
  std::vector<Run> runs;
  Range x, y;
};
inline PanelData panel_data(const std::vector<RunCurves>& runs, const std::string& metric,
                            const PlotOptions& options) {
  PanelData data{.runs = {}, .x = {.is_log = options.log_x}, .y = {.is_log = options.log_y}};
  for (const RunCurves& run : runs) {
    const Curve& curve = run.of(metric);
    PanelData::Run& points = data.runs.emplace_back();
    points.steps = smoothed(curve, options.smooth);
    points.validation.assign(curve.validation.begin(), curve.validation.end());
    for (auto* list : {&points.steps, &points.validation}) {
      std::erase_if(*list, [&](const auto& point) {
        return !data.x.shows(static_cast<double>(point.first)) || !data.y.shows(point.second);
      });
      for (const auto& [iteration, value] : *list) {
        data.x.take(static_cast<double>(iteration));
        data.y.take(value);
      }
    }
  }
  return data;
}

// "loss, smoothed, logarithmic": what a panel's y axis is of.
inline std::string y_title(const std::string& metric, const PlotOptions& options) {
  return metric + (options.smooth > 0 ? ", smoothed" : "") + (options.log_y ? ", logarithmic" : "");
}
inline std::string x_title(const PlotOptions& options) {
  return options.log_x ? "iteration, logarithmic" : "iteration";
}

}  // namespace mt
