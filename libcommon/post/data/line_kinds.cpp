#include "post/data/line_kinds.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/fits_float.h"
#include "base/hash.h"
#include "data/images/line_images.h"
#include "text/chat/chat_template.h"

namespace mt {
namespace {

struct Named {
  const char* name;
  LineKind kind;
};
constexpr auto kNames = std::to_array<Named>({{"openai", LineKind::openai},
                                              {"sharegpt", LineKind::sharegpt},
                                              {"prompt-completion", LineKind::prompt_completion},
                                              {"alpaca", LineKind::alpaca},
                                              {"source-target", LineKind::source_target},
                                              {"translation", LineKind::translation},
                                              {"text", LineKind::text},
                                              {"caption", LineKind::caption},
                                              {"question", LineKind::question}});

// The first of a list has these members.
bool first_has(const ChatValue& line, const char* list, std::initializer_list<const char*> keys) {
  const ChatValue* const value = line.find(list);
  if (value == nullptr || value->items() == nullptr || value->items()->empty()) return false;
  return std::ranges::all_of(
      keys, [&](const char* key) { return value->items()->front().find(key) != nullptr; });
}

const std::string& text_of(const ChatValue& line, const char* key, std::string_view place) {
  const ChatValue* const value = line.find(key);
  if (value == nullptr) fail(Exit::bad_data, place, ": no key ", key);
  if (value->text() == nullptr) fail(Exit::bad_data, place, ": ", key, ": expected a string");
  return *value->text();
}

std::string text_or_none(const ChatValue& line, const char* key, std::string_view place) {
  return line.has(key) ? text_of(line, key, place) : "";
}

ChatValue member_or_none(const ChatValue& line, const char* key) {
  const ChatValue* const value = line.find(key);
  return value == nullptr ? ChatValue() : *value;
}

ChatValue message(const char* role, std::string content, bool learnt = true) {
  ChatValue::Pairs pairs = {{"role", role}, {"content", std::move(content)}};
  if (!learnt) pairs.emplace_back("weight", 0);
  return ChatValue::dict(std::move(pairs));
}

const std::vector<ChatValue>& list_of(const ChatValue& line, const char* key,
                                      std::string_view place) {
  const ChatValue* const value = line.find(key);
  if (value == nullptr || value->items() == nullptr)
    fail(Exit::bad_data, place, ": ", key, ": expected a list of messages");
  return *value->items();
}

ChatValue sharegpt_messages(const ChatValue& line, std::string_view place) {
  ChatValue messages = ChatValue::list({});
  if (line.has("system")) messages.push_back(message("system", text_of(line, "system", place)));
  const char* const key = line.find("conversations") != nullptr ? "conversations" : "messages";
  std::int64_t number = 0;
  for (const ChatValue& turn : list_of(line, key, place)) {
    const std::string where = concat(place, ": message ", ++number);
    ChatValue one = turn;
    one.erase("from");
    one.erase("value");
    one.set("role", text_of(turn, "from", where));
    one.set("content", text_of(turn, "value", where));
    messages.push_back(std::move(one));
  }
  return messages;
}

// Messages of a prompt are not learnt, whoever says them.
ChatValue joined_messages(const ChatValue& line, std::string_view place) {
  ChatValue messages = ChatValue::list({});
  for (ChatValue one : list_of(line, "prompt", place)) {
    one.set("weight", 0);
    messages.push_back(std::move(one));
  }
  for (const ChatValue& one : list_of(line, "completion", place)) messages.push_back(one);
  return messages;
}

std::string alpaca_prompt(const std::string& instruction, const std::string& input) {
  constexpr const char* kTask = "Below is an instruction that describes a task";
  constexpr const char* kWrite =
      "Write a response that appropriately completes the request.\n\n### Instruction:\n";
  if (input.empty()) return concat(kTask, ". ", kWrite, instruction, "\n\n### Response:\n");
  return concat(kTask, ", paired with an input that provides further context. ", kWrite,
                instruction, "\n\n### Input:\n", input, "\n\n### Response:\n");
}

TrainingLine alpaca(const ChatValue& line, const LineOptions& options, std::string_view place) {
  const std::string instruction = text_of(line, "instruction", place);
  const std::string input = text_or_none(line, "input", place);
  const std::string output = text_of(line, "output", place);
  if (options.alpaca_template)
    return {.prompt = alpaca_prompt(instruction, input), .completion = output};
  ChatValue messages = ChatValue::list({});
  if (const std::string system = text_or_none(line, "system", place); !system.empty())
    messages.push_back(message("system", system));
  if (line.has("history"))
    for (const ChatValue& pair : list_of(line, "history", place)) {
      const std::vector<ChatValue>* const both = pair.items();
      if (both == nullptr || both->size() != 2 || (*both)[0].text() == nullptr ||
          (*both)[1].text() == nullptr)
        fail(Exit::bad_data, place, ": history: expected pairs of strings");
      messages.push_back(message("user", *(*both)[0].text()));
      messages.push_back(message("assistant", *(*both)[1].text(), options.train_on_history));
    }
  messages.push_back(message("user", input.empty() ? instruction : instruction + "\n" + input));
  messages.push_back(message("assistant", output));
  return {.messages = messages};
}

TrainingLine translation(const ChatValue& line, const LineOptions& options,
                         std::string_view place) {
  if (options.source_language.empty() || options.target_language.empty())
    fail(Exit::usage, options.source_language.empty() ? "--source-lang" : "--target-lang",
         ": required for the lines of ", place, ", which are translations");
  const ChatValue* const texts = line.find("translation");
  if (texts == nullptr || !texts->is_dict())
    fail(Exit::bad_data, place, ": translation: expected an object of a text a language");
  const std::string where = concat(place, ": translation");
  return {.prompt = text_of(*texts, options.source_language.c_str(), where),
          .completion = text_of(*texts, options.target_language.c_str(), where),
          .is_pair = true};
}

// A number from 0 to below 1 that is the text's.
double number_of(std::string_view text) {
  Hasher hasher;
  hasher.update(text);
  return static_cast<double>(hasher.digest().high >> 11) * 0x1p-53;
}

std::string_view without_blanks(std::string_view text) {
  constexpr const char* kBlanks = " \t\n\r\f\v";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

constexpr const char* kImage = "<image>";

TrainingLine caption(const ChatValue& line, const LineOptions& options, std::string_view place) {
  const std::string said(without_blanks(text_of(line, "caption", place)));
  std::string prompt = concat(kImage, "\n");
  if (const auto& all = options.caption_prompts; !all.empty())
    prompt +=
        all[static_cast<std::size_t>(number_of(said) * static_cast<double>(all.size()))] + "\n";
  return {.messages = ChatValue::list({message("user", prompt), message("assistant", said)})};
}

// The letter of a choice, and how it is asked for.
std::string choice(const ChatValue& line, std::string& question, std::string_view place) {
  const std::vector<ChatValue>* const choices = line.find("choices")->items();
  const ChatValue* const right = line.find("correct_choice_idx");
  const std::int64_t* const index = right == nullptr ? nullptr : right->integer();
  if (choices == nullptr || choices->size() > 26 ||
      !std::ranges::all_of(*choices, &ChatValue::is_text))
    fail(Exit::bad_data, place, ": choices: expected a list of at most 26 texts");
  if (index == nullptr || *index < 0 || *index >= std::ssize(*choices))
    fail(Exit::bad_data, place, ": correct_choice_idx: expected the number of a choice, from 0");
  question += "\n";
  char letter = 'A';
  for (const ChatValue& one : *choices) question += concat(letter++, ". ", *one.text(), "\n");
  question += "Answer with the option's letter from the given choices directly.";
  return std::string(1, static_cast<char>('A' + *index));
}

// One of several, as likely as its weight says.
std::string drawn_answer(const ChatValue& line, const std::string& question,
                         std::string_view place) {
  const ChatValue* const given = line.find("answers");
  if (given == nullptr) return text_of(line, "answer", place);
  if (given->text() != nullptr) return *given->text();
  const std::vector<ChatValue>* const answers = given->items();
  if (answers == nullptr || answers->empty() || !std::ranges::all_of(*answers, &ChatValue::is_text))
    fail(Exit::bad_data, place, ": answers: expected a list of texts");
  const ChatValue* const list = line.find("answer_weights");
  std::vector<double> weights(answers->size(), 1.0);
  if (list != nullptr && !list->is_none()) {
    if (list->items() == nullptr || list->items()->size() != weights.size())
      fail(Exit::bad_data, place, ": answer_weights: expected a number for each answer");
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const ChatValue& one = (*list->items())[i];
      weights[i] = one.real() != nullptr      ? *one.real()
                   : one.integer() != nullptr ? static_cast<double>(*one.integer())
                                              : -1;
      if (!(weights[i] >= 0) || !fits_float(weights[i]))
        fail(Exit::bad_data, place, ": answer_weights: expected numbers from 0");
    }
  }
  double total = 0;
  for (const double weight : weights) total += weight;
  double rest = number_of(question + chat_value_json(*given)) * total;
  std::size_t drawn = 0;
  while (drawn + 1 < weights.size() && rest >= weights[drawn]) rest -= weights[drawn++];
  return *(*answers)[drawn].text();
}

TrainingLine question(const ChatValue& line, std::string_view place) {
  std::string asked = text_of(line, line.has("context") ? "context" : "question", place);
  const std::string answer =
      line.has("choices") ? choice(line, asked, place) : drawn_answer(line, asked, place);
  if (asked.find(kImage) == asked.npos) asked = concat(kImage, "\n", asked);
  return {.messages = ChatValue::list({message("system", "Answer the questions."),
                                       message("user", asked), message("assistant", answer)})};
}

TrainingLine in_one_form(const ChatValue& line, LineKind kind, const LineOptions& options,
                         std::string_view place) {
  switch (kind) {
    case LineKind::openai:
      return {.messages = ChatValue::list(list_of(line, "messages", place))};
    case LineKind::sharegpt:
      return {.messages = sharegpt_messages(line, place)};
    case LineKind::prompt_completion:
      if (line.find("prompt") != nullptr && line.find("prompt")->is_list())
        return {.messages = joined_messages(line, place)};
      return {.prompt = text_of(line, "prompt", place),
              .completion = text_of(line, "completion", place)};
    case LineKind::alpaca:
      return alpaca(line, options, place);
    case LineKind::source_target:
      return {.prompt = text_of(line, "source", place),
              .completion = text_of(line, "target", place),
              .is_pair = true};
    case LineKind::translation:
      return translation(line, options, place);
    case LineKind::caption:
      return caption(line, options, place);
    case LineKind::question:
      return question(line, place);
    case LineKind::text:
      break;
  }
  return {.completion = text_of(line, "text", place)};
}

}  // namespace

std::vector<std::string> line_kind_names() {
  std::vector<std::string> names;
  for (const Named& one : kNames) names.emplace_back(one.name);
  return names;
}

std::optional<LineKind> line_kind_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &Named::name);
  return found == kNames.end() ? std::nullopt : std::optional(found->kind);
}

