// Shape: the extents of a tensor, outermost first; at most kMaxRank of them.
#pragma once

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

namespace mt {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents) : rank_(static_cast<int>(extents.size())) {
    assert(extents.size() <= kMaxRank);
    for (int i = 0; i < rank_; ++i) extents_[i] = extents[static_cast<std::size_t>(i)];
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const {  // negative: from the end
    if (axis < 0) axis += rank_;
    assert(0 <= axis && axis < rank_);
    return extents_[axis];
  }
  std::span<const std::int64_t> extents() const {
    return {extents_, static_cast<std::size_t>(rank_)};
  }
  std::int64_t numel() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents()) product *= extent;
    return product;
  }
  Shape with_front(std::int64_t extent) const {  // one axis more, in front
    Shape shape;
    shape.extents_[shape.rank_++] = extent;
    for (const std::int64_t e : extents()) {
      assert(shape.rank_ < kMaxRank);
      shape.extents_[shape.rank_++] = e;
    }
    return shape;
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.extents_[i] != b.extents_[i]) return false;
    return true;
  }
  void append_to(std::string& line) const {  // "[2, 3]"
    line += '[';
    for (int i = 0; i < rank_; ++i) line += (i ? ", " : "") + std::to_string(extents_[i]);
    line += ']';
  }
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    std::string text;
    shape.append_to(text);
    return out << text;
  }

 private:
  std::int64_t extents_[kMaxRank] = {};
  int rank_ = 0;
};

}  // namespace mt
