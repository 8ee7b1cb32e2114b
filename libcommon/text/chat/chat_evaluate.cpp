// The values of expressions in a chat template.
#include "base/error.h"
#include "text/chat/chat_objects.h"
#include "text/chat/chat_renderer.h"

namespace mt {

using Kind = ChatExpression::Kind;

ChatValue ChatRenderer::name_value(int slot) {
  for (ChatScope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get())
    if (const ChatValue* const value = scope->find(slot)) return *value;
  const auto& given = given_[static_cast<std::size_t>(slot)];
  if (given) return *given;
  return ChatValue::undefined(
      concat("'", syntax_.names[static_cast<std::size_t>(slot)], "' is undefined"));
}

std::vector<ChatValue> ChatRenderer::values_of(const std::vector<ChatExpressionPtr>& parts,
                                               std::size_t from) {
  std::vector<ChatValue> values;
  for (std::size_t i = from; i < parts.size(); ++i) values.push_back(evaluate(*parts[i]));
  return values;
}

ChatArguments ChatRenderer::arguments_of(const ChatExpression& e) {
  ChatArguments arguments{.positional = values_of(e.parts, 1)};
  for (const auto& [name, value] : e.named) arguments.named.emplace_back(name, evaluate(*value));
  return arguments;
}

ChatValue ChatRenderer::dict_of(const ChatExpression& e) {
  ChatValue::Pairs pairs;
  for (std::size_t i = 0; i < e.parts.size(); i += 2) {
    ChatValue key = evaluate(*e.parts[i]), value = evaluate(*e.parts[i + 1]);
    check_hashable(key);
    pairs.emplace_back(std::move(key), std::move(value));
  }
  return ChatValue::dict(std::move(pairs));
}

ChatValue ChatRenderer::binary(const ChatExpression& e) {
  const ChatValue a = evaluate(*e.parts[0]), b = evaluate(*e.parts[1]);
  place_ = e.at;
  return run_.charged(python_binary(e.operators[0], a, b));
}

ChatValue ChatRenderer::slice(const ChatExpression& e) {
  const ChatValue value = evaluate(*e.parts[0]), first = evaluate_or_none(e.parts[1]),
                  last = evaluate_or_none(e.parts[2]), step = evaluate_or_none(e.parts[3]);
  place_ = e.at;
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  if (value.is_text()) run_.charge(std::ssize(*value.text()) / 16);
  if (value.is_dict()) throw ChatFailure{"unhashable type: 'slice'"};
  return run_.charged(python_slice(value, first, last, step));
}

ChatValue ChatRenderer::concatenated(const ChatExpression& e) {
  std::string text;
  for (const ChatExpressionPtr& part : e.parts) {
    const ChatValue value = evaluate(*part);
    place_ = e.at;
    text += value.is_text() ? *value.text() : python_text(value);
    if (text.size() > ChatRun::kOutput) break;
  }
  return run_.charged(std::move(text));
}

ChatValue ChatRenderer::filtered(const ChatExpression& e, ChatValue subject) {
  const ChatArguments arguments = arguments_of(e);
  place_ = e.at;
  if (e.filter == nullptr)
    throw ChatFailure{concat("the filter \"", e.name, "\" is not supported")};
  if (subject.is_text()) run_.charge(std::ssize(*subject.text()) / 64);
  return run_.charged(e.filter->apply(run_, subject, arguments));
}

bool ChatRenderer::test(const ChatExpression& e) {
  const ChatValue subject = evaluate(*e.parts[0]);
  const ChatArguments arguments = arguments_of(e);
  place_ = e.at;
  if (e.test == nullptr) throw ChatFailure{concat("the test \"", e.name, "\" is not supported")};
  return e.test->holds(subject, arguments);
}

bool ChatRenderer::compare(const ChatExpression& e) {
  ChatValue left = evaluate(*e.parts[0]);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    ChatValue right = evaluate(*e.parts[i + 1]);
    place_ = e.at;
    run_.charge(std::max(left.weight(), right.weight()) / 16);
    if (!python_compare(e.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

ChatValue ChatRenderer::call(const ChatExpression& e) {
  const ChatExpression& callee = *e.parts[0];
  if (callee.kind == Kind::attribute) {  // most methods are called where they are named
    const ChatValue self = evaluate(*callee.parts[0]);
    if (const ChatMethod* const method = find_chat_method(self, callee.name)) {
      const ChatArguments arguments = arguments_of(e);
      place_ = callee.at;
      if (self.is_text()) run_.charge(std::ssize(*self.text()) / 64);
      return run_.charged(method->call(run_, self, arguments));
    }
  }
  const ChatValue function = evaluate(callee);
  const ChatArguments arguments = arguments_of(e);
  place_ = e.at;
  if (function.is_undefined()) throw ChatFailure{*function.undefined_message()};
  if (function.object() == nullptr)
    throw ChatFailure{"'" + python_type(function) + "' object is not callable"};
  ChatValue result = function.object()->call(arguments);
  place_ = e.at;
  return result;
}

ChatValue ChatRenderer::evaluate(const ChatExpression& e) {
  const Nested nested(*this);
  place_ = e.at;
  const auto part = [&](std::size_t i) { return evaluate(*e.parts[i]); };
  switch (e.kind) {
    case Kind::constant:
      return e.value;
    case Kind::name:
      return name_value(e.slot);
    case Kind::list:
      return ChatValue::list(values_of(e.parts, 0));
    case Kind::tuple:
      return ChatValue::tuple(values_of(e.parts, 0));
    case Kind::dict:
      return dict_of(e);
    case Kind::attribute: {
      const ChatValue value = part(0);
      place_ = e.at;
      return chat_attribute(run_, value, e.name);
    }
    case Kind::item: {
      const ChatValue value = part(0), key = part(1);
      place_ = e.at;
      return chat_item(run_, value, key);
    }
    case Kind::slice:
      return slice(e);
    case Kind::call:
      return call(e);
    case Kind::filter:
      return filtered(e, part(0));
    case Kind::test:
      return test(e);
    case Kind::negate:
      return python_negative(part(0));
    case Kind::plus:
      return python_positive(part(0));
    case Kind::logical_not:
      return !python_truth(part(0));
    case Kind::binary:
      return binary(e);
    case Kind::compare:
      return compare(e);
    case Kind::concat:
      return concatenated(e);
    case Kind::logical_and: {
      ChatValue left = part(0);
      return python_truth(left) ? part(1) : left;
    }
    case Kind::logical_or: {
      ChatValue left = part(0);
      return python_truth(left) ? left : part(1);
    }
    case Kind::conditional:
      if (python_truth(part(1))) return part(0);
      if (e.parts[2]) return part(2);
      return ChatValue::undefined(
          "the inline if-expression evaluated to false and no else section was defined.");
  }
  return {};
}

}  // namespace mt
