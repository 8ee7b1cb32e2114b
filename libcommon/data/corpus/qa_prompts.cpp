#include "data/corpus/qa_prompts.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string_view>

#include "base/command.h"
#include "base/error.h"
#include "base/input/read_input.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/lines.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

constexpr std::int64_t kMost = 1 << 30;  // contexts, or tokens

using Names = std::initializer_list<std::string_view>;

constexpr std::string_view kSystem =
    "System: This is a chat between a user and an artificial intelligence assistant. The assistant "
    "gives helpful, detailed, and polite answers to the user's questions";
constexpr std::string_view kByContext =
    " based on the context. The assistant should also indicate when the answer cannot be found in "
    "the context";

bool is_one(const std::string& task, Names names) {
  return std::ranges::find(names, task) != names.end();
}

bool is_chat(const std::string& task) {
  return is_one(task, {"oasst", "quiet_cockatoo", "open_inst", "quiet-cockatoo_commercial"});
}

// What the user and the assistant say in front of the answer.
std::string retro_dialogue(const std::string& question, const std::string& task) {
  if (is_one(task, {"doc2dial", "quac", "qrecc", "sharc"})) return question;
  if (is_one(task, {"drop", "NarrativeQA", "QASC", "Quoref", "ROPES", "squad1.1", "squad2.0",
                    "newsqa", "nq", "tqa", "quac"}))
    return concat("User: ", question,
                  " Answer the above question with a short phrase.\n\nAssistant: The answer is");
  return concat("User: ", question, " Answer the above question with ",
                task == "BoolQ" ? "True or False" : "a long complete answer", ".\n\nAssistant:");
}

std::string gpt_dialogue(const std::string& question, const std::string& task) {
  if (is_one(task, {"convqa", "chatgptgen", "doc2dial", "quac", "qrecc", "sharc"})) return question;
  if (is_one(task, {"drop", "NarrativeQA", "QASC", "Quoref", "ROPES", "squad1.1", "squad2.0",
                    "newsqa", "nq", "BioASQ", "DuoRC_ParaphraseRC", "TextbookQA", "tqa"}))
    return concat("User: Answer the following question with a short span. ", question,
                  "\n\nAssistant: The answer is");
  const char* const asks =
      is_one(task, {"boolq", "multirc"}) ? "Answer the following question with True or False."
      : task == "race" ? "Answer the following question by selecting one of the provided options."
                       : "Please give a full and complete answer for the question.";
  return concat("User: ", asks, ' ', question, "\n\nAssistant:");
}

std::string short_dialogue(const std::string& question) {
  return concat("Question: ", question, question.ends_with('?') ? "" : "?",
                " Answer: The answer is");
}

struct Question {
  std::string text;
  std::optional<std::string> answer = {};
  std::vector<std::string> contexts = {};
};

class Reader {
 public:
  explicit Reader(const QaPromptOptions& options) : options_(options) {}

  // Nothing for a question that is left out.
  std::optional<Question> read(const JsonObject& object) const {
    Question question = {.text = std::string(object.text("question"))};
    if (object.text_or("qa_type", "") == "multi_choice_qa") {
      question.text += "\nChoose one based on the following options:";
      char letter = 'A';
      for (const simdjson::dom::element option : list(object, "multichoice_options"))
        question.text += concat(" (", letter++, ") ", text_of(option));
    }
    question.contexts = contexts(object);
    if (options_.inference) return question;
    question.answer = answer(object);
    if (!question.answer) return {};
    return question;
  }

 private:
  static simdjson::dom::array list(const JsonObject& object, std::string_view name) {
    simdjson::dom::array all;
    if (object.member(name).get(all) != simdjson::SUCCESS) object.refuse(name, ": expected a list");
    return all;
  }
  // As Python's str() has it, of a number, say.
  static std::string text_of(simdjson::dom::element element) {
    std::string_view text;
    if (element.get(text) == simdjson::SUCCESS) return std::string(text);
    bool truth = false;
    if (element.get(truth) == simdjson::SUCCESS) return truth ? "True" : "False";
    return simdjson::minify(element);
  }