LineKind line_kind_of(const ChatValue& line, std::string_view place) {
  if (!line.is_dict()) fail(Exit::bad_data, place, ": expected a JSON object");
  const auto has = [&](const char* a, const char* b) {
    return line.find(a) != nullptr && line.find(b) != nullptr;
  };
  if (first_has(line, "messages", {"role"})) return LineKind::openai;
  for (const char* const list : {"conversations", "messages"})
    if (first_has(line, list, {"from", "value"})) return LineKind::sharegpt;
  if (has("chosen", "rejected"))
    fail(Exit::bad_data, place, ": is a preference (chosen, rejected), which dpo and reward learn");
  if (has("prompt", "completion")) return LineKind::prompt_completion;
  if (has("instruction", "output")) return LineKind::alpaca;
  if (has("source", "target")) return LineKind::source_target;
  if (line.find("translation") != nullptr) return LineKind::translation;
  if (line.find("text") != nullptr) return LineKind::text;
  if (line.find("caption") != nullptr) return LineKind::caption;
  if (has("context", "answers") || has("question", "answers") || has("question", "answer") ||
      has("context", "answer") || has("context", "choices") || has("question", "choices"))
    return LineKind::question;
  for (const char* const list : {"messages", "conversations"})
    if (line.find(list) != nullptr)
      fail(Exit::bad_data, place, ": ", list,
           ": expected a list of messages, each with a role and a content, or from and value");
  std::string keys;
  for (const auto& [key, value] : *line.pairs())
    if (key.text() != nullptr) keys += concat(keys.empty() ? "" : ", ", *key.text());
  fail(Exit::bad_data, place, ": of no known kind by its keys", keys.empty() ? "" : ": ", keys,
       "; expected messages, conversations, prompt and completion, instruction and output, source "
       "and target, translation, text, caption, or question and answers");
}

