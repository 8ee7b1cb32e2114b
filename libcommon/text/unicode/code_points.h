// CodePoints: a set of code points as ranges, for character classes of regular expressions.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace mt {

class CodePoints {
 public:
  using Range = std::pair<char32_t, char32_t>;  // the first and the last one
  static constexpr char32_t kLast = 0x10FFFF;

  CodePoints() = default;
  CodePoints(char32_t first, char32_t last) : ranges_{{first, last}} {}
  explicit CodePoints(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}  // in order

  // The set of the code points for which `holds` is true.
  template <class Predicate>
  static CodePoints of(Predicate holds) {
    CodePoints set;
    for (char32_t point = 0; point <= kLast; ++point) {
      if (!holds(point)) continue;
      if (!set.ranges_.empty() && set.ranges_.back().second + 1 == point)
        set.ranges_.back().second = point;
      else
        set.ranges_.emplace_back(point, point);
    }
    return set;
  }

  void add(const CodePoints& other) {
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
    std::ranges::sort(ranges_);
    std::vector<Range> joined;
    for (const auto& [first, last] : ranges_) {
      if (!joined.empty() && first <= joined.back().second + 1)
        joined.back().second = std::max(joined.back().second, last);
      else
        joined.emplace_back(first, last);
    }
    ranges_ = std::move(joined);
  }

  CodePoints complement() const {
    CodePoints others;
    char32_t next = 0;
    for (const auto& [first, last] : ranges_) {
      if (first > next) others.ranges_.emplace_back(next, first - 1);
      next = last + 1;
    }
    if (next <= kLast) others.ranges_.emplace_back(next, kLast);
    return others;
  }

  CodePoints intersection(const CodePoints& other) const {
    CodePoints outside = complement();
    outside.add(other.complement());
    return outside.complement();
  }

  bool contains(char32_t point) const {
    const auto range = std::ranges::lower_bound(ranges_, point, {}, &Range::second);
    return range != ranges_.end() && range->first <= point;
  }

  const std::vector<Range>& ranges() const { return ranges_; }  // in order, with gaps between them

 private:
  std::vector<Range> ranges_;
};

}  // namespace mt
