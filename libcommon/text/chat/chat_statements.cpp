// Reads the statements of a chat template.
#include <algorithm>

#include "base/error.h"
#include "text/chat/chat_parser.h"
#include "text/chat/chat_strings.h"
#include "text/chat/chat_syntax.h"

namespace mt {
namespace {

using Kind = ChatToken::Kind;
using Statement = ChatStatement::Kind;

class StatementParser {
 public:
  explicit StatementParser(ChatSyntax& syntax)
      : syntax_(syntax),
        parser_(chat_tokens(syntax.source, syntax.dialect), syntax.names, syntax.dialect) {}

  void parse() {
    syntax_.body = body({});
    if (parser_.token().kind != Kind::end) refuse_unknown();
  }

 private:
  // Statements up to one of the words that end them, which is left to be read: after "{%".
  ChatBody body(std::initializer_list<std::string_view> ends) {
    const ChatParser::Nested nested(parser_);
    ChatBody all;
    for (;;) {
      const ChatToken& token = parser_.token();
      if (token.kind == Kind::end) {
        if (ends.size() > 0)
          parser_.refuse(token.at, concat("expected {% ", *std::prev(ends.end()), " %}"));
        return all;
      }
      const ChatToken& first = parser_.next();
      if (first.kind == Kind::data) {
        all.push_back({.kind = Statement::data, .at = first.at, .text = first.text});
      } else if (first.kind == Kind::output_begin) {
        all.push_back({.kind = Statement::output,
                       .at = first.at,
                       .text = {},
                       .target = {},
                       .expression = parser_.expressions()});
        end_tag(Kind::output_end);
      } else {
        const auto is_end = [&](std::string_view end) { return parser_.is_name(end); };
        if (std::ranges::any_of(ends, is_end)) return all;
        all.push_back(statement());
        end_tag(Kind::block_end);
      }
    }
  }

  void end_tag(Kind kind) {
    if (parser_.token().kind != kind) parser_.refuse_token();
    parser_.refuse_unknown_names();
    parser_.next();
  }

  // A body behind the tag that is read now, up to the end that is named, which is passed.
  ChatBody body_to(std::string_view end) {
    end_tag(Kind::block_end);
    ChatBody all = body({end});
    parser_.next();
    return all;
  }

  [[noreturn]] void refuse_unknown() {
    const ChatToken& token = parser_.token();
    if (token.kind != Kind::name) parser_.refuse_token();
    static constexpr std::string_view kOthers[] = {
        "include", "import", "from",       "block", "extends", "call", "filter",
        "with",    "do",     "autoescape", "trans", "debug",   "raw"};
    if (std::ranges::find(kOthers, token.text) != std::end(kOthers))
      parser_.refuse(token.at, concat("the statement \"", token.text, "\" is not supported"));
    parser_.refuse(token.at, concat("unknown statement \"", token.text, "\""));
  }

  ChatStatement statement() {
    ChatStatement made{.at = parser_.token().at};
    if (parser_.skip_name("if"))
      branches(made);
    else if (parser_.skip_name("for"))
      loop(made);
    else if (parser_.skip_name("set"))
      set(made);
    else if (parser_.skip_name("macro"))
      macro(made);
    else if (parser_.skip_name("generation"))
      generation(made);
    else if (parser_.is_name("break") || parser_.is_name("continue"))
      leave(made);
    else
      refuse_unknown();
    return made;
  }

  void branches(ChatStatement& made) {
    const ChatParser::Chosen chosen(parser_, true);
    made.kind = Statement::branches;
    for (bool more = true; more;) {
      ChatBranch branch;
      branch.condition = parser_.expressions(false);
      end_tag(Kind::block_end);
      branch.body = body({"elif", "else", "endif"});
      made.branches.push_back(std::move(branch));
      more = parser_.skip_name("elif");
    }
    if (parser_.skip_name("else")) {
      end_tag(Kind::block_end);
      made.branches.push_back({.condition = {}, .body = body({"endif"})});
    }
    parser_.next();
  }

  void loop(ChatStatement& made) {
    made.kind = Statement::loop;
    made.target = parser_.target(false);
    if (!parser_.skip_name("in")) parser_.refuse_token();
    made.expression = parser_.expressions(false);
    const ChatParser::Chosen whole(parser_, false);
    if (parser_.skip_name("if")) made.filter = parser_.expression();
    if (parser_.is_name("recursive"))
      parser_.refuse(parser_.token().at, "the loop \"recursive\" is not supported");
    end_tag(Kind::block_end);
    ++loops_;
    made.body = body({"else", "endfor"});
    --loops_;
    if (parser_.skip_name("else")) {
      end_tag(Kind::block_end);
      made.otherwise = body({"endfor"});
    }
    parser_.next();
  }

  // Within what runs by itself, where the loop around it cannot be left.
  ChatBody body_apart(std::string_view end) {
    const ChatParser::Chosen whole(parser_, false);
    const int loops = std::exchange(loops_, 0);
    ChatBody all = body_to(end);
    loops_ = loops;
    return all;
  }

  void set(ChatStatement& made) {
    made.target = parser_.target(true);
    made.kind = Statement::set;
    if (parser_.skip_sign("=")) {
      made.expression = parser_.expressions();
      return;
    }
    made.kind = Statement::set_block;
    const ChatParser::Chosen whole(parser_, false);
    if (parser_.is_sign("|")) made.filter = parser_.filters({});
    made.body = body_to("endset");
  }

  void macro(ChatStatement& made) {
    made.kind = Statement::macro;
    made.text = parser_.token().text;
    made.target = parser_.one_target(false);
    parser_.expect_sign("(");
    while (!parser_.is_sign(")")) {
      if (!made.parameters.empty()) parser_.expect_sign(",");
      ChatParameter parameter;
      parameter.name = parser_.token().text;
      parameter.slot = parser_.one_target(false).slot;
      if (parser_.skip_sign("="))
        parameter.otherwise = parser_.expression();
      else if (!made.parameters.empty() && made.parameters.back().otherwise)
        parser_.refuse(parser_.token().at, "a parameter without default behind one that has it");
      made.parameters.push_back(std::move(parameter));
    }
    parser_.expect_sign(")");
    made.body = body_apart("endmacro");
  }

  void generation(ChatStatement& made) {
    made.kind = Statement::generation;
    syntax_.has_generation = true;
    made.body = body_apart("endgeneration");
  }

  void leave(ChatStatement& made) {
    if (loops_ == 0)
      parser_.refuse(made.at, concat("\"", parser_.token().text, "\" outside of a loop"));
    made.kind = parser_.next().text == "break" ? Statement::leave : Statement::next;
  }

  ChatSyntax& syntax_;
  ChatParser parser_;
  int loops_ = 0;
};

}  // namespace

std::string chat_place(const std::string& source, std::size_t at) {
  const std::string_view before = std::string_view(source).substr(0, at);
  const std::size_t line = before.rfind('\n') + 1;  // 0: there is none
  return concat(std::ranges::count(before, '\n') + 1, ":", count_points(before.substr(line)) + 1);
}

ChatSyntax parse_chat_template(std::string_view source, ChatDialect dialect) {
  constexpr std::size_t kLongest = 1 << 20;
  if (source.size() > kLongest)
    throw ChatSyntaxError{0, concat("a template of ", source.size(), " bytes, at most ", kLongest)};
  ChatSyntax syntax{.dialect = dialect, .source = chat_plain_source(source, dialect)};
  StatementParser(syntax).parse();
  return syntax;
}

}  // namespace mt