std::vector<std::string> neighbors_of(const ChatValue& line, std::string_view place) {
  std::vector<std::string> texts;
  const ChatValue* const list = line.find("neighbors");
  if (list == nullptr || list->is_none()) return texts;
  if (!list->is_list()) fail(Exit::bad_data, place, ": neighbors: expected a list of texts");
  for (const ChatValue& text : *list->items()) {
    if (text.text() == nullptr || text.text()->empty())
      fail(Exit::bad_data, place, ": neighbors: expected a list of texts");
    texts.push_back(*text.text());
  }
  return texts;
}

// The text in which another word stands where an image is.
static std::string with_word(std::string text, const std::string& word) {
  const std::string_view lines_own = kImage;
  for (std::size_t at = 0; (at = text.find(lines_own, at)) != text.npos; at += word.size())
    text.replace(at, lines_own.size(), word);
  return text;
}

static ChatValue with_word(const ChatValue& value, const std::string& word) {
  if (value.text() != nullptr) return with_word(*value.text(), word);
  if (value.items() != nullptr) {
    std::vector<ChatValue> items;
    for (const ChatValue& item : *value.items()) items.push_back(with_word(item, word));
    return ChatValue::list(std::move(items));
  }
  if (value.pairs() == nullptr) return value;
  ChatValue::Pairs pairs;
  for (const auto& [key, member] : *value.pairs()) pairs.emplace_back(key, with_word(member, word));
  return ChatValue::dict(std::move(pairs));
}

TrainingLine read_line(const ChatValue& line, LineKind kind, const LineOptions& options,
                       std::string_view place) {
  if (!line.is_dict()) fail(Exit::bad_data, place, ": expected a JSON object");
  if ((kind == LineKind::caption || kind == LineKind::question) && !options.reads_images)
    fail(Exit::bad_data, place, ": is of an image, of which only --model-type multimodal learns");
  TrainingLine read = in_one_form(line, kind, options, place);
  if (options.reads_images) {
    read.images = images_of(line, place);
    read.prompt = with_word(std::move(read.prompt), options.image_word);
    read.completion = with_word(std::move(read.completion), options.image_word);
  }
  if (read.messages.is_none()) return read;
  read.messages = chat_messages(read.messages, place, options.reads_images);
  if (options.reads_images) read.messages = with_word(read.messages, options.image_word);
  read.tools = member_or_none(line, "tools");
  read.kwargs = member_or_none(line, "chat_template_kwargs");
  return read;
}

}  // namespace mt