  std::vector<std::string> contexts(const JsonObject& object) const {
    std::vector<std::string> all;
    if (options_.of_bert) {
      for (const simdjson::dom::element text : list(object, "bert_pretrain_corpus_neighbours"))
        all.push_back("source: " + text_of(text));
    } else if (options_.retrieved) {
      for (const JsonObject& one : object.objects("ctxs"))
        all.push_back(concat("title: ", one.text("title"), ", source: ", one.text("text")));
    } else if (object.has("sub-paragraphs") && object.member("sub-paragraphs").is_array()) {
      const simdjson::dom::array pair = list(object, "sub-paragraphs");
      if (pair.size() < 2) object.refuse("sub-paragraphs: expected a title and a text");
      all.push_back(concat("title: ", text_of(pair.at(0)), ", source: ", text_of(pair.at(1))));
    } else {
      std::string_view text = object.text_or("sub_paragraph", "");
      text = object.text_or("sub-paragraphs", text);
      all.push_back(concat("title: , source: ", text));
    }
    return all;
  }

  std::optional<std::string> answer(const JsonObject& object) const {
    if (options_.longform) {
      if (!object.has("longform_answer")) return {};
      return " " + text_of(object.member("longform_answer"));
    }
    const char* const name = object.has("answers") ? "answers" : "answer";
    simdjson::dom::element first = object.member(name);
    if (first.is_array()) {
      const simdjson::dom::array all = list(object, name);
      if (all.size() == 0) return {};
      first = all.at(0);
    }
    if (first.is_null()) return {};
    simdjson::dom::object with_text;
    if (first.get(with_text) != simdjson::SUCCESS) return " " + text_of(first);
    std::string_view text;
    if (with_text["text"].get(text) != simdjson::SUCCESS)
      object.refuse(name, ": expected a text, or an object with one");
    return concat(" ", strip_text(text, Side::both));
  }

  const QaPromptOptions& options_;
};

class Writer {
 public:
  Writer(const QaPromptOptions& options, std::ostream& out)
      : options_(options), tokenizer_(make_tokenizer(options.tokenizer)), out_(out) {}

  void write(const Question& question, const std::string& task) const {
    JsonWriter json;
    json.begin_object().member("prompt", prompt(question, task));
    if (question.answer) json.member("completion", *question.answer);
    if (options_.neighbors > 0) {
      json.key("neighbors").begin_array();
      const std::int64_t first = options_.reuse_top ? 0 : options_.contexts,
                         last = std::min(std::ssize(question.contexts), first + options_.neighbors);
      for (std::int64_t i = first; i < last; ++i)
        json.value(question.contexts[static_cast<std::size_t>(i)]);
      json.end_array();
    }
    json.end_object();
    out_ << json.text() << '\n';
  }

 private:
  std::int64_t tokens_of(std::string_view text) const { return std::ssize(ids_of(text)); }
  std::vector<std::int32_t> ids_of(std::string_view text) const {
    std::vector<std::int32_t> ids;
    tokenizer_->encode(text, ids);
    return ids;
  }

  std::string prompt(const Question& question, const std::string& task) const {
    const std::string system = options_.short_format
                                   ? std::string()
                                   : concat(kSystem, options_.retro ? "" : kByContext, ".\n\n");
    if (!options_.short_format && is_chat(task)) return system + question.text;
    const std::string dialogue = options_.short_format ? short_dialogue(question.text)
                                 : options_.retro      ? retro_dialogue(question.text, task)
                                                       : gpt_dialogue(question.text, task);
    if (options_.contexts == 0) return system + dialogue;
    std::string text;
    for (std::int64_t i = 0; i < std::min(options_.contexts, std::ssize(question.contexts)); ++i)
      text += (i > 0 ? "\n\n" : "") + question.contexts[static_cast<std::size_t>(i)];
    std::vector<std::int32_t> ids = ids_of(text + "\n\n");
    const std::int64_t answer =
        question.answer ? tokens_of(*question.answer) : options_.out_seq_length.value_or(256);
    const std::int64_t room = std::max<std::int64_t>(
        0, options_.seq_length - answer - tokens_of(dialogue) - tokens_of(system));
    ids.resize(std::min(ids.size(), static_cast<std::size_t>(room)));
    return system + tokenizer_->decode_text(ids) + dialogue;
  }

