#include "post/data/example_maker.h"

#include <algorithm>
#include <utility>

#include "base/command.h"
#include "base/json_object.h"
#include "base/json_place.h"
#include "data/images/line_images.h"
#include "model/config/model_config.h"
#include "model/image_tiles.h"
#include "model/neighbor_input.h"
#include "text/hf/hf_tokenizer.h"
#include "text/put_in_front.h"

namespace mt {

void ExampleOptions::add_to(CommandLine& cl) {
  std::vector<std::string> formats = {"auto", "auto-per-line"};
  for (std::string& name : line_kind_names()) formats.push_back(std::move(name));
  cl.option("--format", &format, "KIND",
            "what the lines are; auto: what the first line of each file is by its keys; "
            "auto-per-line: each line by its own",
            one_of(formats));
  add_chat_to(cl);
  cl.option("--train-on", &train_on, "WHAT",
            "of a conversation: all that the assistant says, its last turn, or all-text",
            one_of({"all", "last", "all-text"}));
  cl.flag("--alpaca-template", &lines.alpaca_template,
          "Alpaca's lines become the text that Stanford made of them, not a conversation");
  cl.flag("--train-on-history", &lines.train_on_history,
          "earlier answers of Alpaca's lines are learnt, too");
}

void ExampleOptions::add_chat_to(CommandLine& cl) {
  cl.option("--chat-template", &chat_template, "NAME|FILE|-",
            "how conversations are written: a template of the model's folder, of a family (chatml, "
            "llama3), or in a file; default: that of the model's folder, else of its family");
  cl.flag("--mask-reasoning", &mask_reasoning,
          "what stands from <think> to </think> is not learnt");
}

void ExampleOptions::add_pairs_to(CommandLine& cl) {
  cl.option("--source-prefix", &source_prefix, "TEXT",
            "t5: stands before each source, \"translate English to German: \" say");
  cl.option("--source-lang", &lines.source_language, "NAME",
            "t5: the language of translations that is read, by its key");
  cl.option("--target-lang", &lines.target_language, "NAME", "t5: the one that is learnt");
}

void ExampleOptions::check_unpaired(const std::string& type_option) const {
  for (const auto& [value, name] : {std::pair(&source_prefix, "--source-prefix"),
                                    {&lines.source_language, "--source-lang"},
                                    {&lines.target_language, "--target-lang"}})
    if (!value->empty()) fail(Exit::usage, name, ": has no effect with ", type_option);
}

ExampleMaker::ExampleMaker(const Tokenizer& tokenizer, const ExampleOptions& options,
                           std::vector<ChatFile> files, std::string folder)
    : tokenizer_(tokenizer),
      options_(options),
      files_(std::move(files)),
      folder_(std::move(folder)),
      special_tokens_(chat_special_tokens(files_, folder_, &tokenizer)) {
  options_.lines.reads_images = reads_images();
  if (!reads_images()) return;
  if (const std::int64_t token = options_.llava->image_token_index; token < tokenizer.vocab_size())
    if (std::string word = text_of(static_cast<std::int32_t>(token)); !word.empty())
      options_.lines.image_word = std::move(word);
}

std::optional<LineKind> ExampleMaker::kind_of_file(std::string_view first_line,
                                                   std::string_view place) const {
  if (options_.format == "auto-per-line" || options_.judged != Judged::no) return {};
  if (const auto named = line_kind_named(options_.format)) return named;
  check_begins_object(first_line, place);
  return line_kind_of(chat_value_of_json(first_line, place), place);
}

// Both are learnt from where the first of them is.
static void begin_alike(Example& a, Example& b) {
  const auto first_of = [](const Example& example) {
    return std::ranges::find(example.learnt, true) - example.learnt.begin();
  };
  const std::ptrdiff_t first = std::min(first_of(a), first_of(b));
  for (Example* const one : {&a, &b})
    std::fill(one->learnt.begin() + first, one->learnt.end(), true);
}

std::vector<Example> ExampleMaker::make(std::string_view line, std::optional<LineKind> kind,
                                        std::string_view place, bool checks) const {
  check_begins_object(line, place);
  const ChatValue value = chat_value_of_json(line, place);
  if (options_.llava == nullptr && !images_of(value, place).empty())
    fail(Exit::bad_data, place, ": images: the model reads none");
  if (options_.judged == Judged::no) {
    if (!kind) kind = line_kind_of(value, place);
    const TrainingLine read = read_line(value, *kind, options_.lines, place);
    if (options_.splits_at_system && !read.messages.is_none())
      return of_conversations(read, place, checks);
    Example example = of_line(read, place, checks);
    if (options_.retro != nullptr) add_neighbors(example, value, place);
    return {std::move(example)};
  }
  std::vector<Example> texts;
  bool are_plain = true;
  for (const JudgedText& judged : read_judged_line(value, options_.judged, place)) {
    are_plain &= judged.text.messages.is_none();
    texts.push_back(of_line(judged.text, place, checks));
    texts.back().value = judged.value;
  }
  if (are_plain && options_.judged == Judged::pairs) begin_alike(texts[0], texts[1]);
  return texts;
}

std::vector<Example> ExampleMaker::of_conversations(const TrainingLine& line,
                                                    std::string_view place, bool checks) const {
  std::vector<std::vector<ChatValue>> conversations;
  for (const ChatValue& message : *line.messages.items()) {
    const ChatValue* const role = message.find("role");
    const bool begins = role != nullptr && role->text() != nullptr && *role->text() == "system";
    if (conversations.empty() || begins) conversations.emplace_back();
    conversations.back().push_back(message);
  }
  std::vector<Example> examples;
  for (std::vector<ChatValue>& messages : conversations) {
    TrainingLine one = line;
    one.messages = ChatValue::list(std::move(messages));
    examples.push_back(of_line(one, place, checks));
  }
  return examples;
}

Example ExampleMaker::of_line(const TrainingLine& line, std::string_view place, bool checks) const {
  if (options_.paired) return of_pair(line, place);
  if (line.is_pair)
    fail(Exit::bad_data, place,
         ": is a pair of a source and a target, which --model-type t5 learns");
  Example example = line.messages.is_none() ? of_text(line) : of_conversation(line, place, checks);
  for (const std::string& image : line.images) example.images.push_back({.path = image});
  return example;
}

// Where tags stand around images, what is behind one is no text yet.
void ExampleMaker::place_images(Example& example, std::string_view place) const {
  const ModelConfig& c = *options_.llava;
  const ImageWords words(c, tokenizer_);
  const std::int64_t places = std::ranges::count(example.ids, words.token());
  try {
    check_places(tokenizer_, words.token(), places, std::ssize(example.images));
  } catch (const Error& error) {
    fail(error.code(), place, ": ", error.what());
  }
  example.tiles = tiles_of(example, words);
  const std::vector<std::int32_t> ids = std::exchange(example.ids, {});
  const std::vector<bool> learnt = std::exchange(example.learnt, {});
  auto of_image = example.tiles.begin();
  bool behind_image = false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool is_image = ids[i] == words.token();
    if (is_image)
      words.add(example.ids, *of_image++);
    else
      example.ids.push_back(ids[i]);
    example.learnt.resize(example.ids.size(), false);
    if (!is_image)
      example.learnt.back() = learnt[i] && (!behind_image || options_.trains_after_image);
    behind_image = is_image && c.image_tag_type == "none";
  }
}

