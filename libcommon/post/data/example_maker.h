// ExampleMaker: makes the tokens of a training line and says which of them are learnt: of a
// conversation what the assistant says, as the model's chat template writes it; of a prompt and its
// completion the tokens behind those of the prompt; of a text all.  Of judged texts it makes some
// of a line.  A text that is no conversation ends with the tokenizer's eod().  For a model with an
// encoder it makes pairs: of a source the tokens that mt-generate has it read, and of a target
// those that it is to say, with the one that ends it.  Thread-safe.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "post/data/example.h"
#include "post/data/judged_lines.h"
#include "post/data/line_kinds.h"
#include "text/chat/chat_sources.h"
#include "text/chat/chat_training.h"

namespace mt {

class CommandLine;
class Error;
class ImageWords;
class Tokenizer;
struct ModelConfig;

struct ExampleOptions {
  std::string format = "auto";  // or "auto-per-line", or the name of a kind
  std::string chat_template;    // see ChatChoice
  std::string train_on = "all";
  bool mask_reasoning = false;
  LineOptions lines;
  Judged judged = Judged::no;     // then there are no formats
  bool splits_at_system = false;  // conversations, of which each such turn begins one
  // Whether the model has an encoder, which reads the source behind this prefix, and learns the
  // target.
  bool paired = false;
  std::string source_prefix = {};
  // The model, if it reads images: then the names of a line's come along, for place_images().
  const ModelConfig* llava = nullptr;
  // The images of a text that would have more tokens than this with them, less four, are cut into
  // fewer tiles (Megatron-LM core_v0.12.1, examples/multimodal/dataset_helpers.py); 0: of none.
  std::int64_t longest_with_images = 0;
  bool trains_after_image = true;  // nor is, unless so, the first token of the text behind one
  // The model, if it is a Retro that retrieves: each line brings the neighbours of its text.
  const ModelConfig* retro = nullptr;

  void add_to(CommandLine& cl);
  void add_chat_to(CommandLine& cl);   // of conversations alone
  void add_pairs_to(CommandLine& cl);  // of sources and targets
  // Exit::usage where one of the latter is given, of no use with this.
  void check_unpaired(const std::string& type_option) const;
};

class ExampleMaker {
 public:
  // `files`: those beside the tokenizer, in `folder`; a template is looked for once one is needed.
  ExampleMaker(const Tokenizer& tokenizer, const ExampleOptions& options,
               std::vector<ChatFile> files, std::string folder);

  // The kind of a file's lines by its first; nothing where each line tells its own.
  std::optional<LineKind> kind_of_file(std::string_view first_line, std::string_view place) const;
  // Throws Exit::bad_data, beginning with `place`, for a line that cannot be used, and
  // Exit::bad_config where that is the template's fault, or the tokenizer's.  `checks`: whether it
  // finds out if the prompt differs.
  std::vector<Example> make(std::string_view line, std::optional<LineKind> kind,
                            std::string_view place, bool checks = false) const;
  // Whether its examples have images, which stand in the places of their texts' once they were
  // found: place_images() puts as many tokens there as an image takes, of which none is learnt.
  // Throws Exit::bad_data, beginning with `place`, where there are more images or fewer.
  bool reads_images() const { return options_.llava != nullptr; }
  void place_images(Example& example, std::string_view place) const;
  // The text of a token, as it stands in texts.
  std::string text_of(std::int32_t id) const;

 private:
  std::vector<Example> of_conversations(const TrainingLine& line, std::string_view place,
                                        bool checks) const;
  Example of_line(const TrainingLine& line, std::string_view place, bool checks) const;
  Example of_conversation(const TrainingLine& given, std::string_view place, bool checks) const;
  Example of_text(const TrainingLine& line) const;
  // How many tiles each of an example's images becomes; it is told how many one may have.
  std::vector<std::int64_t> tiles_of(Example& example, const ImageWords& words) const;
  void add_neighbors(Example& example, const ChatValue& line, std::string_view place) const;
  Example of_pair(const TrainingLine& line, std::string_view place) const;
  ChatInput input_of(const TrainingLine& line) const;
  // ": message 2" where the template fails with this error once it has come to that message.
  std::string failing_message(ChatInput input, const Error& error, const ChatTemplate& chat) const;
  bool prompt_differs(ChatInput input, const Example& example, const ChatTemplate& chat) const;
  const ChatTemplate& chat(bool tools) const;
  void check_ends(const Example& example, const ChatTemplate& chat) const;
  bool ends_turns(std::int32_t id) const;

  const Tokenizer& tokenizer_;
  ExampleOptions options_;
  std::vector<ChatFile> files_;
  std::string folder_;
  std::map<std::string, std::string> special_tokens_;
  mutable std::mutex mutex_;
  mutable std::array<std::unique_ptr<const ChatTemplate>, 2> chats_;  // without tools; with
};

}  // namespace mt
