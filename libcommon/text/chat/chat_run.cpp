#include "text/chat/chat_run.h"

#include <algorithm>

#include "base/error.h"
#include "text/chat/chat_names.h"

namespace mt {
namespace {

class Generator : public ChatObject {
 public:
  explicit Generator(std::vector<ChatValue> items) : items_(std::move(items)) {}
  std::string type() const override { return "generator"; }
  bool is_iterable() const override { return true; }
  std::vector<ChatValue> take_items() override {
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    return std::exchange(items_, {});
  }
  std::optional<ChatValue> take_first() override {
    if (taken_ == items_.size()) return {};
    return items_[taken_++];
  }

 private:
  std::vector<ChatValue> items_;
  std::size_t taken_ = 0;  // from the front
};

// A method with the value that it belongs to.
class Method : public ChatObject {
 public:
  Method(ChatRun& run, ChatValue self, const ChatMethod& method)
      : run_(run), self_(std::move(self)), method_(method) {}
  std::string type() const override { return "builtin_function_or_method"; }
  ChatValue call(const ChatArguments& arguments) override {
    return run_.charged(method_.call(run_, self_, arguments));
  }

 private:
  ChatRun& run_;
  ChatValue self_;
  const ChatMethod& method_;
};

}  // namespace

ChatValue ChatRun::generator(std::vector<ChatValue> items) {
  charge(std::ssize(items));
  return make<Generator>(std::move(items));
}

std::vector<std::optional<ChatValue>> ChatArguments::bind(
    std::string_view function, std::initializer_list<std::string_view> parameters,
    std::size_t required) const {
  if (positional.size() > parameters.size())
    throw ChatFailure{concat(function, "() takes at most ", parameters.size(), " arguments, not ",
                             positional.size())};
  std::vector<std::optional<ChatValue>> values(positional.begin(), positional.end());
  values.resize(parameters.size());
  for (const auto& [name, value] : named) {
    const auto found = std::ranges::find(parameters, name);
    if (found == parameters.end())
      throw ChatFailure{concat(function, "() got an unexpected keyword argument '", name, "'")};
    auto& place = values[static_cast<std::size_t>(found - parameters.begin())];
    if (place)
      throw ChatFailure{concat(function, "() got multiple values for argument '", name, "'")};
    place = value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values[i])
      throw ChatFailure{
          concat(function, "() missing a required argument: '", parameters.begin()[i], "'")};
  return values;
}

static ChatValue missing(const ChatValue& value, const ChatValue& key) {
  if (!key.is_text())
    return ChatValue::undefined(
        concat(python_type(value), " object has no element ", python_repr(key)));
  return ChatValue::undefined(
      concat("'", python_type(value), " object' has no attribute ", python_repr(key)));
}

// What Python's getattr() finds in a value; nothing: there is none.
static std::optional<ChatValue> own_attribute(ChatRun& run, const ChatValue& value,
                                              const std::string& name) {
  const bool is_hidden = name.starts_with("__") && name.ends_with("__") && name.size() > 4;
  if (is_hidden || is_changing_method(value, name))
    return ChatValue::undefined(concat("access to attribute ", python_repr(ChatValue(name)),
                                       " of '", python_type(value), "' object is unsafe."));
  if (ChatObject* const object = value.object()) return object->attribute(name);
  if (const ChatMethod* const method = find_chat_method(value, name))
    return run.make<Method>(run, value, *method);
  return {};
}

ChatValue chat_attribute(ChatRun& run, const ChatValue& value, const std::string& name) {
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  if (auto found = own_attribute(run, value, name)) return *found;
  if (const ChatValue* const member = value.find(name)) return *member;
  return missing(value, name);
}

ChatValue chat_item(ChatRun& run, const ChatValue& value, const ChatValue& key) {
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  if (value.is_dict()) run.charge(std::ssize(*value.pairs()) / 16);
  if (value.is_text()) run.charge(std::ssize(*value.text()) / 256);
  if (auto found = python_item(value, key)) return *found;
  if (const std::string* const name = key.text())
    if (auto found = own_attribute(run, value, *name)) return *found;
  return missing(value, key);
}

}  // namespace mt
