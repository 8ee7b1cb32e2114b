#include "text/chat/chat_python.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "text/chat/chat_strings.h"

namespace mt {

using Sequence = ChatValue::Sequence;

std::string python_type(const ChatValue& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.boolean() != nullptr) return "bool";
  if (value.integer() != nullptr) return "int";
  if (value.real() != nullptr) return "float";
  if (value.is_text()) return value.is_safe() ? "Markup" : "str";
  if (value.is_dict()) return "dict";
  if (value.object() != nullptr) return value.object()->type();
  switch (value.sequence()->kind) {
    case Sequence::list:
      return "list";
    case Sequence::tuple:
      return "tuple";
    case Sequence::keys:
      return "dict_keys";
    case Sequence::values:
      return "dict_values";
    case Sequence::items:
      return "dict_items";
    case Sequence::range:
      return "range";
  }
  return {};
}

std::string python_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  std::string_view shown(buffer, static_cast<std::size_t>(end.ptr - buffer));
  const std::size_t e = shown.find('e');
  int exponent = 0;
  std::from_chars(shown.data() + e + 1 + (shown[e + 1] == '+' ? 1 : 0), end.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(shown);
  const bool negative = shown.front() == '-';
  std::string digits;
  for (const char c : shown.substr(0, e))
    if ('0' <= c && c <= '9') digits += c;
  const auto point = static_cast<std::size_t>(std::max(exponent, 0)) + 1;
  if (exponent < 0) digits.insert(0, static_cast<std::size_t>(-exponent), '0');
  if (digits.size() <= point) digits.append(point + 1 - digits.size(), '0');
  digits.insert(point, ".");
  return negative ? "-" + digits : digits;
}

static std::string joined(const std::vector<ChatValue>& items, const char* open,
                          const char* close) {
  std::string out = open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    out += python_repr(items[i]);
  }
  return out += close;
}

static std::string list_repr(const ChatValue& value) {
  const ChatValue::List& list = *value.sequence();
  if (list.kind == Sequence::range) return list.shown;
  if (list.kind == Sequence::list) return joined(list.items, "[", "]");
  if (list.kind == Sequence::tuple)
    return joined(list.items, "(", list.items.size() == 1 ? ",)" : ")");
  return python_type(value) + joined(list.items, "([", "])");
}

std::string python_repr(const ChatValue& value) {
  if (const std::string* const text = value.text())
    return value.is_safe() ? "Markup(" + quoted_text(*text) + ")" : quoted_text(*text);
  if (value.is_none()) return "None";
  if (const bool* const truth = value.boolean()) return *truth ? "True" : "False";
  if (const std::int64_t* const number = value.integer()) return std::to_string(*number);
  if (const double* const number = value.real()) return python_real(*number);
  if (value.is_list()) return list_repr(value);
  if (value.is_undefined()) return "Undefined";
  if (value.object() != nullptr) return value.object()->shown();
  std::string out = "{";
  for (const auto& [key, item] : *value.pairs()) {
    if (out.size() > 1) out += ", ";
    out += python_repr(key) + ": " + python_repr(item);
  }
  return out += '}';
}

std::string python_text(const ChatValue& value) {
  if (const std::string* const text = value.text()) return *text;
  return value.is_undefined() ? "" : python_repr(value);
}

bool python_truth(const ChatValue& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (const std::string* const text = value.text()) return !text->empty();
  if (const auto* const items = value.items()) return !items->empty();
  if (const auto* const pairs = value.pairs()) return !pairs->empty();
  const std::optional<double> number = python_number(value);
  return !number || *number != 0;
}

std::optional<std::int64_t> python_index(const ChatValue& value) {
  if (const bool* const truth = value.boolean()) return *truth ? 1 : 0;
  if (const std::int64_t* const number = value.integer()) return *number;
  return {};
}

std::optional<double> python_number(const ChatValue& value) {
  if (const double* const number = value.real()) return *number;
  if (const auto index = python_index(value)) return static_cast<double>(*index);
  return {};
}

// Both are numbers, which are compared without rounding: a long double holds 64 bits.
static std::optional<std::pair<long double, long double>> numbers(const ChatValue& a,
                                                                  const ChatValue& b) {
  const auto exact = [](const ChatValue& value) -> std::optional<long double> {
    if (const double* const number = value.real()) return *number;
    if (const auto index = python_index(value)) return *index;
    return {};
  };
  const auto x = exact(a), y = exact(b);
  if (!x || !y) return {};
  return std::pair(*x, *y);
}

