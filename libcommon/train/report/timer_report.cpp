#include "train/report/timer_report.h"

#include <algorithm>
#include <cstdio>

namespace mt {
namespace {

struct Range {
  double least = 0, most = 0;  // of the ranks that measured the part
};

Range range_of(const std::vector<Timers::Seconds>& ranks, std::size_t part) {
  Range range;
  for (const Timers::Seconds& seconds : ranks) {
    if (seconds[part] <= 0) continue;
    range.least = range.most > 0 ? std::min(range.least, seconds[part]) : seconds[part];
    range.most = std::max(range.most, seconds[part]);
  }
  return range;
}

std::string milliseconds(double seconds, double steps) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", 1000 * seconds / steps);
  return text;
}

std::string dotted(std::string name) {
  name += ' ';
  name.resize(std::max<std::size_t>(name.size(), 48), '.');
  return "\n    " + name + ": ";
}

std::string all_lines(const std::vector<Timers::Seconds>& ranks, std::size_t part, double steps) {
  std::string text = std::string("\n  ") + kTimedParts[part].name + ":";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank][part] <= 0) continue;
    char name[48];
    std::snprintf(name, sizeof name, "\n     rank %2zu: ", rank);
    text += name + milliseconds(ranks[rank][part], steps);
  }
  return text;
}

}  // namespace

std::vector<Timers::Seconds> gather_seconds(const Timers& timers, Group& ranks) {
  Timers::Seconds own = timers.seconds();
  std::vector<Timers::Seconds> all(static_cast<std::size_t>(ranks.size()));
  if (!timers.measures()) return all;
  const auto parts = static_cast<std::int64_t>(own.size());
  ranks
      .all_gather({all.data(), DType::f64, {ranks.size() * parts}},
                  Tensor{own.data(), DType::f64, {parts}})
      .wait();
  return all;
}

std::string timer_text(const std::vector<Timers::Seconds>& ranks, const std::string& how,
                       double steps) {
  std::string lines;
  for (std::size_t part = 0; part < kTimedParts.size(); ++part) {
    const Range range = range_of(ranks, part);
    if (range.most <= 0) continue;
    const std::string most = milliseconds(range.most, steps);
    if (how == "all")
      lines += all_lines(ranks, part, steps);
    else if (how == "max")
      lines += dotted(kTimedParts[part].name) + most;
    else
      lines += dotted(kTimedParts[part].name) + "(" + milliseconds(range.least, steps) + ", " +
               most + ")";
  }
  if (lines.empty()) return {};
  if (how == "minmax") return "(min, max) time across ranks (ms):" + lines;
  return (how == "max" ? "max time across ranks (ms):" : "times across ranks (ms):") + lines;
}

std::vector<std::pair<std::string, double>> longest_seconds(
    const std::vector<Timers::Seconds>& ranks, double steps) {
  std::vector<std::pair<std::string, double>> list;
  for (std::size_t part = 0; part < kTimedParts.size(); ++part)
    if (const Range range = range_of(ranks, part); range.most > 0)
      list.emplace_back(kTimedParts[part].name, range.most / steps);
  return list;
}

}  // namespace mt
