// Python's arithmetic on the values of chat templates.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

constexpr std::size_t kLongest = std::size_t{64} << 20;  // bytes of text
constexpr std::size_t kMostItems = std::size_t{4} << 20;

const char* sign_of(ChatOperator op) {
  switch (op) {
    case ChatOperator::add:
      return "+";
    case ChatOperator::subtract:
      return "-";
    case ChatOperator::multiply:
      return "*";
    case ChatOperator::divide:
      return "/";
    case ChatOperator::floor_divide:
      return "//";
    case ChatOperator::modulo:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void refuse(ChatOperator op, const ChatValue& a, const ChatValue& b) {
  if (a.is_undefined() || b.is_undefined())
    throw ChatFailure{*(a.is_undefined() ? a : b).undefined_message()};
  if (op == ChatOperator::add && a.is_text())
    throw ChatFailure{"can only concatenate str (not \"" + python_type(b) + "\") to str"};
  throw ChatFailure{concat("unsupported operand type(s) for ", sign_of(op), ": '", python_type(a),
                           "' and '", python_type(b), "'")};
}

[[noreturn]] void fail_overflow() { throw ChatFailure{"an integer beyond 64 bits"}; }

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (;;) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
}

ChatValue of_integers(ChatOperator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (op == ChatOperator::power) return integer_power(a, b);
  if (op == ChatOperator::add ? __builtin_add_overflow(a, b, &result)
      : op == ChatOperator::subtract
          ? __builtin_sub_overflow(a, b, &result)
          : op == ChatOperator::multiply && __builtin_mul_overflow(a, b, &result))
    fail_overflow();
  if (op != ChatOperator::floor_divide && op != ChatOperator::modulo) return result;
  if (b == 0) throw ChatFailure{"integer division or modulo by zero"};
  if (b == -1) {
    if (op == ChatOperator::modulo) return 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) fail_overflow();
    return result;
  }
  const std::int64_t rest = a % b, wrong = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
  return op == ChatOperator::modulo ? rest + wrong * b : a / b - wrong;
}

// As CPython's float_divmod.
ChatValue floor_of_reals(ChatOperator op, double a, double b) {
  if (b == 0)
    throw ChatFailure{op == ChatOperator::modulo ? "float modulo" : "float floor division by zero"};
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) {
    rest += b;
    quotient -= 1;
  } else if (rest == 0) {
    rest = std::copysign(0.0, b);
  }
  if (op == ChatOperator::modulo) return rest;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

ChatValue of_reals(ChatOperator op, double a, double b) {
  switch (op) {
    case ChatOperator::add:
      return a + b;
    case ChatOperator::subtract:
      return a - b;
    case ChatOperator::multiply:
      return a * b;
    case ChatOperator::divide:
      if (b == 0) throw ChatFailure{"division by zero"};
      return a / b;
    case ChatOperator::power: {
      if (a == 0 && b < 0) throw ChatFailure{"0.0 cannot be raised to a negative power"};
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b))
        throw ChatFailure{"a negative number to a fractional power"};
      if (std::isinf(result) && !std::isinf(a) && !std::isinf(b))
        throw ChatFailure{"(34, 'Numerical result out of range')"};
      return result;
    }
    default:
      return floor_of_reals(op, a, b);
  }
}

ChatValue repeated(const ChatValue& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  const std::size_t size = value.is_text() ? value.text()->size() : value.items()->size();
  if (size > 0 && count > (value.is_text() ? kLongest : kMostItems) / size)
    throw ChatFailure{value.is_text() ? "a text of more than 64 MiB" : "a list of more than 4 Mi"};
  if (const std::string* const text = value.text()) {
    std::string out;
    out.reserve(size * count);
    for (std::size_t i = 0; i < count && size > 0; ++i) out += *text;
    return {std::move(out), value.is_safe()};
  }
  std::vector<ChatValue> items;
  for (std::size_t i = 0; i < count && size > 0; ++i)
    items.insert(items.end(), value.items()->begin(), value.items()->end());
  return ChatValue::list(std::move(items), value.sequence()->kind);
}