// The numbers of tiles that are tried, one after another, until a text has room.
constexpr std::int64_t kFewerTiles[] = {12, 8, 6, 4, 2, 1};

std::vector<std::int64_t> ExampleMaker::tiles_of(Example& example, const ImageWords& words) const {
  ModelConfig c = *options_.llava;
  std::vector<std::int64_t> tiles;
  const auto cut = [&] {
    tiles.clear();
    for (const FilePart& image : example.images) tiles.push_back(tiles_in(c, image));
    std::int64_t tokens = example.size() - std::ssize(tiles);
    for (const std::int64_t of_image : tiles) tokens += words.count(of_image);
    return tokens;
  };
  const std::int64_t most = options_.longest_with_images;
  const auto* fewer = std::begin(kFewerTiles);
  while (cut() > most - 4 && most > 0 && c.cuts_images()) {
    fewer = std::find_if(fewer, std::end(kFewerTiles),
                         [&](std::int64_t tried) { return tried < c.max_num_tiles; });
    c.max_num_tiles = *fewer;
  }
  example.most_tiles = c.max_num_tiles;
  return tiles;
}

void ExampleMaker::add_neighbors(Example& example, const ChatValue& line,
                                 std::string_view place) const {
  try {
    example.neighbors = neighbor_input(*options_.retro, tokenizer_, tokenizer_.vocab_size(),
                                       neighbors_of(line, place));
  } catch (const Error& error) {
    const std::string what = error.what();
    fail(error.code(), what.starts_with(place) ? what : concat(place, ": ", what));
  }
}

const ChatTemplate& ExampleMaker::chat(bool tools) const {
  const std::lock_guard lock(mutex_);
  auto& chosen = chats_[tools && options_.chat_template.empty() ? 1 : 0];
  if (!chosen)
    chosen =
        std::make_unique<const ChatTemplate>(choose_chat_template({.asked = options_.chat_template,
                                                                   .files = files_,
                                                                   .place = folder_,
                                                                   .tokenizer = &tokenizer_,
                                                                   .tools = tools}));
  return *chosen;
}

ChatInput ExampleMaker::input_of(const TrainingLine& line) const {
  return {.messages = line.messages,
          .tools = line.tools,
          .special_tokens = special_tokens_,
          .kwargs = line.kwargs};
}