static bool same_kind(const ChatValue& a, const ChatValue& b) {
  return a.is_list() && b.is_list() && a.sequence()->kind == b.sequence()->kind;
}

bool python_equal(const ChatValue& a, const ChatValue& b) {
  if (const auto both = numbers(a, b)) return both->first == both->second;
  if (a.is_text() && b.is_text()) return *a.text() == *b.text();
  if (same_kind(a, b)) return std::ranges::equal(*a.items(), *b.items(), python_equal);
  if (a.is_dict() && b.is_dict()) {
    if (a.pairs()->size() != b.pairs()->size()) return false;
    return std::ranges::all_of(*a.pairs(), [&](const auto& pair) {
      return std::ranges::any_of(*b.pairs(), [&](const auto& other) {
        return python_equal(pair.first, other.first) && python_equal(pair.second, other.second);
      });
    });
  }
  if (a.object() != nullptr) return a.object() == b.object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

// What -1, 0 or 1 say of two values in order; nothing: they have none.
static std::optional<bool> less(const ChatValue& a, const ChatValue& b) {
  if (const auto both = numbers(a, b)) return both->first < both->second;
  if (a.is_text() && b.is_text()) return *a.text() < *b.text();
  if (!same_kind(a, b) || a.sequence()->kind > Sequence::tuple) return {};
  const auto& x = *a.items();
  const auto& y = *b.items();
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (!python_equal(x[i], y[i])) return python_less(x[i], y[i]);
  return x.size() < y.size();
}

[[noreturn]] static void fail_undefined(const ChatValue& a, const ChatValue& b) {
  throw ChatFailure{*(a.is_undefined() ? a : b).undefined_message()};
}

static bool compare_with(const char* sign, const ChatValue& a, const ChatValue& b) {
  if (a.is_undefined() || b.is_undefined()) fail_undefined(a, b);
  if (const auto result = less(a, b)) return *result;
  throw ChatFailure{concat("'", sign, "' not supported between instances of '", python_type(a),
                           "' and '", python_type(b), "'")};
}

bool python_less(const ChatValue& a, const ChatValue& b) { return compare_with("<", a, b); }

static bool is_nan(const ChatValue& value) {
  return value.real() != nullptr && std::isnan(*value.real());
}

bool python_compare(ChatOperator op, const ChatValue& a, const ChatValue& b) {
  const bool ordered = !is_nan(a) && !is_nan(b);
  switch (op) {
    case ChatOperator::equal:
      return python_equal(a, b);
    case ChatOperator::not_equal:
      return !python_equal(a, b);
    case ChatOperator::less:
      return compare_with("<", a, b);
    case ChatOperator::greater:
      return compare_with(">", b, a);
    case ChatOperator::less_equal:
      return !compare_with("<=", b, a) && ordered;
    case ChatOperator::greater_equal:
      return !compare_with(">=", a, b) && ordered;
    case ChatOperator::in:
      return python_contains(b, a);
    default:
      return !python_contains(b, a);
  }
}

void check_hashable(const ChatValue& key) {
  const bool is_tuple = key.is_list() && key.sequence()->kind != Sequence::list;
  if ((key.is_list() && !is_tuple) || key.is_dict())
    throw ChatFailure{"unhashable type: '" + python_type(key) + "'"};
  if (is_tuple)
    for (const ChatValue& item : *key.items()) check_hashable(item);
}

bool python_contains(const ChatValue& container, const ChatValue& value) {
  if (const std::string* const text = container.text()) {
    if (!value.is_text())
      throw ChatFailure{"'in <string>' requires string as left operand, not " + python_type(value)};
    return text->find(*value.text()) != std::string::npos;
  }
  if (const auto* const pairs = container.pairs()) {
    check_hashable(value);
    return std::ranges::any_of(*pairs,
                               [&](const auto& pair) { return python_equal(pair.first, value); });
  }
  if (!python_is_iterable(container))
    throw ChatFailure{"argument of type '" + python_type(container) + "' is not iterable"};
  if (const auto* const items = container.items())
    return std::ranges::any_of(*items,
                               [&](const ChatValue& item) { return python_equal(item, value); });
  return std::ranges::any_of(python_items(container),
                             [&](const ChatValue& item) { return python_equal(item, value); });
}

bool python_is_iterable(const ChatValue& value) {
  return value.is_text() || value.is_list() || value.is_dict() || value.is_undefined() ||
         (value.object() != nullptr && value.object()->is_iterable());
}

std::int64_t python_length(const ChatValue& value) {
  if (const std::string* const text = value.text()) return count_points(*text);
  if (const auto* const items = value.items()) return std::ssize(*items);
  if (const auto* const pairs = value.pairs()) return std::ssize(*pairs);
  if (value.is_undefined()) return 0;
  throw ChatFailure{"object of type '" + python_type(value) + "' has no len()"};
}

std::vector<ChatValue> python_items(const ChatValue& value) {
  if (const auto* const items = value.items()) return *items;
  std::vector<ChatValue> result;
  if (const std::string* const text = value.text())
    for (const std::string_view point : each_point(*text)) result.emplace_back(point);
  else if (const auto* const pairs = value.pairs())
    for (const auto& [key, item] : *pairs) result.push_back(key);
  else if (value.object() != nullptr)
    return value.object()->take_items();
  else if (!value.is_undefined())
    throw ChatFailure{"'" + python_type(value) + "' object is not iterable"};
  return result;
}

static bool is_subscriptable(const ChatValue& value) {
  if (value.is_text()) return true;
  if (!value.is_list()) return false;
  const Sequence kind = value.sequence()->kind;
  return kind == Sequence::list || kind == Sequence::tuple || kind == Sequence::range;
}

std::optional<ChatValue> python_item(const ChatValue& value, const ChatValue& key) {
  if (const auto* const pairs = value.pairs()) {
    const auto found = std::ranges::find_if(
        *pairs, [&](const auto& pair) { return python_equal(pair.first, key); });
    if (found == pairs->end()) return {};
    return found->second;
  }
  const auto index = python_index(key);
  if (!index || !is_subscriptable(value)) return {};
  const std::int64_t length = python_length(value), at = *index < 0 ? *index + length : *index;
  if (at < 0 || at >= length) return {};
  if (const auto* const items = value.items()) return (*items)[static_cast<std::size_t>(at)];
  const std::string& text = *value.text();
  if (static_cast<std::size_t>(length) == text.size())
    return ChatValue(text.substr(static_cast<std::size_t>(at), 1), value.is_safe());
  return ChatValue(std::string(each_point(text)[static_cast<std::size_t>(at)]), value.is_safe());
}

// PySlice_AdjustIndices: the numbers of the items that a slice takes.
static std::vector<std::size_t> slice_indices(std::int64_t length, const ChatValue& first,
                                              const ChatValue& last, const ChatValue& by) {
  const auto number = [](const ChatValue& value) -> std::optional<std::int64_t> {
    if (value.is_none()) return {};
    if (const auto index = python_index(value)) return index;
    if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
    throw ChatFailure{"slice indices must be integers or None or have an __index__ method"};
  };
  const std::int64_t step = number(by).value_or(1);
  if (step == 0) throw ChatFailure{"slice step cannot be zero"};
  const std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
  const auto adjusted = [&](const ChatValue& value, std::int64_t otherwise) {
    const auto given = number(value);
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + length : *given, low, high);
  };
  const std::int64_t begin = adjusted(first, step < 0 ? high : low);
  const std::int64_t end = adjusted(last, step < 0 ? low : high);
  std::vector<std::size_t> indices;
  for (std::int64_t i = begin; step < 0 ? i > end : i < end;) {
    indices.push_back(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return indices;
}

ChatValue python_slice(const ChatValue& value, const ChatValue& first, const ChatValue& last,
                       const ChatValue& step) {
  if (!is_subscriptable(value))
    throw ChatFailure{"'" + python_type(value) + "' object is not subscriptable"};
  const auto indices = slice_indices(python_length(value), first, last, step);
  if (const std::string* const text = value.text()) {
    const std::vector<std::string_view> points = each_point(*text);
    std::string part;
    for (const std::size_t i : indices) part += points[i];
    return {std::move(part), value.is_safe()};
  }
  if (value.sequence()->kind == Sequence::range)
    throw ChatFailure{"a slice of a range is not supported"};
  std::vector<ChatValue> items;
  for (const std::size_t i : indices) items.push_back((*value.items())[i]);
  return ChatValue::list(std::move(items), value.sequence()->kind);
}

}  // namespace mt
