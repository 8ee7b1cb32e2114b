// The tests of chat templates: what may stand behind "is".
#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/chat/chat_arguments.h"
#include "text/chat/chat_names.h"

namespace mt {
namespace {

using Arguments = const ChatArguments&;

template <bool (*holds)(const ChatValue&)>
bool alone(const ChatValue& value, Arguments arguments) {
  arguments.bind("test", {});
  return holds(value);
}

template <ChatOperator op>
bool compared(const ChatValue& value, Arguments arguments) {
  return python_compare(op, value, *arguments.bind("test", {"other"}, 1)[0]);
}

bool is_defined(const ChatValue& value) { return !value.is_undefined(); }
bool is_undefined(const ChatValue& value) { return value.is_undefined(); }
bool is_none(const ChatValue& value) { return value.is_none(); }
bool is_text(const ChatValue& value) { return value.is_text(); }
bool is_mapping(const ChatValue& value) { return value.is_dict(); }
bool is_boolean(const ChatValue& value) { return value.boolean() != nullptr; }
bool is_true(const ChatValue& value) { return value.boolean() != nullptr && *value.boolean(); }
bool is_false(const ChatValue& value) { return value.boolean() != nullptr && !*value.boolean(); }
bool is_integer(const ChatValue& value) { return value.integer() != nullptr; }
bool is_float(const ChatValue& value) { return value.real() != nullptr; }
bool is_number(const ChatValue& value) { return python_number(value).has_value(); }

bool is_sequence(const ChatValue& value) {
  if (value.is_list()) {
    const ChatValue::Sequence kind = value.sequence()->kind;
    return kind != ChatValue::Sequence::keys && kind != ChatValue::Sequence::values &&
           kind != ChatValue::Sequence::items;
  }
  return value.is_text() || value.is_dict() || value.is_undefined();
}

template <std::int64_t rest>
bool leaves(const ChatValue& value) {
  const ChatValue modulo = python_binary(ChatOperator::modulo, value, 2);
  return python_equal(modulo, rest);
}

constexpr auto kTests = std::to_array<ChatTest>({
    {"!=", compared<ChatOperator::not_equal>},
    {"==", compared<ChatOperator::equal>},
    {"boolean", alone<is_boolean>},
    {"defined", alone<is_defined>},
    {"eq", compared<ChatOperator::equal>},
    {"equalto", compared<ChatOperator::equal>},
    {"even", alone<leaves<0>>},
    {"false", alone<is_false>},
    {"float", alone<is_float>},
    {"in", compared<ChatOperator::in>},
    {"integer", alone<is_integer>},
    {"iterable", alone<python_is_iterable>},
    {"mapping", alone<is_mapping>},
    {"ne", compared<ChatOperator::not_equal>},
    {"none", alone<is_none>},
    {"number", alone<is_number>},
    {"odd", alone<leaves<1>>},
    {"sequence", alone<is_sequence>},
    {"string", alone<is_text>},
    {"true", alone<is_true>},
    {"undefined", alone<is_undefined>},
});

}  // namespace

const ChatTest* find_chat_test(std::string_view name) {
  const auto found = std::ranges::find(kTests, name, &ChatTest::name);
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace mt
