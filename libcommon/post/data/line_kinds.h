// Kinds of training lines, as people have them, and the one form that all of them become.
//   openai             {"messages":[{"role","content",…}…],"tools"?:[…]}
//   sharegpt           {"conversations" or "messages":[{"from","value"}…],"system"?}
//   prompt-completion  {"prompt","completion"}, both texts or both lists of messages
//   alpaca             {"instruction","input"?,"output","system"?,"history"?:[[user,assistant]…]}
//   source-target      {"source","target"}
//   translation        {"translation":{language:text…}}, of which two languages are asked for
//   text               {"text"}
//   caption            {"caption","image"}: of an image its caption is learnt
//   question           {"question" or "context","answers" or "answer","answer_weights"?,"image"},
//   or
//                      {"context","choices","correct_choice_idx","image"}: of an image a question
//                      and an answer, the letter of a choice or one that the line's hash draws
// The latter two become the conversations that Megatron-LM's examples/multimodal makes of them, and
// may have "images", a list, as the others have.
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
  text,
  caption,
  question
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
  std::vector<std::string> images = {};  // files, of its member "images", or "image"
};

struct LineOptions {
  bool alpaca_template = false;   // Stanford's text around instruction and input, and no chat
  bool train_on_history = false;  // of Alpaca's lines
  std::string source_language = {}, target_language = {};  // of translations
  bool reads_images = false;                               // then messages may have images
  std::string image_word =
      "<image>";  // what stands in a text's places of images, which lines call so
  // What stands behind the image of a caption, one of these, that the line's hash draws; none:
  // nothing.
  std::vector<std::string> caption_prompts = {};
};

// The texts of a line's neighbours, none where it has no such member.  Throws Exit::bad_data,
// beginning with `place`.
std::vector<std::string> neighbors_of(const ChatValue& line, std::string_view place);

// Messages in the form of chat_messages().  Throws Exit::bad_data, beginning with `place`.
TrainingLine read_line(const ChatValue& line, LineKind kind, const LineOptions& options,
                       std::string_view place);

}  // namespace mt
