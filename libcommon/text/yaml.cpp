#include "text/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <new>
#include <set>

#include "text/chat/chat_failure.h"
#include "text/chat/chat_python.h"

namespace mt {
namespace {

constexpr std::string_view kDigits = "0123456789_";
constexpr int kDeepest = 64;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

// Removes the characters of a set from the text's front, and gives how many.
std::size_t take(std::string_view& text, std::string_view set) {
  const std::size_t count = std::min(text.find_first_not_of(set), text.size());
  text.remove_prefix(count);
  return count;
}

// The name of one of YAML's own tags; empty of another, and of none.
std::string_view own_tag(std::string_view tag) {
  constexpr std::string_view kPrefix = "tag:yaml.org,2002:";
  if (!tag.starts_with(kPrefix)) return {};
  tag.remove_prefix(kPrefix.size());
  return is_one_of(tag, {"bool", "float", "int", "map", "null", "seq", "str"}) ? tag : "";
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

struct Base {
  std::string_view prefix, digits;
  int base;
};
constexpr Base kBases[] = {{"0b", "01_", 2},
                           {"0x", "0123456789abcdefABCDEF_", 16},
                           {"0", "01234567_", 8},
                           {"", kDigits, 10}};

// Nothing: it is no whole number, or, which `too_large` says, one of more than 64 bits.
std::optional<std::int64_t> whole_value(std::string_view text, bool& too_large) {
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  for (const auto& [prefix, set, base] : kBases) {
    if (!text.starts_with(prefix)) continue;
    if (base == 10 && text != "0" && text.find_first_of("0_") == 0) continue;
    std::string_view rest = text.substr(prefix.size());
    const std::string digits = (minus ? "-" : "") + without_underscores(rest);
    if (take(rest, set) == 0 || !rest.empty()) continue;
    std::int64_t number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    too_large = error == std::errc::result_out_of_range;
    if (error == std::errc()) return number;
  }
  return {};
}

// `loose`: an exponent needs neither a point before it nor a sign.
std::optional<double> real_value(std::string_view text, bool loose) {
  if (is_one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  std::string_view rest = text;
  const bool minus = text.starts_with('-'), is_signed = minus || text.starts_with('+');
  if (is_signed) rest.remove_prefix(1);
  if (is_one_of(rest, {".inf", ".Inf", ".INF"})) {
    const double infinity = std::numeric_limits<double>::infinity();
    return minus ? -infinity : infinity;
  }
  if (rest.starts_with('_') || rest.starts_with("._")) return {};
  const std::size_t before = take(rest, kDigits);
  const bool point = rest.starts_with('.');
  if ((!point && !loose) || (before == 0 && is_signed)) return {};
  rest.remove_prefix(point);
  if (before + take(rest, kDigits) == 0) return {};
  const bool exponent = rest.starts_with('e') || rest.starts_with('E');
  if (!point && !exponent) return {};
  if (exponent) {
    rest.remove_prefix(1);
    const bool sign = rest.starts_with('-') || rest.starts_with('+');
    if (!sign && !loose) return {};
    rest.remove_prefix(sign);
    if (take(rest, "0123456789") == 0) return {};
  }
  return rest.empty() ? python_parse_float(without_underscores(text)) : std::nullopt;
}

class Document {
 public:
  Document(std::string_view text, std::string_view path, const YamlRules& rules)
      : text_(text), path_(path), rules_(rules) {
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Document() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  ChatValue read() {
    next();  // the stream's begin
    next();
    if (event_.type == YAML_STREAM_END_EVENT) return {};
    next();
    ChatValue value = node();
    next();  // the document's end
    if (event_.type != YAML_STREAM_END_EVENT) refuse("a second document; one is expected");
    return value;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse_at(std::size_t line, const Parts&... parts) const {
    fail(rules_.code, path_, ":", line + 1, ": ", parts...);
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    refuse_at(event_.start_mark.line, parts...);
  }

  void next() {
    yaml_event_delete(&event_);
    if (yaml_parser_parse(&parser_, &event_) != 0) return;
    if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
    if (parser_.error == YAML_READER_ERROR)
      refuse_at(static_cast<std::size_t>(
                    std::ranges::count(text_.substr(0, parser_.problem_offset), '\n')),
                parser_.problem);
    refuse_at(parser_.problem_mark.line, parser_.context == nullptr ? "" : parser_.context,
              parser_.context == nullptr ? "" : ", ", parser_.problem);
  }

  static std::string_view text_of(const yaml_char_t* text) {
    return text == nullptr ? "" : reinterpret_cast<const char*>(text);
  }

  // What begins with this event, and takes the events up to its end.
  ChatValue node() {
    if (++depth_ > kDeepest) refuse("nested deeper than ", kDeepest);
    std::string anchor;
    ChatValue value;
    if (event_.type == YAML_ALIAS_EVENT) {
      value = alias();
    } else if (event_.type == YAML_SEQUENCE_START_EVENT) {
      anchor = text_of(event_.data.sequence_start.anchor);
      check_tag_of(text_of(event_.data.sequence_start.tag), "seq");
      value = sequence();
    } else if (event_.type == YAML_MAPPING_START_EVENT) {
      anchor = text_of(event_.data.mapping_start.anchor);
      check_tag_of(text_of(event_.data.mapping_start.tag), "map");
      value = mapping();
    } else {
      anchor = text_of(event_.data.scalar.anchor);
      value = scalar();
    }
    if (!anchor.empty()) anchors_[anchor] = value;
    next();
    --depth_;
    return value;
  }

  const ChatValue& alias() const {
    const std::string name(text_of(event_.data.alias.anchor));
    const auto known = anchors_.find(name);
    if (known == anchors_.end()) refuse("*", name, ": is no anchor before");
    return known->second;
  }

  ChatValue sequence() {
    std::vector<ChatValue> items;
    for (next(); event_.type != YAML_SEQUENCE_END_EVENT;) items.push_back(node());
    return ChatValue::list(std::move(items));
  }

  // What "<<" names is put in first, a list of it from its end, so that of equal keys the mapping's
  // own counts, and else a list's first.
  ChatValue mapping() {
    ChatValue::Pairs own;
    std::vector<ChatValue> merged;
    std::set<std::string, std::less<>> keys;
    for (next(); event_.type != YAML_MAPPING_END_EVENT;) {
      const yaml_event_t& key = event_;
      const std::size_t line = key.start_mark.line;
      if (key.type != YAML_SCALAR_EVENT) refuse("a key that is no text");
      std::string name = scalar_text();
      const bool merges = name == "<<" && key.data.scalar.plain_implicit != 0;
      if (!merges && !keys.insert(name).second) refuse("the key \"", name, "\" stands twice");
      if (const std::string anchor(text_of(key.data.scalar.anchor)); !anchor.empty())
        anchors_[anchor] = name;
      next();
      if (merges)
        merge(node(), line, merged);
      else
        own.emplace_back(std::move(name), node());
    }
    ChatValue::Pairs all;
    for (const ChatValue& from : merged)
      all.insert(all.end(), from.pairs()->begin(), from.pairs()->end());
    all.insert(all.end(), own.begin(), own.end());
    return ChatValue::dict(std::move(all));
  }

  void merge(const ChatValue& from, std::size_t line, std::vector<ChatValue>& merged) const {
    const std::vector<ChatValue> one{from}, &several = from.is_list() ? *from.items() : one;
    for (const ChatValue& item : several)
      if (!item.is_dict()) refuse_at(line, "<<: expected a mapping, or a list of mappings");
    merged.insert(merged.end(), several.rbegin(), several.rend());
  }

  std::string scalar_text() const {
    return {reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length};
  }

  ChatValue scalar() const {
    const std::string_view tag = text_of(event_.data.scalar.tag), own = own_tag(tag);
    const std::string text = scalar_text();
    check_tag(tag, text);
    if (own == "float")
      if (const auto number = python_parse_float(without_underscores(text))) return *number;
    const bool plain = event_.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (tag == "!" || own == "str" || (own.empty() && !plain)) return text;
    ChatValue value = plain_value(text);
    const bool fits = own.empty() || (own == "bool" && value.boolean() != nullptr) ||
                      (own == "int" && value.integer() != nullptr) ||
                      (own == "float" && value.real() != nullptr) ||
                      (own == "null" && value.is_none());
    if (!fits) refuse_own(own);
    return value;
  }

  ChatValue plain_value(const std::string& text) const {
    if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return {};
    if (is_one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}))
      return true;
    if (is_one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
      return false;
    bool too_large = false;
    if (const auto number = whole_value(text, too_large)) return *number;
    if (too_large) refuse(text, ": a whole number of more than 64 bits");
    if (const auto number = real_value(text, rules_.omegaconf)) return *number;
    return text;
  }

  void check_tag(std::string_view tag, std::string_view value) const {
    if (tag == "!function")
      refuse("\"!function ", value, "\": code is not run; a template can say it");
    if (rules_.omegaconf || tag.empty() || tag == "!" || !own_tag(tag).empty()) return;
    refuse("the tag ", tag, " is not supported");
  }

  // Checks the tag of a collection, which is "seq" or "map".
  void check_tag_of(std::string_view tag, std::string_view kind) const {
    check_tag(tag, "");
    if (const std::string_view own = own_tag(tag); !own.empty() && own != kind) refuse_own(own);
  }

  [[noreturn]] void refuse_own(std::string_view own) const {
    refuse("the tag !!", own, " is not of this value");
  }

  std::string_view text_, path_;
  const YamlRules& rules_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
  int depth_ = 0;
  std::map<std::string, ChatValue> anchors_;
};

}  // namespace

ChatValue parse_yaml(std::string_view text, std::string_view path, const YamlRules& rules) {
  try {
    return Document(text, path, rules).read();
  } catch (const ChatFailure& failure) {
    fail(rules.code, path, ": ", failure.what);
  }
}

}  // namespace mt
