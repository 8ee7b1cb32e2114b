#include "text/chat/chat_objects.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/error.h"
#include "text/chat/chat_arguments.h"

namespace mt {
namespace {

using Arguments = const ChatArguments&;

class Function : public ChatObject {
 public:
  using Call = ChatValue (*)(ChatRenderer& renderer, Arguments arguments);
  Function(ChatRenderer& renderer, Call function) : renderer_(renderer), function_(function) {}
  std::string type() const override { return "function"; }
  ChatValue call(Arguments arguments) override { return function_(renderer_, arguments); }

 private:
  ChatRenderer& renderer_;
  Call function_;
};

ChatValue raise_exception(ChatRenderer&, Arguments arguments) {
  fail(Exit::bad_data, python_text(*arguments.bind("raise_exception", {"message"}, 1)[0]));
}

ChatValue strftime_now(ChatRenderer& renderer, Arguments arguments) {
  const auto given = arguments.bind("strftime_now", {"format"}, 1);
  const std::string& format = text_of(*given[0], "strftime_now");
  const std::time_t now = renderer.input().clock ? renderer.input().clock() : std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 4096> out;
  const std::size_t size = std::strftime(out.data(), out.size(), format.c_str(), &parts);
  if (size == 0 && !format.empty()) throw ChatFailure{"strftime_now: the format gives no text"};
  return std::string(out.data(), size);
}

// A dict's members, or pairs in a list.
ChatValue::Pairs pairs_of(const ChatValue& value) {
  if (value.is_dict()) return *value.pairs();
  ChatValue::Pairs pairs;
  for (const ChatValue& item : python_items(value)) {
    const std::vector<ChatValue> both = python_items(item);
    if (both.size() != 2) throw ChatFailure{"dict(): expected pairs"};
    check_hashable(both[0]);
    pairs.emplace_back(both[0], both[1]);
  }
  return pairs;
}

ChatValue make_dict(ChatRenderer& renderer, Arguments arguments) {
  ChatValue::Pairs pairs;
  if (arguments.positional.size() > 1) throw ChatFailure{"dict() takes at most 1 argument"};
  if (!arguments.positional.empty()) pairs = pairs_of(arguments.positional[0]);
  pairs.insert(pairs.end(), arguments.named.begin(), arguments.named.end());
  renderer.run().charge(std::ssize(pairs));
  return ChatValue::dict(std::move(pairs));
}

ChatValue make_namespace(ChatRenderer& renderer, Arguments arguments) {
  auto* const made = renderer.run().make<ChatNamespace>();
  const ChatValue values = make_dict(renderer, arguments);
  for (const auto& [name, value] : *values.pairs()) made->set(text_of(name, "namespace"), value);
  return made;
}

ChatValue range(ChatRenderer& renderer, Arguments arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty())
    throw ChatFailure{concat("range expected 1 to 3 arguments, got ", given.size())};
  const auto number = [&](std::size_t i) { return integer_of(given[i], 0, "range"); };
  const std::int64_t first = given.size() > 1 ? number(0) : 0,
                     last = number(given.size() > 1 ? 1 : 0),
                     step = given.size() > 2 ? number(2) : 1;
  if (step == 0) throw ChatFailure{"range() arg 3 must not be zero"};
  std::vector<ChatValue> items;
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    if (std::ssize(items) == ChatRun::kRange)
      throw ChatFailure{concat("Range too big. The sandbox blocks ranges larger than MAX_RANGE (",
                               ChatRun::kRange, ").")};
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  renderer.run().charge(std::ssize(items) / 16);
  return ChatValue::list(
      std::move(items), ChatValue::Sequence::range,
      concat("range(", first, ", ", last, step == 1 ? "" : concat(", ", step), ")"));
}

constexpr auto kFunctions = std::to_array<std::pair<std::string_view, Function::Call>>({
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
});

// loop.cycle: one of its arguments in turn.
class Cycle : public ChatObject {
 public:
  explicit Cycle(const ChatLoop& loop) : loop_(loop) {}
  std::string type() const override { return "method"; }
  ChatValue call(Arguments arguments) override {
    if (arguments.positional.empty()) throw ChatFailure{"no items for cycling given"};
    return arguments.positional[loop_.at % arguments.positional.size()];
  }

 private:
  const ChatLoop& loop_;
};

}  // namespace

std::optional<ChatValue> chat_function(ChatRenderer& renderer, std::string_view name) {
  for (const auto& [known, function] : kFunctions)
    if (known == name) return renderer.run().make<Function>(renderer, function);
  return {};
}

std::string ChatNamespace::shown() const {
  ChatValue::Pairs pairs(values_.begin(), values_.end());
  for (const auto& [name, value] : pairs)
    if (value.object() != nullptr) throw ChatFailure{"a namespace in a namespace has no text"};
  return "<Namespace " + python_repr(ChatValue::dict(std::move(pairs))) + ">";
}

std::optional<ChatValue> ChatNamespace::attribute(const std::string& name) const {
  const auto found = std::ranges::find(values_, name, &std::pair<std::string, ChatValue>::first);
  if (found == values_.end()) return {};
  return found->second;
}

void ChatNamespace::set(const std::string& name, ChatValue value) {
  if (name.starts_with('_'))
    throw ChatFailure{concat(
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '",
        name, "'. Please rename the attribute.")};
  const auto found = std::ranges::find(values_, name, &std::pair<std::string, ChatValue>::first);
  if (found != values_.end())
    found->second = std::move(value);
  else
    values_.emplace_back(name, std::move(value));
}

std::optional<ChatValue> ChatLoop::attribute(const std::string& name) const {
  const auto index = static_cast<std::int64_t>(at);
  const std::int64_t length = std::ssize(items_);
  if (name == "index0") return index;
  if (name == "index") return index + 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == length;
  if (name == "length") return length;
  if (name == "revindex0") return length - index - 1;
  if (name == "revindex") return length - index;
  if (name == "depth") return depth_;
  if (name == "previtem")
    return at > 0 ? items_[at - 1] : ChatValue::undefined("there is no previous item");
  if (name == "nextitem")
    return at + 1 < items_.size() ? items_[at + 1] : ChatValue::undefined("there is no next item");
  if (name == "cycle") return run_.make<Cycle>(*this);
  return {};
}

}  // namespace mt
