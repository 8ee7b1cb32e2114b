// What one rendering of a chat template has to itself: how much it may still do, and the values
// that end with it.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/chat_python.h"
#include "text/chat/chat_value.h"

namespace mt {

class ChatRun {
 public:
  static constexpr std::size_t kOutput = std::size_t{64} << 20;  // bytes
  static constexpr std::int64_t kRange = 100'000;
  static constexpr int kCalls = 64;     // macros in each other
  static constexpr int kNested = 1500;  // evaluations in each other, which the stack has room for

  ChatRun(std::int64_t steps, ChatDialect dialect)
      : dialect_(dialect), most_(steps), left_(steps) {}

  ChatDialect dialect() const { return dialect_; }

  void charge(std::int64_t steps) {
    left_ -= steps;
    if (left_ < 0) throw ChatFailure{"more than " + std::to_string(most_) + " steps"};
  }
  // For a value that was made, or all of which is looked at.
  ChatValue charged(ChatValue value) {
    if (const std::string* const text = value.text()) {
      if (text->size() > kOutput) throw ChatFailure{"a text of more than 64 MiB"};
      charge(static_cast<std::int64_t>(text->size() / 64));
    } else if (value.is_list() || value.is_dict()) {
      charge(python_length(value) / 16);
    }
    return value;
  }

  // A value that lives as long as this run.
  template <class Object, class... Arguments>
  Object* make(Arguments&&... arguments) {
    charge(16);
    auto made = std::make_unique<Object>(std::forward<Arguments>(arguments)...);
    Object* const object = made.get();
    objects_.push_back(std::move(made));
    return object;
  }
  // Values that can be gone through once.
  ChatValue generator(std::vector<ChatValue> items);

 private:
  ChatDialect dialect_;
  std::int64_t most_, left_;  // steps
  std::vector<std::unique_ptr<ChatObject>> objects_;
};

// What a function, a filter or a method is called with.
struct ChatArguments {
  std::vector<ChatValue> positional = {};
  std::vector<std::pair<std::string, ChatValue>> named = {};

  // The values of these parameters in their order, where they are given.  Fails for others and
  // where one of the first `required` is missing.
  std::vector<std::optional<ChatValue>> bind(std::string_view function,
                                             std::initializer_list<std::string_view> parameters,
                                             std::size_t required = 0) const;
};

// value.name and value[name], as the sandboxed environment of jinja2 looks for them.
ChatValue chat_attribute(ChatRun& run, const ChatValue& value, const std::string& name);
ChatValue chat_item(ChatRun& run, const ChatValue& value, const ChatValue& key);

}  // namespace mt
