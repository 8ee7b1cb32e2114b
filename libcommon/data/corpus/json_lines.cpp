#include "data/corpus/json_lines.h"

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "base/input/line_reader.h"
#include "base/json_place.h"
#include "data/corpus/plain_json.h"

namespace mt {
namespace {

namespace ondemand = simdjson::ondemand;
constexpr int kMaxDepth = 1000;  // Python's, about
static_assert(LineBlock::kPadding >= simdjson::SIMDJSON_PADDING &&
              LineBlock::kPadding >= PlainJsonReader::kPadding);

std::string_view trimmed(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\n\r");
  return text.substr(0, end == text.npos ? 0 : end + 1);
}

std::size_t count_digits(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

// RFC 8259 has it as [ minus ] int [ frac ] [ exp ].
bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t whole = count_digits(text);
  if (whole == 0 || (whole > 1 && text[0] == '0')) return false;
  text.remove_prefix(whole);
  if (text.starts_with('.')) {
    const std::size_t fraction = count_digits(text.substr(1));
    if (fraction == 0) return false;
    text.remove_prefix(1 + fraction);
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    return !text.empty() && count_digits(text) == text.size();
  }
  return text.empty();
}

bool is_scalar(std::string_view text) {
  for (const char* word : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
    if (text == word) return true;
  return is_number(text);
}

// The escapes of a string whose first byte, behind the quote, is `at`; it is known to be closed.
bool has_valid_escapes(const char* at) {
  for (; *at != '"'; ++at) {
    if (*at != '\\') continue;
    ++at;
    if (*at == 'u') {
      for (int i = 0; i < 4; ++i)
        if (std::isxdigit(static_cast<unsigned char>(*++at)) == 0) return false;
    } else if (std::string_view("\"\\/bfnrt").find(*at) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

// Both throw simdjson_error where the value is malformed.
void check(bool valid, simdjson::error_code error = simdjson::TAPE_ERROR) {
  if (!valid) throw simdjson::simdjson_error(error);
}

void check_value(ondemand::value value, int depth = 0) {
  check(depth < kMaxDepth, simdjson::DEPTH_ERROR);
  const std::string_view token = value.raw_json_token();
  switch (token.empty() ? '\0' : token.front()) {
    case '[':
      for (ondemand::value element : value.get_array()) check_value(element, depth + 1);
      break;
    case '{':
      for (ondemand::field field : value.get_object()) {
        check(has_valid_escapes(field.key().raw()));
        check_value(field.value(), depth + 1);
      }
      break;
    case '"':
      check(has_valid_escapes(value.get_raw_json_string().value().raw()));
      break;
    default:
      check(is_scalar(trimmed(token)));
  }
}

// Appends the string that starts with `token`; false where it holds half a surrogate pair, which no
// UTF-8 can say.
bool read_string(ondemand::value value, std::string_view token,
                 std::vector<std::string_view>& texts) {
  std::string_view text;
  const bool readable = value.get_string().get(text) == simdjson::SUCCESS;
  check(readable || has_valid_escapes(token.data() + 1));
  texts.push_back(text);
  return readable;
}

// The texts of a value that is asked for: a string or a list of strings.  Returns what is wrong.
std::string read_texts(ondemand::value value, const std::string& key,
                       std::vector<std::string_view>& texts) {
  const std::string value_of_key = "the value of \"" + key + "\"";
  const char* const half_pair = " holds half a surrogate pair";
  texts.clear();
  std::string wrong;
  const std::string_view token = value.raw_json_token();
  if (token.starts_with('"')) {
    if (!read_string(value, token, texts)) wrong = value_of_key + half_pair;
  } else if (!token.starts_with('[')) {
    check_value(value);
    wrong = value_of_key + " is not a string";
  } else {
    for (ondemand::value element : value.get_array()) {
      const std::string_view first = element.raw_json_token();
      if (!first.starts_with('"')) {
        check_value(element);
        wrong = value_of_key + " is a list of something else than strings";
      } else if (!read_string(element, first, texts)) {
        wrong = value_of_key + half_pair;
      }
    }
  }
  return wrong;
}

std::string describe(const simdjson::simdjson_error& error, std::string_view line) {
  if (std::string form = other_json_form(line); !form.empty()) return form;
  switch (error.error()) {
    case simdjson::UTF8_ERROR:
      return "invalid UTF-8";
    case simdjson::EMPTY:
      return "empty line, expected a JSON object";
    case simdjson::UNCLOSED_STRING:
      return "malformed JSON: a string is not closed";
    case simdjson::UNESCAPED_CHARS:
      return "malformed JSON: a control character in a string";
    case simdjson::INCORRECT_TYPE:
      return "not a JSON object";
    case simdjson::DEPTH_ERROR:
      return "malformed JSON: nested too deeply";
    default:
      return "malformed JSON";
  }
}

}  // namespace

struct JsonLineParser::State {
  explicit State(const std::vector<std::string>& keys) : plain(keys) {}
  PlainJsonReader plain;
  ondemand::parser parser;
  std::vector<std::string> wrong;  // with each key's value, so far
};

JsonLineParser::JsonLineParser(std::vector<std::string> keys)
    : keys_(std::move(keys)), texts_(keys_.size()), state_(std::make_unique<State>(keys_)) {}
JsonLineParser::~JsonLineParser() = default;
JsonLineParser::JsonLineParser(JsonLineParser&&) noexcept = default;

std::string JsonLineParser::parse(std::string_view line) {
  return state_->plain.read(line, texts_) == line.size() ? "" : parse_any(line);
}

std::string JsonLineParser::parse_first(std::string_view lines, std::string_view& line) {
  const std::optional<std::size_t> size = state_->plain.read(lines, texts_);
  line = lines.substr(0, size ? *size : lines.find('\n'));
  return size ? "" : parse_any(line);
}

std::string JsonLineParser::parse_any(std::string_view line) {
  state_->wrong.clear();
  for (const std::string& key : keys_) state_->wrong.push_back("no key \"" + key + "\"");
  try {
    ondemand::document document = state_->parser.iterate(
        simdjson::padded_string_view(line.data(), line.size(), line.size() + LineBlock::kPadding));
    for (ondemand::field field : document.get_object()) {
      check(has_valid_escapes(field.key().raw()));
      std::string_view key;
      const bool readable = field.unescaped_key().get(key) == simdjson::SUCCESS;
      const auto wanted = readable ? std::find(keys_.begin(), keys_.end(), key) : keys_.end();
      if (wanted == keys_.end()) {
        check_value(field.value());
        continue;
      }
      const auto index = static_cast<std::size_t>(wanted - keys_.begin());
      state_->wrong[index] = read_texts(field.value(), *wanted, texts_[index]);
    }
    check(document.current_location().error() == simdjson::OUT_OF_BOUNDS);  // nothing behind it
  } catch (const simdjson::simdjson_error& error) {
    return describe(error, line);
  }
  for (const std::string& wrong : state_->wrong)
    if (!wrong.empty()) return wrong;
  return "";
}

}  // namespace mt