Example ExampleMaker::of_conversation(const TrainingLine& line, std::string_view place,
                                      bool checks) const {
  const ChatTemplate& chat = this->chat(!line.tools.is_none());
  TrainedText text;
  try {
    text = trained_text(chat, input_of(line),
                        {.train_on = options_.train_on == "last"       ? TrainOn::last
                                     : options_.train_on == "all-text" ? TrainOn::all_text
                                                                       : TrainOn::all,
                         .mask_reasoning = options_.mask_reasoning});
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    fail(Exit::bad_data, place, failing_message(input_of(line), error, chat), ": ", error.what());
  }
  Example example;
  encode_alone(tokenizer_, text.text, example.ids);
  const auto starts = token_starts(tokenizer_, text.text, example.ids);
  example.learnt = tokens_in(starts, text.text.size(), text.spans);
  if (chat.has_generation() && options_.train_on != "all-text") check_ends(example, chat);
  if (checks) example.prompt_differs = prompt_differs(input_of(line), example, chat);
  return example;
}

std::string ExampleMaker::failing_message(ChatInput input, const Error& error,
                                          const ChatTemplate& chat) const {
  const std::vector<ChatValue> all = *input.messages.items();
  std::vector<ChatValue> first;
  for (const ChatValue& message : all) {
    first.push_back(message);
    input.messages = ChatValue::list(first);
    try {
      chat.render(input);
    } catch (const Error& of_first) {
      if (std::string_view(of_first.what()) == error.what())
        return concat(": message ", first.size());
    }
  }
  return "";
}

// The prompt is what stands before the last message, which is to be the assistant's.
bool ExampleMaker::prompt_differs(ChatInput input, const Example& example,
                                  const ChatTemplate& chat) const {
  std::vector<ChatValue> before = *input.messages.items();
  if (before.size() < 2) return false;
  before.pop_back();
  input.messages = ChatValue::list(std::move(before));
  input.add_generation_prompt = true;
  try {
    std::vector<std::int32_t> prompt;
    encode_alone(tokenizer_, chat.render(input).text, prompt);
    return !std::ranges::equal(
        prompt, std::span(example.ids).first(std::min(prompt.size(), example.ids.size())));
  } catch (const Error&) {  // there is no such prompt
    return false;
  }
}

Example ExampleMaker::of_text(const TrainingLine& line) const {
  Example example;
  std::vector<std::int32_t> prompt;
  tokenizer_.encode(line.prompt + line.completion, example.ids);
  if (example.ids.empty() || example.ids.back() != tokenizer_.eod())
    example.ids.push_back(tokenizer_.eod());
  if (!line.prompt.empty()) {
    prompt = put_in_front(tokenizer_);
    encode_alone(tokenizer_, line.prompt, prompt);
    prompt.resize(std::min(prompt.size(), example.ids.size()));
  }
  const auto apart = std::ranges::mismatch(prompt, example.ids).in1;
  example.prompt_differs = apart != prompt.end();
  // A judged completion begins where its tokens are no longer the prompt's, as TRL has it.
  if (options_.judged != Judged::no) prompt.erase(apart, prompt.end());
  example.learnt.assign(example.ids.size(), true);
  std::fill_n(example.learnt.begin(), prompt.size(), false);
  return example;
}

Example ExampleMaker::of_pair(const TrainingLine& line, std::string_view place) const {
  if (!line.messages.is_none() || (line.prompt.empty() && !line.is_pair))
    fail(Exit::bad_data, place, ": is a ", line.messages.is_none() ? "text" : "conversation",
         ", of which a T5 learns nothing; expected a source and a target, or a prompt and a "
         "completion");
  const SpecialTokens special = tokenizer_.special_ids();
  const std::int32_t end = special.eos >= 0 ? special.eos : tokenizer_.eod();
  Example example;
  tokenizer_.encode(options_.source_prefix + line.prompt, example.ids);
  example.source = example.size();
  if (line.prompt.empty() || example.source == 0)
    fail(Exit::bad_data, place, ": the source is empty");
  tokenizer_.encode(line.completion, example.ids);
  if (example.size() == example.source || example.ids.back() != end) example.ids.push_back(end);
  example.learnt.assign(example.ids.size(), true);
  std::fill_n(example.learnt.begin(), example.source, false);
  return example;
}

bool ExampleMaker::ends_turns(std::int32_t id) const {
  const auto* const folder = dynamic_cast<const HfTokenizer*>(&tokenizer_);
  return id == tokenizer_.eod() || (folder != nullptr && folder->is_added(id));
}

// A model whose turns end with a token that is not learnt never stops.
void ExampleMaker::check_ends(const Example& example, const ChatTemplate& chat) const {
  for (std::size_t i = 0; i + 1 < example.ids.size(); ++i)
    if (example.learnt[i] && !example.learnt[i + 1] && !ends_turns(example.ids[i]) &&
        ends_turns(example.ids[i + 1]))
      fail(Exit::bad_config, chat.name(), ": ", json_quoted(text_of(example.ids[i + 1])),
           " ends what the assistant says, but is outside of the generation block and would never "
           "be learnt");
}

std::string ExampleMaker::text_of(std::int32_t id) const {
  return tokenizer_.decode_text(std::span(&id, 1));
}

}  // namespace mt
