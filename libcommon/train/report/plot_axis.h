// Axes of a plot: a range of numbers, where its ticks stand and what they are called.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "train/report/run_curves.h"

namespace mt {

struct Range {
  double low = INFINITY, high = -INFINITY;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
  // Where a value stands between the ends, 0 to 1; a range of one value has it in the middle.
  double place(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

// At most `count` and some multiples of 1, 2 or 5 times a power of ten within the range.
inline std::vector<double> ticks(const Range& range, int count) {
  const double width = range.high - range.low;
  if (!(width > 0)) return {range.low};
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

// Both axes of one panel over all runs.
struct PanelRange {
  Range x, y;
};
inline PanelRange panel_range(const std::vector<RunCurves>& runs, const std::string& metric) {
  PanelRange range;
  for (const RunCurves& run : runs)
    for (const auto* points : {&run.of(metric).steps, &run.of(metric).validation})
      for (const auto& [iteration, value] : *points) {
        range.x.take(static_cast<double>(iteration));
        range.y.take(value);
      }
  return range;
}

}  // namespace mt
