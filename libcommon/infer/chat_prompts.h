// ChatPrompts: prompts that are conversations, as the text that a model was trained with.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_sources.h"
#include "text/chat/chat_template.h"

namespace mt {

class CommandLine;
class Tokenizer;

struct ChatOptions {
  std::string chat_template;  // a name or a file; empty: the model's own
  std::string kwargs;         // a JSON object; empty: none
  void add_to(CommandLine& cl);
};

class ChatPrompts {
 public:
  // `files` and `place`: of the model's tokenizer, which must outlive this.  Exit::usage for kwargs
  // that are no JSON object.  Which template there is counts once a conversation comes.  With
  // reads_images messages may have images.
  ChatPrompts(const Tokenizer& tokenizer, std::vector<ChatFile> files, std::string place,
              const ChatOptions& options, bool reads_images = false);

  // The text that the model continues, for a line with `messages`, `tools`, `documents`,
  // `add_generation_prompt` (true unless it says otherwise), `continue_final_message` and
  // `chat_template_kwargs`, which go before the options'.  Exit::bad_data, beginning with `where`,
  // for messages of which none can be made; may be called from several threads.
  std::string text(const ChatValue& line, std::string_view where) const;

  // Throws what is wrong with a template that is asked for, or that there is: what text() would.
  void check() const;

  // The template of conversations with tools, or without; valid as long as this is.
  std::string_view source(bool tools) const { return chat(tools).source(); }

  bool reads_images() const { return reads_images_; }
  bool is_asked() const { return !asked_.empty() || !kwargs_.is_none(); }  // by an option

 private:
  const ChatTemplate& chat(bool tools) const;

  const Tokenizer& tokenizer_;
  std::vector<ChatFile> files_;
  std::string place_, asked_;
  ChatValue kwargs_;
  bool reads_images_;
  mutable std::mutex mutex_;
  mutable std::optional<ChatTemplate> chats_[2];  // without tools and with them
  mutable std::map<std::string, std::string> special_tokens_;
};

}  // namespace mt
