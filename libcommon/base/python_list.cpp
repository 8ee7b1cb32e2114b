#include "base/python_list.h"

#include <charconv>
#include <utility>

#include "base/error.h"

namespace mt {
namespace {

class PythonListParser {
 public:
  using List = PythonList::List;
  using Value = PythonList::Value;

  PythonListParser(std::string_view option, std::string_view text) : option_(option), text_(text) {}

  Value value() {
    const Value all = sum(0);
    if (next() != 0) refuse();
    return all;
  }

 private:
  static constexpr std::int64_t kMostItems = 1 << 16;
  static constexpr int kDeepest = 32;

  [[noreturn]] void refuse() const {
    fail(Exit::bad_config, option_, " ", text_, ": character ", at_ + 1,
         ": expected N, or a list as Python has it, ([0]*3+[1]*29) say");
  }

  // The next character that is not a space; 0 at the end.
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool takes(char wanted) {
    if (next() != wanted) return false;
    ++at_;
    return true;
  }

  Value sum(int depth) {
    Value left = product(depth);
    while (takes('+')) {
      const Value right = product(depth);
      if (left.index() != right.index()) refuse();
      if (auto* const number = std::get_if<0>(&left)) {
        *number = bounded(*number + std::get<0>(right));
      } else {
        List& to = std::get<1>(left);
        const List& from = std::get<1>(right);
        bounded(std::ssize(to) + std::ssize(from));
        to.insert(to.end(), from.begin(), from.end());
      }
    }
    return left;
  }

  Value product(int depth) {
    Value left = one(depth);
    while (takes('*')) {
      Value right = one(depth);
      if (right.index() > left.index()) std::swap(left, right);
      if (right.index() > 0) refuse();
      const std::int64_t times = std::get<0>(right);
      if (auto* const number = std::get_if<0>(&left)) {
        *number = bounded(*number * times);
      } else {
        const List list = std::get<1>(left);
        bounded(std::ssize(list) * times);
        List& to = std::get<1>(left);
        to.clear();
        for (std::int64_t i = 0; i < times; ++i) to.insert(to.end(), list.begin(), list.end());
      }
    }
    return left;
  }

  Value one(int depth) {
    if (depth > kDeepest) refuse();
    if (takes('(')) {
      const Value inside = sum(depth + 1);
      if (!takes(')')) refuse();
      return inside;
    }
    if (takes('[')) return list(depth + 1);
    next();
    std::int64_t number = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc() || number < 0) refuse();
    bounded(number);
    at_ += static_cast<std::size_t>(end - begin);
    return number;
  }

  List list(int depth) {
    List items;
    while (!takes(']')) {
      const Value item = sum(depth);
      if (item.index() > 0) refuse();
      items.push_back(std::get<0>(item));
      if (!takes(',') && next() != ']') refuse();
    }
    return items;
  }

  std::int64_t bounded(std::int64_t number) const {
    if (number > kMostItems) refuse();
    return number;
  }

  const std::string_view option_, text_;
  std::size_t at_ = 0;
};

}  // namespace

PythonList::Value PythonList::value() const { return PythonListParser(option_, text_).value(); }

}  // namespace mt
