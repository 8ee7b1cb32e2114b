// The filters, tests and methods that chat templates may use.
#pragma once

#include <string_view>

#include "text/chat/chat_run.h"
#include "text/chat/chat_value.h"

namespace mt {

struct ChatFilter {
  std::string_view name;
  ChatValue (*apply)(ChatRun& run, const ChatValue& value, const ChatArguments& arguments);
};
struct ChatTest {
  std::string_view name;
  bool (*holds)(const ChatValue& value, const ChatArguments& arguments);
};
struct ChatMethod {
  std::string_view name;
  ChatValue (*call)(ChatRun& run, const ChatValue& self, const ChatArguments& arguments);
};

// Null: there is none of the name, in templates of this kind.
const ChatFilter* find_chat_filter(std::string_view name, ChatDialect dialect);
const ChatTest* find_chat_test(std::string_view name);
const ChatMethod* find_chat_method(const ChatValue& self, std::string_view name);

// Whether some value may have a method of this name, which is supported or which a template may not
// call, because it changes a value.
bool is_chat_method(std::string_view name);

// A method that jinja2's sandbox keeps from templates: it changes a list or a dict.
bool is_changing_method(const ChatValue& self, std::string_view name);

}  // namespace mt
