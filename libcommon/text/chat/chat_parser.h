// ChatParser: reads the expressions of a chat template, with the precedence that jinja2 3.1.6 gives
// its operators, and keeps the names that stand in them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/chat_lexer.h"
#include "text/chat/chat_syntax.h"

namespace mt {

class ChatParser {
 public:
  using Kind = ChatToken::Kind;
  using Made = std::unique_ptr<ChatExpression>;

  ChatParser(std::vector<ChatToken> tokens, std::vector<std::string>& names, ChatDialect dialect)
      : tokens_(std::move(tokens)), names_(names), dialect_(dialect) {}

  const ChatToken& token() const { return tokens_[at_]; }
  const ChatToken& next();  // the token, which is passed
  bool is_sign(std::string_view sign) const { return is(token(), Kind::sign, sign); }
  bool is_name(std::string_view name) const { return is(token(), Kind::name, name); }
  bool skip_sign(std::string_view sign);
  bool skip_name(std::string_view name);
  void expect_sign(std::string_view sign);
  std::string expect_name();  // any that is no keyword
  [[noreturn]] void refuse(std::size_t at, std::string what) const {
    throw ChatSyntaxError{at, std::move(what)};
  }
  [[noreturn]] void refuse_token() const;  // it cannot stand here

  int slot_of(const std::string& name);

  // `conditional`: "a if b" is one expression.
  Made expression(bool conditional = true);
  Made expressions(bool conditional = true);  // with commas between: a tuple
  ChatTarget target(bool with_attributes);    // several with commas between
  ChatTarget one_target(bool with_attributes);
  Made filters(Made subject);  // "|" and what follows

  // An unknown filter or test is refused where it is read, but in what an "if" chooses: as in
  // jinja2 it then fails where it is reached.  `soft`: whether an "if" chooses what follows.
  class Chosen {
   public:
    Chosen(ChatParser& parser, bool soft)
        : parser_(parser), before_(std::exchange(parser.soft_, soft)) {}
    Chosen(const Chosen&) = delete;
    ~Chosen() { parser_.soft_ = before_; }

   private:
    ChatParser& parser_;
    const bool before_;
  };
  void refuse_unknown_names() const {  // behind a tag
    if (!unknown_.empty()) refuse(unknown_.front().at, unknown_.front().what);
  }

  // Counts what is open around the place that is read.
  class Nested {
   public:
    explicit Nested(ChatParser& parser);
    ~Nested() { --parser_.nested_; }

   private:
    ChatParser& parser_;
  };

 private:
  static bool is(const ChatToken& token, Kind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  Made make(ChatExpression::Kind kind, std::size_t at, Made first = {}, Made second = {},
            Made third = {});
  void add(ChatExpression& to, Made part);
  Made logical_or();
  Made logical_and();
  Made logical_not();
  Made comparison();
  Made sum();
  Made concatenation();
  Made product();
  Made power();
  Made unary(bool with_filters);
  Made primary();
  Made postfix(Made subject);
  Made subscript(Made subject);
  Made slice(Made subject, std::size_t at, Made first);
  Made call(Made callee);
  Made filter(Made subject);
  Made test(Made subject);
  Made items(ChatExpression::Kind kind, std::string_view close);
  void note_unknown(std::string_view kind, const ChatExpression& of);
  void arguments(ChatExpression& to);  // from "(" to ")"

  std::vector<ChatToken> tokens_;
  std::vector<std::string>& names_;
  ChatDialect dialect_;
  std::size_t at_ = 0;
  int nested_ = 0;
  bool soft_ = false;
  std::vector<ChatSyntaxError> unknown_;  // names of the tag, but of what is chosen
};

}  // namespace mt
