// ChatSyntax: a chat template that is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/chat_names.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_value.h"

namespace mt {

struct ChatExpression;
using ChatExpressionPtr = std::unique_ptr<const ChatExpression>;

struct ChatExpression {
  enum class Kind : std::uint8_t {
    constant,     // value
    name,         // slot
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, key, ...
    attribute,    // parts[0].name
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]], null where left out
    call,         // parts[0](parts[1], ..., named)
    filter,       // parts[0] | filter(parts[1], ..., named)
    test,         // parts[0] is test(parts[1], ..., named)
    negate,       // -parts[0]
    plus,         // +parts[0]
    logical_not,  // parts[0]
    binary,       // parts[0] operators[0] parts[1]
    compare,      // parts[0] operators[0] parts[1] operators[1] ...
    concat,       // parts[0] ~ parts[1] ~ ...
    logical_and,  // parts[0], parts[1]
    logical_or,
    conditional,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind = Kind::constant;
  std::size_t at = 0;  // offset in the source
  int depth = 1;       // of the expressions in it, itself included
  ChatValue value = {};
  int slot = 0;
  std::string name = {};
  std::vector<ChatExpressionPtr> parts = {};
  std::vector<std::pair<std::string, ChatExpressionPtr>> named = {};
  std::vector<ChatOperator> operators = {};
  const ChatFilter* filter = nullptr;
  const ChatTest* test = nullptr;
};

// What `set` and `for` give values to: a name, an attribute of a namespace, or several of these.
struct ChatTarget {
  std::size_t at = 0;
  int slot = 0;
  std::string attribute = {};  // empty: the name itself
  bool is_tuple = false;
  std::vector<ChatTarget> parts = {};
};

struct ChatStatement;
using ChatBody = std::vector<ChatStatement>;

struct ChatBranch {
  ChatExpressionPtr condition = {};  // null: `else`
  ChatBody body;
};

struct ChatParameter {
  int slot = 0;
  std::string name = {};
  ChatExpressionPtr otherwise = {};  // its value where none is given; may be null
};

struct ChatStatement {
  enum class Kind : std::uint8_t {
    data,        // text
    output,      // expression
    branches,    // `if`
    loop,        // target, expression, filter, body, otherwise
    set,         // target, expression
    set_block,   // target, body, filter (of which the innermost subject is the text of the body)
    macro,       // slot, name, parameters, body
    generation,  // body
    leave,       // `break`
    next,        // `continue`
  };
  Kind kind = Kind::data;
  std::size_t at = 0;
  std::string text = {};
  ChatTarget target = {};
  ChatExpressionPtr expression = {}, filter = {};
  std::vector<ChatBranch> branches = {};
  std::vector<ChatParameter> parameters = {};
  ChatBody body = {}, otherwise = {};
};

struct ChatSyntax {
  ChatDialect dialect = ChatDialect::chats;
  std::string source = {};
  std::vector<std::string> names = {};  // by slot
  ChatBody body = {};
  bool has_generation = false;
};

// "LINE:COLUMN" of a byte; a column counts characters.
std::string chat_place(const std::string& source, std::size_t at);

// Throws ChatSyntaxError.
ChatSyntax parse_chat_template(std::string_view source, ChatDialect dialect);

}  // namespace mt
