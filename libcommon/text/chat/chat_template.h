// ChatTemplate: turns messages into the text that a model was trained with, by a template of a
// subset of Jinja, as Hugging Face's apply_chat_template() does.  The subset is all that published
// templates use: `if`, `for`, `set`, `macro`, `generation`, `break`, `continue`, expressions, and
// the filters, tests and methods in chat_names.h.
// Constant once made: several threads may render at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_value.h"

namespace mt {

struct ChatSyntax;

struct ChatInput {
  ChatValue messages = {};   // a list of dicts; chat_messages() brings others' into the form wanted
  ChatValue tools = {};      // a list, or None
  ChatValue documents = {};  // a list, or None
  bool add_generation_prompt = false;
  // The text ends where the content of the last message does, so that a model goes on with it.
  bool continue_final_message = false;
  std::map<std::string, std::string> special_tokens =
      {};                 // "bos_token" and so on; others undefined
  ChatValue kwargs = {};  // a dict: more names that the template sees, such as enable_thinking
  std::function<std::time_t()> clock = {};  // what strftime_now() takes the time from; else now
  std::int64_t steps = 10'000'000;          // of evaluation, at most
};

struct ByteSpan {
  std::size_t begin = 0, end = 0;

  bool operator==(const ByteSpan&) const = default;
};

struct ChatText {
  std::string text;
  // What the template has in `generation` blocks, in the order in which these end.
  std::vector<ByteSpan> generated;
  bool all_placed = true;  // false: some stand in a macro or a set block, and are none of these
};

class ChatTemplate {
 public:
  // `name`: what errors call the template.  Throws Exit::bad_config, "NAME:LINE:COLUMN: what", for
  // a mistake and for a construct outside the subset, which is named.
  ChatTemplate(std::string_view source, std::string name, ChatDialect dialect = ChatDialect::chats);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // A message's content is given to the template as it is, as transformers does: a text, or a list
  // of parts.  Where the template shows nothing of texts, but of parts, a text is made one part, of
  // the type "text", as vLLM does; where it reads no parts, a content that has images is refused.
  // A template that raises whatever a user says, alone or behind a system message, is not known.
  // Throws Exit::bad_data: the message that the template raises by raise_exception() as it is, or
  // "NAME:LINE:COLUMN: what" for what cannot be done with these messages.
  ChatText render(const ChatInput& input) const;

  // The value of a template that is one "{{ expression }}", else the text that it makes.
  ChatValue value(const ChatInput& input) const;

  bool has_generation() const;  // blocks that tell what a model is to learn
  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }

 private:
  struct Shown {
    std::optional<bool> text, part;  // none: the template raises
  };
  Shown what_it_shows(bool behind_system) const;
  ChatValue in_its_form(const ChatValue& content) const;

  std::string name_, source_;
  std::unique_ptr<const ChatSyntax> syntax_;
  bool reads_texts_ = true, reads_parts_ = false;
};

// The value of an expression of constants, such as Python prints: "['a', \"it's\"]".  Throws
// Exit::bad_data, beginning with `place`, for anything else.
ChatValue chat_constant(std::string_view expression, std::string_view place);

// Messages as a template wants them: members that are null are left out, `arguments` of tool calls
// that are the JSON of an object become the object, roles have their usual names ("human" is
// "user"), a content of text parts alone becomes one text, with `images` images are parts of the
// type "image" among those of texts, whatever else is said of them, and reasoning_content is known
// by its other names.  Throws Exit::bad_data, "PLACE: message 2: what", for what is no message.
ChatValue chat_messages(const ChatValue& messages, std::string_view place, bool images = false);

// Whether a part of a content is an image: by its "type", "image" or "image_url", else, where there
// is none, by a member of such a name.
bool is_image_part(const ChatValue& part);

}  // namespace mt