bool is_list_or_tuple(const ChatValue& value) {
  return value.is_list() && value.sequence()->kind <= ChatValue::Sequence::tuple;
}

ChatValue added(const ChatValue& a, const ChatValue& b) {
  if (a.is_text() && b.is_text()) {
    if (a.is_safe() == b.is_safe()) return {*a.text() + *b.text(), a.is_safe()};
    return {(a.is_safe() ? *a.text() : escape_html(*a.text())) +
                (b.is_safe() ? *b.text() : escape_html(*b.text())),
            true};
  }
  if (!is_list_or_tuple(a) || !b.is_list() || a.sequence()->kind != b.sequence()->kind)
    refuse(ChatOperator::add, a, b);
  std::vector<ChatValue> items = *a.items();
  items.insert(items.end(), b.items()->begin(), b.items()->end());
  return ChatValue::list(std::move(items), a.sequence()->kind);
}

}  // namespace

ChatValue python_binary(ChatOperator op, const ChatValue& a, const ChatValue& b) {
  const auto i = python_index(a), j = python_index(b);
  const bool real = op == ChatOperator::divide || (op == ChatOperator::power && j && *j < 0);
  if (i && j && !real) return of_integers(op, *i, *j);
  const auto x = python_number(a), y = python_number(b);
  if (x && y) return of_reals(op, *x, *y);
  if (op == ChatOperator::add) return added(a, b);
  if (op == ChatOperator::multiply) {
    if ((a.is_text() || is_list_or_tuple(a)) && j) return repeated(a, *j);
    if ((b.is_text() || is_list_or_tuple(b)) && i) return repeated(b, *i);
  }
  if (op == ChatOperator::modulo && a.is_text() && !a.is_safe())
    return python_percent(*a.text(), b);
  refuse(op, a, b);
}

ChatValue python_positive(const ChatValue& value) {
  if (value.real() != nullptr) return value;  // 0 + -0.0 is 0.0
  return python_binary(ChatOperator::add, 0, value);
}

ChatValue python_negative(const ChatValue& value) {
  if (const auto number = python_index(value)) {
    if (*number == std::numeric_limits<std::int64_t>::min()) fail_overflow();
    return -*number;
  }
  if (const double* const number = value.real()) return -*number;
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  throw ChatFailure{"bad operand type for unary -: '" + python_type(value) + "'"};
}

std::int64_t python_int_of(double number) {
  if (std::isnan(number)) throw ChatFailure{"cannot convert float NaN to integer"};
  if (std::isinf(number)) throw ChatFailure{"cannot convert float infinity to integer"};
  if (!(std::fabs(number) < 9223372036854775808.0)) fail_overflow();
  return static_cast<std::int64_t>(number);
}

// The digits of a number without the underscores that may stand between two of them; nothing where
// one stands elsewhere.
static std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  const auto is_digit = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
      return {};
  }
  return digits;
}

std::optional<std::int64_t> python_parse_int(std::string_view text, std::int64_t base) {
  if (base < 2 || base > 36) throw ChatFailure{"int() base must be >= 2 and <= 36"};
  const auto digits = without_underscores(strip_text(text, Side::both));
  if (!digits || digits->empty()) return {};
  const bool plus = digits->front() == '+';
  std::int64_t number = 0;
  const char* const end = digits->data() + digits->size();
  const auto [stop, error] =
      std::from_chars(digits->data() + (plus ? 1 : 0), end, number, static_cast<int>(base));
  if (error == std::errc::result_out_of_range) fail_overflow();
  if (error != std::errc() || stop != end || (plus && digits->substr(1, 1) == "-")) return {};
  return number;
}

