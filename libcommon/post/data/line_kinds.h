// Kinds of training lines, as people have them, and the one form that all of them become.
//   openai             {"messages":[{"role","content",…}…],"tools"?:[…]}
//   sharegpt           {"conversations" or "messages":[{"from","value"}…],"system"?}
//   prompt-completion  {"prompt","completion"}, both texts or both lists of messages
//   alpaca             {"instruction","input"?,"output","system"?,"history"?:[[user,assistant]…]}
//   source-target      {"source","target"}
//   translation        {"translation":{language:text…}}, of which two languages are asked for
//   text               {"text"}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_value.h"

namespace mt {

enum class LineKind : std::uint8_t {
  openai,
  sharegpt,
  prompt_completion,
  alpaca,
  source_target,
  translation,
  text
};

std::vector<std::string> line_kind_names();
std::optional<LineKind> line_kind_named(std::string_view name);
// By the keys of a line.  Throws Exit::bad_data, beginning with `place`, where they are of no kind,
// or of one that other verbs learn from.
LineKind line_kind_of(const ChatValue& line, std::string_view place);

// A conversation, or a text of which what follows `prompt` is learnt.
struct TrainingLine {
  ChatValue messages = {}, tools = {}, kwargs = {};  // None: a text
  std::string prompt = {}, completion = {};
  bool is_pair = false;  // of a source and a target, which only models with an encoder learn
  std::vector<std::string> images = {};  // files, of its member "images"
};

struct LineOptions {
  bool alpaca_template = false;   // Stanford's text around instruction and input, and no chat
  bool train_on_history = false;  // of Alpaca's lines
  std::string source_language = {}, target_language = {};  // of translations
  bool reads_images = false;                               // then messages may have images
};

// The files of a line's images, none where it has no such member.  Throws Exit::bad_data, beginning
// with `place`.
std::vector<std::string> images_of(const ChatValue& line, std::string_view place);
// The texts of its neighbours, likewise.
std::vector<std::string> neighbors_of(const ChatValue& line, std::string_view place);

// Messages in the form of chat_messages().  Throws Exit::bad_data, beginning with `place`.
TrainingLine read_line(const ChatValue& line, LineKind kind, const LineOptions& options,
                       std::string_view place);

}  // namespace mt
