#include "base/option.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <limits>
#include <numeric>
#include <sstream>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/option_elsewhere.h"
#include "base/python_list.h"
#include "base/whole_number.h"

namespace mt {

Check at_least(double low) { return {.low = low}; }
Check greater_than(double low) { return {.low = low, .above_low = true}; }
Check between(double low, double high) { return {.low = low, .high = high}; }
Check one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

bool Check::allows(double number) const {
  if (!std::isfinite(number)) return false;
  if (low && (above_low ? number <= *low : number < *low)) return false;
  return !high || number <= *high;
}

bool Check::allows(const std::string& text) const {
  return choices.empty() || std::ranges::find(choices, text) != choices.end();
}

// --- One value of each type: from a text, to a text, to JSON. ---

// Without what Python passes over in numbers: a _ between two digits, as in 220_000_000.
static std::string without_underscores(const std::string& text) {
  const auto is_digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_' || !is_digit(i - 1) || !is_digit(i + 1)) digits += text[i];
  return digits;
}

template <class Number>
requires std::is_arithmetic_v<Number>
static bool parse(const std::string& written, const Check& check, Number& value) {
  const std::string text = without_underscores(written);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && check.allows(static_cast<double>(value));
}

static bool parse(const std::string& text, const Check&, bool& value) {
  value = text == "true" || text == "1";
  return value || text == "false" || text == "0";
}

static bool parse(const std::string& text, const Check& check, std::string& value) {
  value = text;
  return check.allows(text);
}

// The integers of a list as Python has it, ([0]*3+[1]) say.
static bool add_list(const std::string& text, const Check& check,
                     std::vector<std::int64_t>& values) {
  try {
    const PythonList::Value value = PythonList("", text).value();
    const auto& list = std::get<PythonList::List>(value);
    if (list.size() < 2) return false;  // a number alone means something else where both are taken
    for (const std::int64_t one : list) {
      if (!check.allows(static_cast<double>(one))) return false;
      values.push_back(one);
    }
    return true;
  } catch (const Error&) {  // its caller says what was expected
    return false;
  }
}

static std::string print(const std::string& value) { return value; }
static std::string print(bool value) { return value ? "true" : "false"; }
static std::string print(std::integral auto value) { return std::to_string(value); }
static std::string print(double value) {
  char digits[32];
  const auto form = std::chars_format::general;  // 0.0001 and 1e-05, as Python prints them
  return {digits, std::to_chars(digits, digits + sizeof digits, value, form).ptr};
}

// A bound is written in all its digits, as 4294967295 and 0.5 are.
static std::string bound(double value) {
  const auto whole = whole_number(value);
  return whole ? print(*whole) : print(value);
}

std::string Check::expected() const {
  std::ostringstream out;
  for (std::size_t i = 0; i < choices.size(); ++i)
    out << (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") << choices[i];
  if (low && high && *low == *high)
    out << bound(*low);
  else if (low && high)
    out << (above_low ? "greater than " : "from ") << bound(*low)
        << (above_low ? ", at most " : " to ") << bound(*high);
  else if (low)
    out << (above_low ? "greater than " : "at least ") << bound(*low);
  return std::move(out).str();
}

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

// The type of one value: of an optional's content, of a list's element, or the type itself.
template <class T>
struct Scalar {
  using type = T;
};
template <class T>
struct Scalar<std::optional<T>> {
  using type = T;
};
template <class T>
struct Scalar<std::vector<T>> {
  using type = T;
};

// --- Option. ---

std::string Option::variable() const {
  std::string upper = "MT_";
  for (const char c : key()) upper += c == '-' ? '_' : ('a' <= c && c <= 'z') ? char(c - 32) : c;
  return upper;
}

bool Option::answers_to(std::string_view wanted) const {
  return std::ranges::find(names, wanted) != names.end();
}

std::string Option::type() const {
  return std::visit(
      []<class T>(T*) -> std::string {
        using S = typename Scalar<T>::type;
        if (std::is_same_v<S, bool>) return "boolean";
        if (std::is_same_v<S, std::string>) return "string";
        return std::is_integral_v<S> ? "integer" : "number";
      },
      target);
}

bool Option::takes_value() const {
  if (has_variable()) return kind == Kind::value || kind == Kind::list;
  return !std::holds_alternative<bool*>(target);
}

bool Option::takes_list() const {
  return std::visit([]<class T>(T*) { return kIsList<T>; }, target);
}

// ", at most 2147483647" if some text is a number that the type cannot hold, of whose bounds the
// check says nothing.
template <class Number>
static std::string range_note(const std::vector<std::string>& texts, const Check& check) {
  for (const std::string& text : texts) {
    Number value;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc::result_out_of_range) continue;
    if (text.starts_with('-') && !check.low)
      return concat(", at least ", std::numeric_limits<Number>::lowest());
    if (!text.starts_with('-') && !check.high)
      return concat(", at most ", std::numeric_limits<Number>::max());
  }
  return "";
}

std::string Option::expected(const std::vector<std::string>& refused) const {
  return std::visit(
      [&]<class T>(T*) -> std::string {
        using S = typename Scalar<T>::type;
        if constexpr (std::is_same_v<S, bool>) {
          return "true or false";
        } else if constexpr (std::is_same_v<S, std::string>) {
          if (!check.choices.empty()) return check.expected();
          return metavar.empty() ? "one text" : metavar;
        } else {
          const std::string limits = check.expected();
          const char* const number = std::is_floating_point_v<S> ? "a number"
                                     : std::is_unsigned_v<S> && !check.low
                                         ? "an integer of 0 or more"
                                         : "an integer";
          return concat(number, limits.empty() ? "" : ", ", limits, range_note<S>(refused, check));
        }
      },
      target);
}

bool Option::unset() const {
  return std::visit(
      [&]<class T>(T* variable) {
        if (variable == nullptr) return true;
        if constexpr (kIsOptional<T>)
          return !variable->has_value();
        else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
          return !check.allows(static_cast<double>(*variable));
        else
          return false;
      },
      target);
}

bool Option::assign(const std::vector<std::string>& texts) {
  return std::visit(
      [&]<class T>([[maybe_unused]] T* variable) {
        using S = typename Scalar<T>::type;
        std::vector<S> values;
        for (const std::string& one : texts) {
          if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            if (one.find('[') != one.npos) {
              if (!add_list(one, check, values)) return false;
              continue;
            }
          }
          S value{};
          if (!parse(one, check, value)) return false;
          values.push_back(std::move(value));
        }
        if (!kIsList<T> && values.size() != 1) return false;
        if (!has_variable()) {
          accepted = texts;
        } else if constexpr (kIsList<T>) {
          *variable = std::move(values);
        } else {
          *variable = values.front();
          if constexpr (std::is_same_v<T, bool>)
            if (kind == Kind::off_switch) *variable = !*variable;
        }
        return true;
      },
      target);
}