std::optional<double> python_parse_float(std::string_view text) {
  const auto digits = without_underscores(strip_text(text, Side::both));
  if (!digits) return {};
  std::string_view rest = *digits;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || (rest.data() != digits->data() && rest.front() == '-') ||
      rest.find('(') != rest.npos)
    return {};
  double number = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (stop != rest.data() + rest.size() || error == std::errc::invalid_argument) return {};
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(rest).c_str(), nullptr);
  return number;
}

// One conversion of the % operator, "%-5.2f", from the character behind the "%".
static std::string converted(std::string_view& format, const ChatValue& value) {
  std::string flags = "%";
  while (!format.empty() &&
         std::string_view("#0- +.123456789").find(format.front()) != format.npos) {
    flags += format.front();
    format.remove_prefix(1);
  }
  if (flags.size() > 12) throw ChatFailure{"a format of more than twelve characters"};
  if (format.empty()) throw ChatFailure{"incomplete format"};
  const char kind = format.front();
  format.remove_prefix(1);
  const auto shown = [&](auto number, const char* type) {
    std::string out(512, '\0');
    const int size = std::snprintf(out.data(), out.size(), (flags + type).c_str(), number);
    if (size < 0 || static_cast<std::size_t>(size) >= out.size())
      throw ChatFailure{"a format that gives more than 512 characters"};
    out.resize(static_cast<std::size_t>(size));
    return out;
  };
  const auto number = python_number(value);
  switch (kind) {
    case 's':
    case 'r': {
      if (flags.size() > 1)
        throw ChatFailure{concat("the format ", flags, kind, " is not supported")};
      return kind == 's' ? python_text(value) : python_repr(value);
    }
    case 'd':
    case 'i':
      if (!number)
        throw ChatFailure{
            concat("%", kind, " format: a real number is required, not ", python_type(value))};
      return shown(static_cast<long long>(value.real() != nullptr ? python_int_of(*number)
                                                                  : *python_index(value)),
                   "lld");
    case 'x':
    case 'X':
    case 'o':
      if (!python_index(value) || *python_index(value) < 0)
        throw ChatFailure{concat("%", kind, " format: an integer, at least 0, is required, not ",
                                 python_type(value))};
      return shown(static_cast<long long>(*python_index(value)), kind == 'x'   ? "llx"
                                                                 : kind == 'X' ? "llX"
                                                                               : "llo");
    case 'f':
    case 'e':
    case 'g':
      if (!number) throw ChatFailure{"must be real number, not " + python_type(value)};
      return shown(*number, kind == 'f' ? "f" : kind == 'e' ? "e" : "g");
    default:
      throw ChatFailure{concat("unsupported format character '", kind, "'")};
  }
}

std::string python_percent(std::string_view text, const ChatValue& values) {
  const bool many = values.is_list() && values.sequence()->kind == ChatValue::Sequence::tuple;
  const std::vector<ChatValue> all = many ? *values.items() : std::vector{values};
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t sign = std::min(text.find('%'), text.size());
    out += text.substr(0, sign);
    text.remove_prefix(sign);
    if (text.empty()) break;
    if (out.size() > kLongest) throw ChatFailure{"a text of more than 64 MiB"};
    text.remove_prefix(1);
    if (text.starts_with('%')) {
      out += '%';
      text.remove_prefix(1);
    } else if (text.starts_with('(')) {
      const std::size_t end = text.find(')');
      const ChatValue* const value =
          end == text.npos ? nullptr : values.find(text.substr(1, end - 1));
      if (value == nullptr) throw ChatFailure{"format requires a mapping with the key"};
      text.remove_prefix(end + 1);
      out += converted(text, *value);
      used = all.size();
    } else {
      if (used == all.size()) throw ChatFailure{"not enough arguments for format string"};
      out += converted(text, all[used++]);
    }
  }
  if (used < all.size() && !values.is_dict() && !values.is_undefined() &&
      !(values.is_list() && !many))
    throw ChatFailure{"not all arguments converted during string formatting"};
  return out;
}

}  // namespace mt
