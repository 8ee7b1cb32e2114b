#include "text/chat/chat_parser.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace mt {

using Expression = ChatExpression::Kind;
using Made = ChatParser::Made;

static constexpr int kNested = 64;    // brackets, signs and statements in each other
static constexpr int kDeepest = 250;  // expressions in each other, as a + b + c is two
static constexpr std::array<std::string_view, 7> kKeywords = {"and", "or", "not", "in",
                                                              "is",  "if", "else"};

ChatParser::Nested::Nested(ChatParser& parser) : parser_(parser) {
  if (++parser.nested_ > kNested)
    parser.refuse(parser.token().at, concat("nested deeper than ", kNested));
}

const ChatToken& ChatParser::next() {
  const ChatToken& passed = tokens_[at_];
  if (passed.kind != Kind::end) ++at_;
  return passed;
}

bool ChatParser::skip_sign(std::string_view sign) {
  if (!is_sign(sign)) return false;
  next();
  return true;
}

bool ChatParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

void ChatParser::refuse_token() const {
  const ChatToken& found = token();
  refuse(found.at, found.kind == Kind::end      ? "unexpected end of the template"
                   : found.kind == Kind::text   ? "unexpected string"
                   : found.kind == Kind::number ? "unexpected number"
                   : !found.text.empty()        ? concat("unexpected '", found.text, "'")
                                                : "unexpected end of the tag");
}

void ChatParser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) {
    if (token().kind == Kind::end || token().kind == Kind::block_end ||
        token().kind == Kind::output_end)
      refuse(token().at, concat("expected '", sign, "'"));
    refuse_token();
  }
}

std::string ChatParser::expect_name() {
  if (token().kind != Kind::name || std::ranges::find(kKeywords, token().text) != kKeywords.end())
    refuse_token();
  return next().text;
}

int ChatParser::slot_of(const std::string& name) {
  const auto found = std::ranges::find(names_, name);
  const auto slot = static_cast<int>(found - names_.begin());
  if (found == names_.end()) names_.push_back(name);
  return slot;
}

void ChatParser::add(ChatExpression& to, Made part) {
  if (part) to.depth = std::max(to.depth, part->depth + 1);
  if (to.depth > kDeepest) refuse(to.at, concat("an expression deeper than ", kDeepest));
  to.parts.push_back(std::move(part));
}

Made ChatParser::make(Expression kind, std::size_t at, Made first, Made second, Made third) {
  auto made = std::make_unique<ChatExpression>();
  made->kind = kind;
  made->at = at;
  for (Made* const part : {&first, &second, &third})
    if (*part) add(*made, std::move(*part));
  return made;
}

Made ChatParser::expression(bool conditional) {
  const Nested nested(*this);
  const std::size_t unknown = unknown_.size();
  Made value = logical_or();
  while (conditional && is_name("if")) {
    const std::size_t at = next().at;
    Made condition = logical_or(), otherwise;
    if (skip_name("else")) otherwise = expression();
    unknown_.resize(unknown);
    Made made = make(Expression::conditional, at, std::move(value), std::move(condition));
    add(*made, std::move(otherwise));
    value = std::move(made);
  }
  return value;
}

Made ChatParser::expressions(bool conditional) {
  const std::size_t at = token().at;
  const auto ends = [&] {
    return token().kind == Kind::block_end || token().kind == Kind::output_end || is_sign(")");
  };
  if (ends()) refuse_token();
  Made first = expression(conditional);
  if (!is_sign(",")) return first;
  Made all = make(Expression::tuple, at, std::move(first));
  while (skip_sign(",") && !ends()) add(*all, expression(conditional));
  return all;
}

Made ChatParser::logical_or() {
  Made left = logical_and();
  while (is_name("or")) {
    const std::size_t at = next().at;
    left = make(Expression::logical_or, at, std::move(left), logical_and());
  }
  return left;
}

Made ChatParser::logical_and() {
  Made left = logical_not();
  while (is_name("and")) {
    const std::size_t at = next().at;
    left = make(Expression::logical_and, at, std::move(left), logical_not());
  }
  return left;
}

Made ChatParser::logical_not() {
  if (!is_name("not")) return comparison();
  const Nested nested(*this);
  const std::size_t at = next().at;
  return make(Expression::logical_not, at, logical_not());
}

