// The tokens of a chat template's source, as jinja2 3.1.6 makes them: of chats with trim_blocks and
// lstrip_blocks, by which a newline behind a block goes, and blanks before one that begins a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_value.h"

namespace mt {

struct ChatToken {
  enum class Kind : std::uint8_t {
    data,
    output_begin,
    output_end,
    block_begin,
    block_end,
    name,
    text,
    number,
    sign,
    end,
  };
  Kind kind = Kind::end;
  std::string text = {};  // of data, a name, a sign; what a string stands for
  ChatValue number = {};
  std::size_t at = 0;  // offset of the first byte
};

// What is wrong with a source, and at which of its bytes.
struct ChatSyntaxError {
  std::size_t at;
  std::string what;
};

// The source with "\n" as its only line end and, of chats, without the last of these.
std::string chat_plain_source(std::string_view source, ChatDialect dialect);

// Throws ChatSyntaxError.
std::vector<ChatToken> chat_tokens(const std::string& plain_source, ChatDialect dialect);

}  // namespace mt
