// EvalTask: what a model is asked of each document of a task, and how its answers are judged: a
// task file in lm-evaluation-harness's words, read.
//
// Texts are templates (text/chat/chat_template.h) that see a document's fields by name, or the name
// of a field alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/python_regex.h"

namespace mt {

enum class EvalKind : std::uint8_t { loglikelihood, multiple_choice, rolling, generate };

// EvalField: a value of a task file that depends on the document.
class EvalField {
 public:
  EvalField() = default;
  EvalField(ChatValue written, std::string name);  // name: "TASK: doc_to_text", for errors

  bool is_given() const { return !written_.is_none(); }
  const ChatValue& written() const { return written_; }
  const std::string& name() const { return name_; }
  // A template's value, a field's, or what is written.
  ChatValue of(const ChatValue& doc) const;
  std::string text_of(const ChatValue& doc) const;  // as a template prints it

 private:
  ChatValue written_ = {};
  std::string name_ = {};
  std::optional<ChatTemplate> template_ = {};
};

struct EvalMetric {
  std::string name;
  std::string aggregation;
  bool higher_is_better = true;
  // Of exact_match.
  std::vector<PythonRegex> ignored = {};
  bool ignore_case = false, ignore_punctuation = false, ignore_numbers = false;
};

struct FilterStep {
  enum class Kind : std::uint8_t {
    regex,
    regex_pos,
    take_first,
    take_first_k,
    majority_vote,
    remove_whitespace,
    lowercase,
    uppercase
  };
  Kind kind = Kind::take_first;
  std::vector<PythonRegex> regex = {};  // one, of the kinds that have it
  std::int64_t select = 0;              // group_select, k
  std::string fallback = "[invalid]";
};
struct EvalFilter {
  std::string name;
  std::vector<FilterStep> steps;
};

struct EvalGeneration {
  std::vector<std::string> until = {};
  std::int64_t max_gen_toks = 256, top_k = 0;
  double temperature = 0, top_p = 0;  // temperature 0: greedy
};

struct EvalTask {
  std::string name = {}, alias = {}, version = {};
  ChatValue written = {};  // the file, read
  std::vector<std::string> tags = {};
  EvalKind kind = EvalKind::multiple_choice;
  EvalField text = {}, target = {}, choice = {}, description = {}, gen_prefix = {};
  std::vector<EvalField> images = {};  // files that the text has places for, in their order
  // What is put into a document that is read, by name; and the text whose words and bytes a
  // perplexity counts, where it is not the target.
  std::vector<std::pair<std::string, EvalField>> process_docs = {};
  EvalField counted = {};
  // Labels of the choices, 1 of the true ones: acc is the probability of these together.
  EvalField true_choices = {};
  std::string target_delimiter = " ", fewshot_delimiter = "\n\n";
  bool first_n = false;       // the sampler of examples
  bool draws_itself = false;  // examples and documents may be the same: a document is no example
  std::vector<ChatValue> examples = {};  // that the file has itself
  std::int64_t num_fewshot = 0, repeats = 1;
  std::vector<EvalMetric> metrics = {};
  std::vector<EvalFilter> filters = {};
  EvalGeneration generation = {};

  bool is_about_texts() const { return kind == EvalKind::generate; }
};

// Exit::bad_config, "PATH: ...", for a key or a value that is not supported.
EvalTask read_eval_task(std::string_view yaml, const std::string& path);

}  // namespace mt
