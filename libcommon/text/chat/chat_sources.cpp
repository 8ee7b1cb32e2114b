#include "text/chat/chat_sources.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/input/byte_order_mark.h"
#include "text/file_names.h"
#include "text/hf/hf_config.h"
#include "text/hf/hf_tokenizer.h"
#include "text/tokenizer.h"

namespace mt {

namespace fs = std::filesystem;

static constexpr std::string_view kEnd = ".jinja", kProcessor = "chat_template.json";

std::vector<ChatFile> chat_files_in(const std::string& folder) {
  std::vector<ChatFile> files;
  const auto add = [&](const std::string& name) {
    const std::string path = concat(folder, "/", name);
    std::error_code none;
    if (fs::is_regular_file(path, none))
      files.push_back({name, [path] { return read_regular_file(path); }});
  };
  add(kChatTemplate);
  add(std::string(kProcessor));
  for (const std::string& name : hf_config_files([](const std::string&) { return true; }))
    add(name);
  std::error_code error;
  std::vector<std::string> more;
  const std::string further = concat(folder, "/", kMoreChatTemplates);
  const fs::directory_iterator end;
  for (fs::directory_iterator at(further, error); at != end; at.increment(error))
    more.push_back(concat(kMoreChatTemplates, at->path().filename().string()));
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    errno = error.value(), fail_errno(further, "cannot be listed", Exit::io_error);
  std::ranges::sort(more);
  for (const std::string& name : more)
    if (name.ends_with(kEnd)) add(name);
  return files;
}

static const ChatFile* find(std::span<const ChatFile> files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &ChatFile::name);
  return found == files.end() ? nullptr : &*found;
}

// The member chat_template of a file of JSON: a template, or a list of named ones.
static void add_member(std::map<std::string, std::string>& templates, const ChatFile& file,
                       const std::string& place) {
  const std::string where = place.empty() ? file.name : concat(place, "/", file.name);
  const ChatValue config = chat_value_of_json(file.read(), where);
  const ChatValue* const member = config.find("chat_template");
  if (member == nullptr || member->is_none()) return;
  if (const std::string* const text = member->text()) {
    templates.try_emplace("default", *text);
    return;
  }
  if (member->is_list() || member->is_dict()) {
    const auto add = [&](const ChatValue* name, const ChatValue* text) {
      if (name == nullptr || text == nullptr || !name->is_text() || !text->is_text())
        fail(Exit::bad_data, where, ": \"chat_template\": expected a name and a template");
      templates.try_emplace(*name->text(), *text->text());
    };
    if (member->is_list())
      for (const ChatValue& named : *member->items())
        add(named.find("name"), named.find("template"));
    else
      for (const auto& [name, text] : *member->pairs()) add(&name, &text);
    return;
  }
  fail(Exit::bad_data, where, ": \"chat_template\": expected a string or a list");
}

std::map<std::string, std::string> chat_templates_in(std::span<const ChatFile> files,
                                                     const std::string& place) {
  std::map<std::string, std::string> templates;
  if (const ChatFile* const file = find(files, kChatTemplate)) templates["default"] = file->read();
  for (const ChatFile& file : files) {
    const std::string_view name = file.name;
    if (name.starts_with(kMoreChatTemplates) && name.ends_with(kEnd))
      templates.try_emplace(
          std::string(name.substr(kMoreChatTemplates.size(),
                                  name.size() - kMoreChatTemplates.size() - kEnd.size())),
          file.read());
  }
  for (const std::string_view name : {std::string_view(kTokenizerConfig), kProcessor})
    if (const ChatFile* const file = find(files, name)) add_member(templates, *file, place);
  return templates;
}

std::map<std::string, std::string> chat_special_tokens(std::span<const ChatFile> files,
                                                       const std::string& place,
                                                       const Tokenizer* tokenizer) {
  std::map<std::string, std::string> tokens;
  std::vector<HfConfigFile> configs;
  for (const std::string& name :
       hf_config_files([&](const std::string& name) { return find(files, name) != nullptr; }))
    configs.push_back({concat(place, "/", name), find(files, name)->read()});
  if (!configs.empty()) {
    HfConfig config = read_hf_config(configs, HfTokenizer::kVersion);
    fill_hf_roles(config, HfTokenizer::kVersion);
    for (const std::string_view role : kHfRoles)
      if (std::string text = hf_role(config, role); !text.empty())
        tokens[std::string(role)] = std::move(text);
  }
  if (const ChatFile* const file = find(files, kTokenizerConfig)) {
    const ChatValue config = chat_value_of_json(file->read(), concat(place, "/", file->name));
    const ChatValue* const more = config.find("extra_special_tokens");
    if (more != nullptr && more->is_dict())
      for (const auto& [name, token] : *more->pairs()) {
        const ChatValue* const content = token.is_dict() ? token.find("content") : &token;
        if (content != nullptr && content->is_text()) tokens[*name.text()] = *content->text();
      }
  }
  if (tokenizer != nullptr)
    for (const auto& [name, id] :
         {std::pair("bos_token", tokenizer->bos()), {"eos_token", tokenizer->eod()}})
      if (id >= 0) tokens.try_emplace(name, tokenizer->decode_text(std::span(&id, 1)));
  return tokens;
}

static std::string family_names() {
  std::string names;
  for (const std::string_view name : builtin_chat_names())
    names += concat(names.empty() ? "" : ", ", name);
  return names;
}

static ChatTemplate asked_template(const ChatChoice& choice,
                                   const std::map<std::string, std::string>& own) {
  const std::string& asked = choice.asked;
  if (const auto found = own.find(asked); found != own.end())
    return {found->second, concat(choice.place, ": chat template ", asked)};
  if (const auto builtin = builtin_chat(asked)) return {*builtin, concat("chat template ", asked)};
  if (asked != "-" && !fs::exists(asked))
    fail(Exit::usage, "--chat-template: no template of the model, no family and no file: ", asked,
         "; families: ", family_names());
  const std::string name = asked == "-" ? "stdin" : asked;
  std::string text = asked == "-" ? read_file("-") : read_regular_file(asked);
  text.erase(0, byte_order_mark(text, name));
  return {std::move(text), name};
}

ChatTemplate choose_chat_template(const ChatChoice& choice) {
  const std::map<std::string, std::string> own = chat_templates_in(choice.files, choice.place);
  if (!choice.asked.empty()) return asked_template(choice, own);
  for (const char* const name : {"tool_use", "default"})
    if (const auto found = own.find(name);
        found != own.end() && (choice.tools || found->first == "default"))
      return {found->second, concat(choice.place, ": chat template")};
  if (choice.tokenizer != nullptr)
    if (const auto family = builtin_chat_of(*choice.tokenizer))
      return {*builtin_chat(*family), concat("chat template ", *family)};
  fail(Exit::bad_config, choice.place,
       ": has no chat template; --chat-template names a file, or a family: ", family_names());
}

}  // namespace mt
