// Values of chat templates from JSON and to it.
#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_parse.h"
#include "base/utf8.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_value.h"

namespace mt {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

ChatValue value_of(element json) {
  switch (json.type()) {
    case element_type::OBJECT: {
      ChatValue::Pairs pairs;
      for (const auto& [key, member] : simdjson::dom::object(json))
        pairs.emplace_back(key, value_of(member));
      return ChatValue::dict(std::move(pairs));
    }
    case element_type::ARRAY: {
      std::vector<ChatValue> items;
      for (const element item : simdjson::dom::array(json)) items.push_back(value_of(item));
      return ChatValue::list(std::move(items));
    }
    case element_type::STRING:
      return std::string_view(json);
    case element_type::BOOL:
      return bool(json);
    case element_type::INT64:
      return std::int64_t(json);
    case element_type::UINT64:
      return static_cast<double>(std::uint64_t(json));  // as those that are larger still
    case element_type::DOUBLE:
      return double(json);
    default:
      return {};
  }
}

void append_quoted(std::string& out, std::string_view text, bool ensure_ascii) {
  const auto escape = [&](char32_t unit) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[(unit >> shift) & 15];
  };
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    constexpr std::string_view kNamed = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    const std::size_t begin = at;
    const char32_t point = next_code_point(text, at);
    const std::size_t name = point < 0x80 ? kNamed.find(static_cast<char>(point)) : kNamed.npos;
    if (name != kNamed.npos) {
      (out += '\\') += kNames[name];
    } else if (point < 0x20 || (ensure_ascii && point > 0x7F && point < 0x10000)) {
      escape(point);
    } else if (ensure_ascii && point >= 0x10000) {
      escape(0xD800 + ((point - 0x10000) >> 10));
      escape(0xDC00 + ((point - 0x10000) & 0x3FF));
    } else if (ensure_ascii && point == 0x7F) {
      out += '\x7F';
    } else {
      out += text.substr(begin, at - begin);
    }
  }
  out += '"';
}

class Writer {
 public:
  explicit Writer(const JsonDump& dump) : dump_(dump) {}

  void write(const ChatValue& value) {
    if (const std::string* const text = value.text()) return append_quoted(out, *text, ascii());
    if (const ChatValue::Pairs* const pairs = value.pairs()) return write_dict(*pairs);
    const ChatValue::List* const list = value.sequence();
    if (list != nullptr &&
        (list->kind == ChatValue::Sequence::list || list->kind == ChatValue::Sequence::tuple))
      return write_list(list->items);
    out += scalar(value);
  }

  std::string out;

 private:
  bool ascii() const { return dump_.ensure_ascii; }

  static std::string scalar(const ChatValue& value) {
    if (value.is_none()) return "null";
    if (const bool* const truth = value.boolean()) return *truth ? "true" : "false";
    if (const std::int64_t* const number = value.integer()) return std::to_string(*number);
    if (const double* const number = value.real()) {
      if (std::isnan(*number)) return "NaN";
      if (std::isinf(*number)) return *number > 0 ? "Infinity" : "-Infinity";
      return python_real(*number);
    }
    throw ChatFailure{"Object of type " + python_type(value) + " is not JSON serializable"};
  }

  void new_line() {
    if (dump_.indent < 0 && dump_.indent_by.empty()) return;
    out += '\n';
    for (int i = 0; i < level_; ++i) {
      if (dump_.indent_by.empty())
        out.append(static_cast<std::size_t>(dump_.indent), ' ');
      else
        out += dump_.indent_by;
    }
  }

  void write_dict(const ChatValue::Pairs& pairs) {
    std::vector<std::pair<std::string, const ChatValue*>> members;
    for (const auto& [key, value] : pairs) {
      if (!key.is_text() && (key.is_list() || key.is_dict() || key.object() != nullptr))
        throw ChatFailure{"keys must be str, int, float, bool or None, not " + python_type(key)};
      members.emplace_back(key.is_text() ? *key.text() : scalar(key), &value);
    }
    if (dump_.sort_keys)
      std::ranges::stable_sort(members, {}, &std::pair<std::string, const ChatValue*>::first);
    write_all('{', '}', members, [&](const auto& member) {
      append_quoted(out, member.first, ascii());
      out += dump_.key;
      write(*member.second);
    });
  }

  void write_list(const std::vector<ChatValue>& items) {
    write_all('[', ']', items, [&](const ChatValue& item) { write(item); });
  }

  template <class Items, class Each>
  void write_all(char open, char close, const Items& items, const Each& each) {
    out += open;
    ++level_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out += dump_.item;
      first = false;
      new_line();
      if (out.size() > kMost) throw ChatFailure{concat("JSON of more than ", kMost, " bytes")};
      each(item);
    }
    --level_;
    if (!first) new_line();
    out += close;
  }

  static constexpr std::size_t kMost = std::size_t{64} << 20;
  const JsonDump& dump_;
  int level_ = 0;
};

}  // namespace

ChatValue chat_value_of_json(std::string_view json, std::string_view place) {
  simdjson::dom::parser parser;
  element document;
  if (const auto error = parse_json(parser, json).get(document); error != simdjson::SUCCESS)
    fail_json(json, std::string(place), error);
  try {
    return value_of(document);
  } catch (const ChatFailure& failure) {
    fail(Exit::bad_data, place, ": ", failure.what);
  }
}

std::string chat_value_json(const ChatValue& value, const JsonDump& dump) {
  Writer writer(dump);
  writer.write(value);
  return std::move(writer.out);
}

}  // namespace mt
