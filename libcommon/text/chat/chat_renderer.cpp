#include "text/chat/chat_renderer.h"

#include <algorithm>

#include "base/error.h"
#include "text/chat/chat_objects.h"

namespace mt {

using Kind = ChatStatement::Kind;

ChatValue* ChatScope::find(int slot) {
  const auto found = std::ranges::find(values, slot, &std::pair<int, ChatValue>::first);
  return found == values.end() ? nullptr : &found->second;
}

void ChatScope::set(int slot, ChatValue value) {
  if (ChatValue* const known = find(slot))
    *known = std::move(value);
  else
    values.emplace_back(slot, std::move(value));
}

ChatRenderer::ChatRenderer(const ChatSyntax& syntax, const ChatInput& input)
    : syntax_(syntax),
      input_(input),
      run_(input.steps, syntax.dialect),
      given_(syntax.names.size()) {
  const auto give = [&](std::string_view name, const ChatValue& value) {
    const auto found = std::ranges::find(syntax.names, name);
    if (found != syntax.names.end())
      given_[static_cast<std::size_t>(found - syntax.names.begin())] = value;
  };
  for (const std::string& name : syntax.names)
    if (const auto function = chat_function(*this, name)) give(name, *function);
  for (const auto& [name, text] : input.special_tokens) give(name, text);
  if (input.kwargs.is_dict())
    for (const auto& [name, value] : *input.kwargs.pairs())
      if (name.is_text()) give(*name.text(), value);
  if (syntax.dialect == ChatDialect::chats) {
    give("messages", input.messages);
    give("tools", input.tools);
    give("documents", input.documents);
    give("add_generation_prompt", input.add_generation_prompt);
  }
  const auto loop = std::ranges::find(syntax.names, "loop");
  if (loop != syntax.names.end()) loop_slot_ = static_cast<int>(loop - syntax.names.begin());
}

ChatRenderer::Nested::Nested(ChatRenderer& renderer) : renderer_(renderer) {
  renderer.run_.charge(1);
  if (++renderer.nested_ > ChatRun::kNested) {
    --renderer.nested_;
    throw ChatFailure{concat("evaluations nested deeper than ", ChatRun::kNested)};
  }
}

template <class Act>
auto ChatRenderer::in_scope(std::shared_ptr<ChatScope> outer, const Act& act) {
  struct Restore {
    ChatRenderer& renderer;
    std::shared_ptr<ChatScope> before;
    ~Restore() { renderer.scope_ = std::move(before); }
  } const restore{*this, scope_};
  scope_ = std::make_shared<ChatScope>(ChatScope{.outer = std::move(outer)});
  return act();
}

ChatText ChatRenderer::render() {
  execute(syntax_.body);
  return std::move(text_);
}

// Does nothing of it end with the rendering?
static bool is_data(const ChatValue& value) {
  if (value.object() != nullptr) return false;
  if (const auto* const items = value.items()) return std::ranges::all_of(*items, is_data);
  if (const ChatValue::Pairs* const pairs = value.pairs())
    return std::ranges::all_of(*pairs, [](const auto& pair) { return is_data(pair.second); });
  return true;
}

ChatValue ChatRenderer::value() {
  if (syntax_.body.size() != 1 || syntax_.body[0].kind != Kind::output) return render().text;
  ChatValue value = evaluate(*syntax_.body[0].expression);
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  if (!is_data(value)) throw ChatFailure{"expected a value that is data alone"};
  return value;
}

void ChatRenderer::put(std::string_view text) {
  if (out_->size() + text.size() > ChatRun::kOutput)
    throw ChatFailure{"an output of more than 64 MiB"};
  out_->append(text);
}

ChatRenderer::Flow ChatRenderer::execute(const ChatBody& body) {
  for (const ChatStatement& statement : body)
    if (const Flow flow = execute(statement); flow != Flow::on) return flow;
  return Flow::on;
}

ChatRenderer::Flow ChatRenderer::execute(const ChatStatement& statement) {
  const Nested nested(*this);
  place_ = statement.at;
  switch (statement.kind) {
    case Kind::data:
      put(statement.text);
      return Flow::on;
    case Kind::output: {
      const ChatValue value = evaluate(*statement.expression);
      place_ = statement.at;
      if (syntax_.dialect == ChatDialect::tasks && value.is_undefined())
        throw ChatFailure{*value.undefined_message()};
      put(value.is_text() ? *value.text() : python_text(value));
      return Flow::on;
    }
    case Kind::branches:
      for (const ChatBranch& branch : statement.branches)
        if (!branch.condition || python_truth(evaluate(*branch.condition)))
          return execute(branch.body);
      return Flow::on;
    case Kind::loop:
      return loop(statement);
    case Kind::set:
      assign(statement.target, evaluate(*statement.expression));
      return Flow::on;
    case Kind::set_block:
      set_block(statement);
      return Flow::on;
    case Kind::macro:
      assign(statement.target, run_.make<ChatMacro>(*this, statement, scope_));
      return Flow::on;
    case Kind::generation:
      generation(statement);
      return Flow::on;
    case Kind::leave:
      return Flow::leave;
    case Kind::next:
      return Flow::next;
  }
  return Flow::on;
}

ChatRenderer::Flow ChatRenderer::loop(const ChatStatement& statement) {
  std::vector<ChatValue> items = python_items(evaluate(*statement.expression));
  run_.charge(std::ssize(items) / 16);
  if (statement.filter) {
    std::vector<ChatValue> kept;
    for (ChatValue& item : items) {
      const bool keeps = in_scope(scope_, [&] {
        assign(statement.target, item);
        return python_truth(evaluate(*statement.filter));
      });
      if (keeps) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  // What stands behind `else` comes where no turn was gone through to its end.
  bool is_through = false;
  auto* const state = run_.make<ChatLoop>(run_, std::move(items), 1);
  for (; state->at < state->items().size(); ++state->at) {
    const Flow flow = one_turn(statement, state->items()[state->at], state);
    is_through = is_through || flow == Flow::on;
    if (flow == Flow::leave) break;
  }
  if (is_through) return Flow::on;
  return in_scope(scope_, [&] { return execute(statement.otherwise); });
}

ChatRenderer::Flow ChatRenderer::one_turn(const ChatStatement& statement, ChatValue item,
                                          ChatObject* loop) {
  return in_scope(scope_, [&] {
    assign(statement.target, item);
    if (loop_slot_ >= 0) scope_->set(loop_slot_, loop);
    return execute(statement.body);
  });
}

void ChatRenderer::assign(const ChatTarget& target, const ChatValue& value) {
  if (target.is_tuple) {
    const std::vector<ChatValue> items = python_items(value);
    if (items.size() != target.parts.size())
      throw ChatFailure{
          items.size() < target.parts.size()
              ? concat("not enough values to unpack (expected ", target.parts.size(), ", got ",
                       items.size(), ")")
              : concat("too many values to unpack (expected ", target.parts.size(), ")")};
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
  } else if (target.attribute.empty()) {
    scope_->set(target.slot, value);
  } else {
    place_ = target.at;
    auto* const space = dynamic_cast<ChatNamespace*>(name_value(target.slot).object());
    if (space == nullptr) throw ChatFailure{"cannot assign attribute on non-namespace object"};
    space->set(target.attribute, value);
  }
}

std::string ChatRenderer::captured(const ChatBody& body) {
  std::string text;
  struct Restore {
    std::string*& place;
    std::string* before;
    ~Restore() { place = before; }
  } const restore{out_, out_};
  out_ = &text;
  execute(body);
  run_.charge(std::ssize(text) / 64);
  return text;
}

void ChatRenderer::set_block(const ChatStatement& statement) {
  ChatValue text = in_scope(scope_, [&] { return captured(statement.body); });
  // Filters of the text stand in each other, the first one innermost.
  std::vector<const ChatExpression*> filters;
  for (const ChatExpression* e = statement.filter.get(); e != nullptr; e = e->parts[0].get())
    filters.push_back(e);
  for (; !filters.empty(); filters.pop_back()) text = filtered(*filters.back(), std::move(text));
  assign(statement.target, text);
}

void ChatRenderer::generation(const ChatStatement& statement) {
  const bool is_placed = out_ == &text_.text;
  const std::size_t begin = out_->size();
  in_scope(scope_, [&] { return execute(statement.body); });
  if (is_placed)
    text_.generated.push_back({begin, out_->size()});
  else
    text_.all_placed = false;
}

ChatValue ChatRenderer::call_macro(const ChatStatement& macro,
                                   const std::shared_ptr<ChatScope>& around,
                                   const ChatArguments& arguments) {
  const auto& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size())
    throw ChatFailure{
        concat("macro '", macro.text, "' takes not more than ", parameters.size(), " argument(s)")};
  for (const auto& [name, value] : arguments.named)
    if (std::ranges::find(parameters, name, &ChatParameter::name) == parameters.end())
      throw ChatFailure{concat("macro '", macro.text, "' takes no keyword argument '", name, "'")};
  if (calls_ == ChatRun::kCalls)
    throw ChatFailure{concat("macros called in each other more than ", ChatRun::kCalls, " times")};
  struct Count {
    int& calls;
    ~Count() { --calls; }
  } const count{calls_};
  ++calls_;
  return in_scope(around, [&]() -> ChatValue {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ChatParameter& parameter = parameters[i];
      const auto named = std::ranges::find(arguments.named, parameter.name,
                                           &std::pair<std::string, ChatValue>::first);
      if (i < arguments.positional.size())
        scope_->set(parameter.slot, arguments.positional[i]);
      else if (named != arguments.named.end())
        scope_->set(parameter.slot, named->second);
      else if (parameter.otherwise)
        scope_->set(parameter.slot, evaluate(*parameter.otherwise));
      else
        scope_->set(parameter.slot, ChatValue::undefined(concat("parameter '", parameter.name,
                                                                "' was not provided")));
    }
    return captured(macro.body);
  });
}

}  // namespace mt
