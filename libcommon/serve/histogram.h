// Histogram: how many of some durations were how long, for Prometheus.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mt {

class Histogram {
 public:
  void add(double seconds) {
    std::size_t place = 0;
    while (place < kBounds.size() && seconds > kBounds[place]) ++place;
    ++counts_[place];
    sum_ += seconds;
  }
  // The lines behind HELP and TYPE.  labels: name="value" and more of these, between commas.
  std::string text(std::string_view name, std::string_view labels = "") const {
    std::string text;
    std::uint64_t so_far = 0;
    const char* const comma = labels.empty() ? "" : ",";
    const std::string braced = labels.empty() ? "" : concat("{", labels, "}");
    const auto line = [&](const auto& bound) {
      text += concat(name, "_bucket{", labels, comma, "le=\"", bound, "\"} ", so_far, "\n");
    };
    for (std::size_t place = 0; place < kBounds.size(); ++place) {
      so_far += counts_[place];
      line(kBounds[place]);
    }
    so_far += counts_.back();
    line("+Inf");
    char sum[32];
    const std::to_chars_result end = std::to_chars(std::begin(sum), std::end(sum), sum_);
    return text + concat(name, "_sum", braced, " ", std::string_view(sum, end.ptr), "\n", name,
                         "_count", braced, " ", so_far, "\n");
  }

 private:
  static constexpr std::array kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                      0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
  std::array<std::uint64_t, kBounds.size() + 1> counts_ = {};
  double sum_ = 0;
};

}  // namespace mt
