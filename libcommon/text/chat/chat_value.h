// ChatValue: a value that a chat template works on, with the meaning that it has in Python: what
// JSON has, tuples, what is undefined, and what only lives while a template is rendered.  Copies
// share what lists and dicts hold, which a template never changes.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mt {

class ChatObject;  // lives while a template is rendered: a macro, a namespace, a loop

class ChatValue {
 public:
  // What was looked for and not found; `message` says so where it is used all the same.
  struct Undefined {
    std::shared_ptr<const std::string> message;
  };
  // A string, UTF-8.  One that is `safe` escapes strings that it is put together with (markupsafe).
  struct Text {
    std::shared_ptr<const std::string> bytes;
    bool safe = false;
  };
  enum class Sequence : std::uint8_t { list, tuple, keys, values, items, range };
  struct List {
    std::vector<ChatValue> items;
    Sequence kind = Sequence::list;
    std::string shown = {};  // of a range: how it is printed
    int depth = 1;           // of the lists and dicts in it, itself included
    std::int64_t weight = 1;
  };
  using Pairs = std::vector<std::pair<ChatValue, ChatValue>>;  // in the order of insertion

  ChatValue() = default;  // None
  ChatValue(std::nullptr_t) {}
  template <std::same_as<bool> B>
  ChatValue(B truth) : value_(truth) {}
  template <std::integral I>
  requires(!std::same_as<I, bool>) ChatValue(I number)
      : value_(static_cast<std::int64_t>(number)) {}
  ChatValue(double number) : value_(number) {}
  ChatValue(std::string text, bool safe = false)
      : value_(Text{std::make_shared<const std::string>(std::move(text)), safe}) {}
  ChatValue(std::string_view text) : ChatValue(std::string(text)) {}
  ChatValue(const char* text) : ChatValue(std::string(text)) {}
  ChatValue(ChatObject* object) : value_(object) {}

  static ChatValue undefined(std::string message);
  static ChatValue list(std::vector<ChatValue> items, Sequence kind = Sequence::list,
                        std::string shown = {});
  static ChatValue tuple(std::vector<ChatValue> items) {
    return list(std::move(items), Sequence::tuple);
  }
  static ChatValue dict(Pairs pairs);  // of equal keys the last value counts

  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<std::monostate>(); }
  bool is_text() const { return is<Text>(); }
  bool is_list() const { return is<Items>(); }  // of any kind of sequence but text
  bool is_dict() const { return is<Members>(); }

  // What it holds; for another kind of value these are null.
  const std::string* text() const;
  const std::vector<ChatValue>* items() const;
  const Pairs* pairs() const;
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const List* sequence() const;
  const std::string* undefined_message() const;
  bool is_safe() const { return is_text() && std::get<Text>(value_).safe; }
  ChatObject* object() const;

  // How much work it is to look at all of it: its values, and 64 bytes of text are one more.
  std::int64_t weight() const;

  // A member of a dict by name; null: it has none, or is no dict.
  const ChatValue* find(std::string_view key) const;
  bool has(std::string_view key) const {  // and it is not None
    const ChatValue* const value = find(key);
    return value != nullptr && !value->is_none();
  }
  // Puts a member into a dict, or another value in its place; None becomes a dict.
  void set(std::string_view key, ChatValue value);
  void erase(std::string_view key);
  // Puts a value behind the last of a list; None becomes a list.
  void push_back(ChatValue value);

 private:
  struct Dict {
    Pairs pairs;
    int depth = 1;
    std::int64_t weight = 1;
  };
  using Items = std::shared_ptr<List>;
  using Members = std::shared_ptr<Dict>;
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  int depth() const;
  Dict& own_dict();
  // Counts a value among those that a list or dict holds; refuses what is too deep or too much.
  static void hold(auto& holder, const ChatValue& value);

  std::variant<std::monostate, Undefined, bool, std::int64_t, double, Text, Items, Members,
               ChatObject*>
      value_;
};

// Whose settings of jinja2 a template is rendered with.
enum class ChatDialect : std::uint8_t {
  chats,  // transformers'
  // lm-evaluation-harness's, of its tasks: white space around blocks and at the end stays, there is
  // a filter regex_replace (and, of ours, literal), and what is undefined cannot be printed.
  tasks,
};

// The value of a JSON text.  Throws Exit::bad_data with `place` in front of what is wrong with it.
ChatValue chat_value_of_json(std::string_view json, std::string_view place);

// How Python's json.dumps() writes a value.
struct JsonDump {
  bool ensure_ascii = false, sort_keys = false;
  int indent = -1;             // blanks for each level; -1: all on one line
  std::string indent_by = {};  // in place of blanks
  std::string item = ", ", key = ": ";
};
std::string chat_value_json(const ChatValue& value, const JsonDump& dump = {});

}  // namespace mt