  const QaPromptOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::ostream& out_;
};

// The folder of NAME/NAME_QA_train.json.
std::string name_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  return folder.filename().string();
}

}  // namespace

void QaPromptOptions::add_to(CommandLine& cl) {
  cl.positionals("FILE", &inputs,
                 "questions, a JSON array or lines of JSON, as NAME/NAME_QA_train.json; - is stdin",
                 1);
  cl.section("Prompts");
  cl.option(
      "--task", &task, "NAME",
      "the data set's name, which the words of a prompt depend on; default: that of the file's "
      "folder");
  cl.flag("--retro", &retro, "the prompts of an InstructRetro, not of the GPT beside it");
  cl.flag("--short-format", &short_format, "Question: ... Answer: The answer is");
  cl.option("--ft_neighbours", &contexts, "N", "contexts in a prompt, at most", between(0, kMost));
  cl.flag("--use-retrieved-neighbours", &retrieved, "contexts are `ctxs`, not `sub-paragraphs`");
  cl.flag("--bert-retriever-neighbours", &of_bert,
          "contexts are `bert_pretrain_corpus_neighbours`");
  cl.option("--seq-length", &seq_length, "N",
            "tokens of a prompt and its answer, to which contexts are cut", between(1, kMost));
  cl.required("--seq-length");
  cl.section("Answers");
  cl.flag("--longform-answer", &longform, "answers are `longform_answer`");
  cl.flag("--inference-only", &inference, "prompts alone, to be answered");
  cl.option("--out-seq-length", &out_seq_length, "N",
            "tokens that are left for an answer, with --inference-only; default: 256",
            between(0, kMost));
  cl.section("Neighbours of a Retro");
  cl.option("--retro-num-neighbors", &neighbors, "N",
            "contexts behind those of the prompt that go to `neighbors`, at most",
            between(0, kMost));
  cl.flag("--reuse-top", &reuse_top, "or the first of all");
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
}

void write_qa_prompts(const QaPromptOptions& options, const RunContext& context,
                      std::ostream& out) {
  if (options.retrieved && options.of_bert)
    fail(Exit::usage,
         "--use-retrieved-neighbours: contexts are those of --bert-retriever-neighbours");
  if (options.retro && options.short_format)
    fail(Exit::usage, "--short-format: is of a prompt without --retro");
  if (options.reuse_top && options.neighbors == 0)
    fail(Exit::usage, "--reuse-top: has no effect without --retro-num-neighbors");
  if (options.longform && options.inference)
    fail(Exit::usage, "--longform-answer: has no effect with --inference-only");
  if (options.out_seq_length && !options.inference)
    fail(Exit::usage, "--out-seq-length: has no effect without --inference-only");
  if (options.task.empty() && std::ranges::find(options.inputs, "-") != options.inputs.end())
    fail(Exit::usage, "-: stdin is in no folder, expected --task");
  const Reader reader(options);
  const Writer writer(options, out);
  for (const std::string& path : options.inputs) {
    const std::string task = options.task.empty() ? name_of(path) : options.task;
    const std::string text = read_input(path, context.checkpoint);
    const auto take = [&](simdjson::dom::element element, const std::string& place) {
      context.checkpoint();
      if (const auto question = reader.read(JsonObject(element, place)))
        writer.write(*question, task);
    };
    simdjson::dom::parser parser;
    const auto parsed = [&](std::string_view json, const std::string& place) {
      simdjson::dom::element element;
      if (const auto error = parse_json(parser, json).get(element)) fail_json(json, place, error);
      return element;
    };
    std::int64_t number = 0;
    if (text.find_first_not_of(" \t\r\n") == text.find('[')) {
      simdjson::dom::array all;
      if (parsed(text, path).get(all) == simdjson::SUCCESS)
        for (const simdjson::dom::element element : all)
          take(element, concat(path, ": question ", number++));
      continue;
    }
    for (const std::string_view line : lines_of(text)) {
      const std::string place = concat(path, ":", ++number);
      take(parsed(line, place), place);
    }
  }
}

}  // namespace mt