std::vector<std::string> Option::texts() const {
  if (!has_variable()) return accepted;
  if (unset()) return {};
  return std::visit(
      [&]<class T>(T* variable) {
        std::vector<std::string> out;
        if constexpr (kIsList<T>)
          for (const auto& element : *variable) out.push_back(print(element));
        else if constexpr (kIsOptional<T>)
          out.push_back(print(**variable));
        else if constexpr (std::is_same_v<T, bool>)
          out.push_back(print(*variable != (kind == Kind::off_switch)));
        else
          out.push_back(print(*variable));
        return out;
      },
      target);
}

std::string Option::text() const {
  std::string joined;
  for (const std::string& one : texts()) joined += (joined.empty() ? "" : " ") + one;
  return joined;
}

std::string Option::json() const {
  JsonWriter json;
  const bool quoted = type() == "string", list = takes_list();
  const std::vector<std::string> values = texts();
  if (list) json.begin_array();
  for (const std::string& one : values) quoted ? json.value(one) : json.raw(one);
  if (list) json.end_array();
  return values.empty() && !list ? "null" : json.text();
}

// --- OptionTable. ---

Option* OptionTable::find(std::string_view name) {
  for (Option& option : options)
    if (option.answers_to(name)) return &option;
  return nullptr;
}

std::string OptionTable::did_you_mean(std::string_view name) const {
  const bool dashes = name.starts_with("-");
  std::vector<std::string> candidates;
  for (const Option& option : options)
    for (const std::string& one : option.names)
      if (one.starts_with("--") && option.has_variable())
        candidates.push_back(dashes ? one : one.substr(2));
  std::string plain(name);
  std::ranges::replace(plain, '_', '-');
  const std::string_view bare =
      std::string_view(plain).substr(std::min(plain.find_first_not_of('-'), plain.size()));
  for (const auto& [elsewhere, here] : kElsewhere) {
    const std::string own = concat(dashes ? "--" : "", here);
    if (bare == elsewhere && std::ranges::count(candidates, own) > 0)
      return concat("; did you mean ", own, "?");
  }
  std::string near = nearest(plain, candidates);
  for (const std::string& candidate : candidates)  // an abbreviation
    if (near.empty() && plain.size() > 4 && candidate.starts_with(plain)) near = candidate;
  return near.empty() ? "" : "; did you mean " + near + "?";
}

// Optimal string alignment distance, three rows at a time.
static std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view text, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = text.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t far = distance(text, candidate);
    if (far >= least) continue;
    least = far;
    best = candidate;
  }
  return best;
}

}  // namespace mt
