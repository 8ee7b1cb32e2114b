// What Python's operators and built-in functions make of the values of a chat template.  What they
// refuse throws a ChatFailure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_failure.h"
#include "text/chat/chat_value.h"

namespace mt {

struct ChatArguments;

// A value that lives while a template is rendered.
class ChatObject {
 public:
  virtual ~ChatObject() = default;
  virtual std::string type() const = 0;  // as Python calls it
  virtual std::string shown() const {    // when it is printed
    throw ChatFailure{type() + " has no text"};
  }
  virtual bool is_iterable() const { return false; }
  // The items, which a generator gives once.
  virtual std::vector<ChatValue> take_items() {
    throw ChatFailure{"'" + type() + "' object is not iterable"};
  }
  virtual std::optional<ChatValue> take_first() {
    throw ChatFailure{"'" + type() + "' object is not iterable"};
  }
  virtual std::optional<ChatValue> attribute(const std::string&) const { return {}; }
  virtual ChatValue call(const ChatArguments&) {
    throw ChatFailure{"'" + type() + "' object is not callable"};
  }
};

std::string python_type(const ChatValue& value);  // "str"
std::string python_text(const ChatValue& value);  // str(value)
std::string python_repr(const ChatValue& value);
std::string python_real(double number);  // repr() of a float
bool python_truth(const ChatValue& value);
bool python_equal(const ChatValue& a, const ChatValue& b);
bool python_less(const ChatValue& a, const ChatValue& b);
bool python_contains(const ChatValue& container, const ChatValue& value);
bool python_is_iterable(const ChatValue& value);
std::int64_t python_length(const ChatValue& value);
// What a loop over the value goes through: of text its characters, of a dict its keys.
std::vector<ChatValue> python_items(const ChatValue& value);
// value[key]; nothing where Python raises a LookupError or a TypeError.
std::optional<ChatValue> python_item(const ChatValue& value, const ChatValue& key);
// value[first:last:step]; None stands for what is left out.
ChatValue python_slice(const ChatValue& value, const ChatValue& first, const ChatValue& last,
                       const ChatValue& step);
// A key that a dict may have; else a failure.
void check_hashable(const ChatValue& key);

// An integer, or a bool as one; nothing for other values.
std::optional<std::int64_t> python_index(const ChatValue& value);
std::optional<double> python_number(const ChatValue& value);  // of a bool, an integer or a float

enum class ChatOperator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  negate,
  plus,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};
ChatValue python_binary(ChatOperator op, const ChatValue& a, const ChatValue& b);
ChatValue python_positive(const ChatValue& value);
ChatValue python_negative(const ChatValue& value);
bool python_compare(ChatOperator op, const ChatValue& a, const ChatValue& b);
// This is what Python makes of text % values.
std::string python_percent(std::string_view text, const ChatValue& values);
std::int64_t python_int_of(double number);  // int(number)
std::optional<std::int64_t> python_parse_int(std::string_view text, std::int64_t base);
std::optional<double> python_parse_float(std::string_view text);

}  // namespace mt