Made ChatParser::comparison() {
  static constexpr std::array kSigns = {
      std::pair("==", ChatOperator::equal),      std::pair("!=", ChatOperator::not_equal),
      std::pair("<=", ChatOperator::less_equal), std::pair(">=", ChatOperator::greater_equal),
      std::pair("<", ChatOperator::less),        std::pair(">", ChatOperator::greater)};
  Made left = sum(), all;
  for (;;) {
    const auto sign = std::ranges::find_if(kSigns, [&](const auto& s) { return is_sign(s.first); });
    const bool not_in = is_name("not") && is(tokens_[at_ + 1], Kind::name, "in");
    if (sign == kSigns.end() && !is_name("in") && !not_in)
      return all ? std::move(all) : std::move(left);
    const std::size_t at = next().at;
    if (not_in) next();
    if (!all) all = make(Expression::compare, at, std::move(left));
    all->operators.push_back(sign != kSigns.end() ? sign->second
                             : not_in             ? ChatOperator::not_in
                                                  : ChatOperator::in);
    add(*all, sum());
  }
}

Made ChatParser::sum() {
  Made left = concatenation();
  while (is_sign("+") || is_sign("-")) {
    const ChatToken& sign = next();
    left = make(Expression::binary, sign.at, std::move(left), concatenation());
    left->operators = {sign.text == "+" ? ChatOperator::add : ChatOperator::subtract};
  }
  return left;
}

Made ChatParser::concatenation() {
  Made first = product();
  if (!is_sign("~")) return first;
  Made all = make(Expression::concat, token().at, std::move(first));
  while (skip_sign("~")) add(*all, product());
  return all;
}

Made ChatParser::product() {
  Made left = power();
  while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
    const ChatToken& sign = next();
    left = make(Expression::binary, sign.at, std::move(left), power());
    left->operators = {sign.text == "*"    ? ChatOperator::multiply
                       : sign.text == "/"  ? ChatOperator::divide
                       : sign.text == "//" ? ChatOperator::floor_divide
                                           : ChatOperator::modulo};
  }
  return left;
}

Made ChatParser::power() {
  Made left = unary(true);
  while (is_sign("**")) {
    const std::size_t at = next().at;
    left = make(Expression::binary, at, std::move(left), unary(true));
    left->operators = {ChatOperator::power};
  }
  return left;
}

