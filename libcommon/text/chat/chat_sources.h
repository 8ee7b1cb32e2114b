// Where a model's chat template comes from: the files beside its tokenizer, a file that is named,
// or the templates of well-known families that the program has itself.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_template.h"

namespace mt {

class Tokenizer;

// A file beside a tokenizer: its name in the folder, and how to read it.
struct ChatFile {
  std::string name;
  std::function<std::string()> read;
};
std::vector<ChatFile> chat_files_in(const std::string& folder);

// Every template that these files hold, by name; "default" is the first of them.  A
// chat_template.jinja goes before additional_chat_templates/NAME.jinja, those before the key
// chat_template of tokenizer_config.json, which is one template or a list of named ones, and that
// before the one of chat_template.json.  `place` names the folder in errors.
std::map<std::string, std::string> chat_templates_in(std::span<const ChatFile> files,
                                                     const std::string& place);

// The texts of a tokenizer's special tokens by what a template calls them: "bos_token".  What the
// files do not say of the first and the last, the tokenizer does, where one is given.
std::map<std::string, std::string> chat_special_tokens(std::span<const ChatFile> files,
                                                       const std::string& place,
                                                       const Tokenizer* tokenizer = nullptr);

// Templates of families by name, "chatml" or "llama3".
std::vector<std::string_view> builtin_chat_names();
std::optional<std::string> builtin_chat(std::string_view name);
// The family that a tokenizer's tokens give away; nothing: none does.
std::optional<std::string_view> builtin_chat_of(const Tokenizer& tokenizer);

struct ChatChoice {
  std::string asked =
      {};  // --chat-template: a name in the folder, a family's, a file, "-" for stdin
  std::span<const ChatFile> files = {};
  std::string place = {};                // the folder, for errors
  const Tokenizer* tokenizer = nullptr;  // by which a family is known where nothing else is said
  bool tools = false;  // tools are given: of several templates "tool_use" is taken, if there is one
};
// Throws Exit::bad_config where there is no template, Exit::usage for one that is asked for and is
// neither a known name nor a file.
ChatTemplate choose_chat_template(const ChatChoice& choice);

}  // namespace mt