Made ChatParser::unary(bool with_filters) {
  Made value;
  if (is_sign("-") || is_sign("+")) {
    const Nested nested(*this);
    const ChatToken& sign = next();
    value = make(sign.text == "-" ? Expression::negate : Expression::plus, sign.at, unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters(std::move(value)) : std::move(value);
}

Made ChatParser::items(Expression kind, std::string_view close) {
  Made all = make(kind, next().at);
  while (!is_sign(close)) {
    if (!all->parts.empty()) expect_sign(",");
    if (is_sign(close)) break;
    add(*all, expression());
    if (kind != Expression::dict) continue;
    expect_sign(":");
    add(*all, expression());
  }
  expect_sign(close);
  return all;
}

Made ChatParser::primary() {
  const std::size_t at = token().at;
  if (is_sign("[")) return items(Expression::list, "]");
  if (is_sign("{")) return items(Expression::dict, "}");
  if (skip_sign("(")) {
    if (skip_sign(")")) return make(Expression::tuple, at);
    Made inside = expressions();
    expect_sign(")");
    return inside;
  }
  Made value = make(Expression::constant, at);
  if (token().kind == Kind::number) {
    value->value = next().number;
  } else if (token().kind == Kind::text) {
    std::string text;
    while (token().kind == Kind::text) text += next().text;
    value->value = ChatValue(std::move(text));
  } else {
    const std::string name = expect_name();
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      value->value = ChatValue(name == "true" || name == "True");
    } else if (name != "none" && name != "None") {
      value->kind = Expression::name;
      value->slot = slot_of(name);
    }
  }
  return value;
}

Made ChatParser::postfix(Made subject) {
  for (;;) {
    if (is_sign(".") || is_sign("["))
      subject = subscript(std::move(subject));
    else if (is_sign("("))
      subject = call(std::move(subject));
    else
      return subject;
  }
}

Made ChatParser::subscript(Made subject) {
  const ChatToken& sign = next();
  if (sign.text == ".") {
    if (token().kind == Kind::number && token().number.integer() != nullptr) {
      Made number = make(Expression::constant, token().at);
      number->value = next().number;
      return make(Expression::item, sign.at, std::move(subject), std::move(number));
    }
    if (token().kind != Kind::name) refuse_token();
    Made made = make(Expression::attribute, sign.at, std::move(subject));
    made->name = next().text;
    return made;
  }
  Made first;
  if (!is_sign(":")) first = expression();
  if (is_sign(":")) return slice(std::move(subject), sign.at, std::move(first));
  if (is_sign(",")) {
    Made all = make(Expression::tuple, sign.at, std::move(first));
    while (skip_sign(",")) add(*all, expression());
    first = std::move(all);
  }
  expect_sign("]");
  return make(Expression::item, sign.at, std::move(subject), std::move(first));
}

Made ChatParser::slice(Made subject, std::size_t at, Made first) {
  expect_sign(":");
  Made last, step;
  if (!is_sign(":") && !is_sign("]")) last = expression();
  if (skip_sign(":") && !is_sign("]")) step = expression();
  expect_sign("]");
  Made made = make(Expression::slice, at, std::move(subject));
  add(*made, std::move(first));
  add(*made, std::move(last));
  add(*made, std::move(step));
  return made;
}

void ChatParser::arguments(ChatExpression& to) {
  expect_sign("(");
  for (bool first = true; !is_sign(")"); first = false) {
    if (!first) expect_sign(",");
    if (is_sign(")")) break;
    if (is_sign("*") || is_sign("**"))
      refuse(token().at, concat("a call with ", token().text, "arguments is not supported"));
    if (token().kind == Kind::name && is(tokens_[at_ + 1], Kind::sign, "=")) {
      const std::string name = next().text;
      next();
      Made value = expression();
      to.depth = std::max(to.depth, value->depth + 1);
      to.named.emplace_back(name, std::move(value));
    } else {
      if (!to.named.empty()) refuse_token();
      add(to, expression());
    }
  }
  expect_sign(")");
}

Made ChatParser::call(Made callee) {
  if (callee->kind == Expression::attribute && !is_chat_method(callee->name))
    refuse(callee->at, concat("the method \"", callee->name, "()\" is not supported"));
  if (callee->kind == Expression::name)
    for (const std::string_view name : {"lipsum", "cycler", "joiner"})
      if (names_[static_cast<std::size_t>(callee->slot)] == name)
        refuse(callee->at, concat("the function \"", name, "\" is not supported"));
  Made made = make(Expression::call, token().at, std::move(callee));
  arguments(*made);
  return made;
}

Made ChatParser::filters(Made subject) {
  for (;;) {
    if (is_sign("|"))
      subject = filter(std::move(subject));
    else if (is_name("is"))
      subject = test(std::move(subject));
    else if (is_sign("("))
      subject = call(std::move(subject));
    else
      return subject;
  }
}

void ChatParser::note_unknown(std::string_view kind, const ChatExpression& of) {
  if (!soft_)
    unknown_.push_back({of.at, concat("the ", kind, " \"", of.name, "\" is not supported")});
}

Made ChatParser::filter(Made subject) {
  next();
  const std::size_t at = token().at;
  Made made = make(Expression::filter, at);
  made->name = expect_name();
  add(*made, std::move(subject));
  made->filter = find_chat_filter(made->name, dialect_);
  if (made->filter == nullptr) note_unknown("filter", *made);
  if (is_sign("(")) arguments(*made);
  return made;
}

Made ChatParser::test(Made subject) {
  next();
  const bool negated = skip_name("not");
  const std::size_t at = token().at;
  if (token().kind != Kind::name) refuse_token();
  Made made = make(Expression::test, at, std::move(subject));
  made->name = next().text;
  made->test = find_chat_test(made->name);
  if (made->test == nullptr) note_unknown("test", *made);
  const bool is_keyword =
      token().kind == Kind::name && std::ranges::find(kKeywords, token().text) != kKeywords.end();
  if (is_name("is")) refuse(token().at, "tests cannot be chained with \"is\"");
  if (is_sign("("))
    arguments(*made);
  else if ((token().kind == Kind::name && !is_keyword) || token().kind == Kind::text ||
           token().kind == Kind::number || is_sign("[") || is_sign("{"))
    add(*made, postfix(primary()));
  return negated ? make(Expression::logical_not, at, std::move(made)) : std::move(made);
}

ChatTarget ChatParser::one_target(bool with_attributes) {
  const Nested nested(*this);
  ChatTarget target{.at = token().at};
  if (skip_sign("(")) {
    target = this->target(with_attributes);
    expect_sign(")");
    return target;
  }
  const std::string name = expect_name();
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
    if (name == constant) refuse(target.at, concat("'", name, "' cannot be set"));
  target.slot = slot_of(name);
  if (with_attributes && skip_sign(".")) target.attribute = expect_name();
  return target;
}

ChatTarget ChatParser::target(bool with_attributes) {
  ChatTarget first = one_target(with_attributes);
  if (!is_sign(",")) return first;
  ChatTarget all{.at = first.at, .is_tuple = true};
  all.parts.push_back(std::move(first));
  while (skip_sign(",") && !is_name("in") && !is_sign("=") && !is_sign(")"))
    all.parts.push_back(one_target(with_attributes));
  return all;
}

}  // namespace mt
