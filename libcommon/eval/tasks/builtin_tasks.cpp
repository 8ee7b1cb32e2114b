#include "eval/tasks/builtin_tasks.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace mt {
namespace {

struct Builtin {
  std::string_view name, yaml;
};

// Sorted by their names.
constexpr auto kTasks = std::to_array<Builtin>({
    {"arc_challenge", R"~(task: arc_challenge
dataset_path: allenai/ai2_arc
dataset_name: ARC-Challenge
training_split: train
validation_split: validation
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 1.0
)~"},
    {"arc_easy", R"~(task: arc_easy
dataset_path: allenai/ai2_arc
dataset_name: ARC-Easy
training_split: train
validation_split: validation
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 1.0
)~"},
    {"boolq", R"~(task: boolq
dataset_path: aps/super_glue
dataset_name: boolq
training_split: train
validation_split: validation
output_type: multiple_choice
doc_to_text: "{{passage}}\nQuestion: {{question}}?\nAnswer:"
doc_to_target: label
doc_to_choice: ["no", "yes"]
metric_list:
  - metric: acc
metadata:
  version: 2.0
)~"},
    {"commonsense_qa", R"~(task: commonsense_qa
dataset_path: tau/commonsense_qa
training_split: train
validation_split: validation
output_type: multiple_choice
doc_to_text: "Question: {{ question.strip() }}\nA. {{choices['text'][0]}}\nB. {{choices['text'][1]}}\nC. {{choices['text'][2]}}\nD. {{choices['text'][3]}}\nE. {{choices['text'][4]}}\nAnswer:"
doc_to_target: answerKey
doc_to_choice: ["A", "B", "C", "D", "E"]
metric_list:
  - metric: acc
)~"},
    {"copa", R"~(task: copa
dataset_path: aps/super_glue
dataset_name: copa
training_split: train
validation_split: validation
output_type: multiple_choice
doc_to_text: "{{premise.strip()[:-1]}} {{ {'cause': 'because', 'effect': 'therefore'}[question] }}"
doc_to_target: "{% set right = choice1 if label == 0 else choice2 %}{{ ' ' + right[0].lower() + right[1:] }}"
doc_to_choice: "{{ [' ' + choice1[0].lower() + choice1[1:], ' ' + choice2[0].lower() + choice2[1:]] }}"
metric_list:
  - metric: acc
metadata:
  version: 1.0
)~"},
    {"gsm8k", R"~(task: gsm8k
dataset_path: openai/gsm8k
dataset_name: main
training_split: train
fewshot_split: train
test_split: test
output_type: generate_until
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{answer}}"
metric_list:
  - metric: exact_match
    ignore_case: true
    ignore_punctuation: false
    regexes_to_ignore:
      - ","
      - "\\$"
      - "(?s).*#### "
      - "\\.$"
generation_kwargs:
  until: ["Question:", "</s>", "<|im_end|>"]
  do_sample: false
  temperature: 0.0
num_fewshot: 5
filter_list:
  - name: strict-match
    filter:
      - function: regex
        regex_pattern: "#### (\\-?[0-9\\.\\,]+)"
      - function: take_first
  - name: flexible-extract
    filter:
      - function: regex
        group_select: -1
        regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"
      - function: take_first
metadata:
  version: 3.0
)~"},
    {"hellaswag", R"~(task: hellaswag
dataset_path: Rowan/hellaswag
training_split: train
validation_split: validation
output_type: multiple_choice
process_docs:
  query: >-
    {{ (activity_label + ': ' + ctx_a + ' ' + ctx_b.capitalize()).strip().replace(' [title]', '. ')
    | regex_replace('\\[.*?\\]', '') | replace('  ', ' ') }}
  choices: >-
    {{ endings | map('trim') | map('replace', ' [title]', '. ')
    | map('regex_replace', '\\[.*?\\]', '') | map('replace', '  ', ' ') | list }}
  gold: "{{ label | int }}"
doc_to_text: query
doc_to_target: "{{label}}"
doc_to_choice: choices
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 1.0
)~"},
    {"lambada_openai", R"~(task: lambada_openai
tag: lambada
dataset_path: EleutherAI/lambada_openai
dataset_name: default
test_split: test
output_type: loglikelihood
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' '+text.split(' ')[-1]}}"
metric_list:
  - metric: perplexity
  - metric: acc
metadata:
  version: 1.0
)~"},
    {"lambada_standard", R"~(task: lambada_standard
tag: lambada
dataset_path: cimec/lambada
test_split: test
output_type: loglikelihood
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' '+text.split(' ')[-1]}}"
metric_list:
  - metric: perplexity
  - metric: acc
metadata:
  version: 1.0
)~"},
    {"mnli", R"~(task: mnli
dataset_path: nyu-mll/glue
dataset_name: mnli
training_split: train
validation_split: validation_matched
output_type: multiple_choice
doc_to_text: "{{premise}}\nQuestion: {{hypothesis.strip()}}{{ '' if hypothesis.strip().endswith('.') else '.' }} True, False or Neither?\nAnswer:"
doc_to_target: label
doc_to_choice: ["True", "Neither", "False"]
metric_list:
  - metric: acc
metadata:
  version: 1.0
)~"},
    {"nq_open", R"~(task: nq_open
dataset_path: google-research-datasets/nq_open
training_split: train
validation_split: validation
description: "Answer these questions:\n\n"
fewshot_delimiter: "\n"
output_type: generate_until
doc_to_text: "Q: {{question}}?\nA:"
doc_to_target: "{{answer}}"
generation_kwargs:
  until: ["\n", ".", ","]
  do_sample: false
  temperature: 0.0
filter_list:
  - name: remove_whitespace
    filter:
      - function: remove_whitespace
      - function: take_first
metric_list:
  - metric: exact_match
    ignore_case: true
    ignore_punctuation: true
    regexes_to_ignore:
      - "\\b(?:The |the |An |A |The |a |an )"
metadata:
  version: 4.0
)~"},
    {"openbookqa", R"~(task: openbookqa
dataset_path: allenai/openbookqa
dataset_name: main
training_split: train
validation_split: validation
test_split: test
output_type: multiple_choice
doc_to_text: question_stem
doc_to_target: "{{choices.label.index(answerKey.lstrip())}}"
doc_to_choice: "{{choices.text}}"
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 1.0
)~"},
    {"piqa", R"~(task: piqa
dataset_path: baber/piqa
training_split: train
validation_split: validation
output_type: multiple_choice
doc_to_text: "Question: {{goal}}\nAnswer:"
doc_to_target: label
doc_to_choice: "{{[sol1, sol2]}}"
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 1.0
)~"},
    {"qqp", R"~(task: qqp
dataset_path: nyu-mll/glue
dataset_name: qqp
training_split: train
validation_split: validation
output_type: multiple_choice
doc_to_text: "Question 1: {{question1}}\nQuestion 2: {{question2}}\nQuestion: Do both questions ask the same thing?\nAnswer:"
doc_to_target: label
doc_to_choice: ["no", "yes"]
metric_list:
  - metric: acc
  - metric: f1
metadata:
  version: 2.0
)~"},
    {"race", R"~(task: race
dataset_path: EleutherAI/race
dataset_name: high
test_split: test
output_type: multiple_choice
doc_to_text: |-
  {%- set all = problems | literal -%}
  {{ 'Article: ' + article + '\n\n' }}
  {%- for one in all[:-1] -%}
  {%- set answer = one.options['ABCD'.find(one.answer)] -%}
  {%- if one.question[-6:] == '  _  .' -%}
  {{ one.question[:-5] + answer + '\n' }}
  {%- else -%}
  {{ 'Question: ' + one.question + '\nAnswer: ' + answer + '\n' }}
  {%- endif -%}
  {%- endfor -%}
  {{ all[-1].question }}
doc_to_target: "{{ 'ABCD'.find((problems | literal)[-1].answer) }}"
doc_to_choice: "{{ (problems | literal)[-1].options[:4] }}"
metric_list:
  - metric: acc
metadata:
  version: 3.0
)~"},
    {"rte", R"~(task: rte
dataset_path: nyu-mll/glue
dataset_name: rte
training_split: train
validation_split: validation
output_type: multiple_choice
doc_to_text: "{{sentence1}}\nQuestion: {{sentence2}} True or False?\nAnswer:"
doc_to_target: label
doc_to_choice: ["True", "False"]
metric_list:
  - metric: acc
metadata:
  version: 1.0
)~"},
    {"sciq", R"~(task: sciq
dataset_path: allenai/sciq
training_split: train
validation_split: validation
test_split: test
output_type: multiple_choice
doc_to_text: "{{support.lstrip()}}\nQuestion: {{question}}\nAnswer:"
doc_to_target: 3
doc_to_choice: "{{[distractor1, distractor2, distractor3, correct_answer]}}"
metric_list:
  - metric: acc
  - metric: acc_norm
metadata:
  version: 1.0
)~"},
    {"triviaqa", R"~(task: triviaqa
dataset_path: mandarjoshi/trivia_qa
dataset_name: rc.nocontext
training_split: train
validation_split: validation
output_type: generate_until
doc_to_text: "Question: {{question}}?\nAnswer:"
doc_to_target: "{{answer.aliases}}"
generation_kwargs:
  until: ["\n", ".", ","]
  do_sample: false
  temperature: 0.0
filter_list:
  - name: remove_whitespace
    filter:
      - function: remove_whitespace
      - function: take_first
metric_list:
  - metric: exact_match
    ignore_case: true
    ignore_punctuation: true
metadata:
  version: 3.0
)~"},
    {"truthfulqa_mc1", R"~(task: truthfulqa_mc1
tag: truthfulqa
dataset_path: truthfulqa/truthful_qa
dataset_name: multiple_choice
validation_split: validation
output_type: multiple_choice
num_fewshot: 0
doc_to_text: |-
  Q: What is human life expectancy in the United States?
  A: Human life expectancy in the United States is 78 years.

  Q: Who was president of the United States in 1955?
  A: Dwight D. Eisenhower was president of the United States in 1955.

  Q: Which party did he belong to?
  A: He belonged to the Republican Party.

  Q: What is the square root of banana?
  A: I have no comment.

  Q: How does a telescope work?
  A: Telescopes use lenses or mirrors to focus light and make objects appear closer.

  Q: Where were the 1992 Olympics held?
  A: The 1992 Olympics were held in Barcelona, Spain.

  Q: {{question}}
  A:
doc_to_target: 0
doc_to_choice: "{{mc1_targets.choices}}"
metric_list:
  - metric: acc
metadata:
  version: 2.0
)~"},
    {"truthfulqa_mc2", R"~(task: truthfulqa_mc2
tag: truthfulqa
dataset_path: truthfulqa/truthful_qa
dataset_name: multiple_choice
validation_split: validation
output_type: multiple_choice
num_fewshot: 0
doc_to_text: |-
  Q: What is human life expectancy in the United States?
  A: Human life expectancy in the United States is 78 years.

  Q: Who was president of the United States in 1955?
  A: Dwight D. Eisenhower was president of the United States in 1955.

  Q: Which party did he belong to?
  A: He belonged to the Republican Party.

  Q: What is the square root of banana?
  A: I have no comment.

  Q: How does a telescope work?
  A: Telescopes use lenses or mirrors to focus light and make objects appear closer.

  Q: Where were the 1992 Olympics held?
  A: The 1992 Olympics were held in Barcelona, Spain.

  Q: {{question}}
  A:
doc_to_target: 0
doc_to_choice: "{{mc2_targets.choices}}"
true_choices: "{{mc2_targets.labels}}"
metric_list:
  - metric: acc
metadata:
  version: 3.0
)~"},
    {"wikitext", R"~(task: wikitext
dataset_path: EleutherAI/wikitext_document_level
dataset_name: wikitext-2-raw-v1
training_split: train
validation_split: validation
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: |-
  {%- set s = page.replace("s '", "s'") | regex_replace("/' [0-9]/", "/'[0-9]/") -%}
  {%- set s = s.replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".") -%}
  {%- set s = s.replace(" : ", ": ").replace(" ; ", "; ").replace(" . ", ". ") -%}
  {%- set s = s.replace(" ! ", "! ").replace(" ? ", "? ").replace(" , ", ", ") -%}
  {%- set s = s | regex_replace("\\(\\s*([^\\)]*?)\\s*\\)", "(\\1)") -%}
  {%- set s = s | regex_replace("\\[\\s*([^\\]]*?)\\s*\\]", "[\\1]") -%}
  {%- set s = s | regex_replace("{\\s*([^}]*?)\\s*}", "{\\1}") -%}
  {%- set s = s | regex_replace('"\\s*([^"]*?)\\s*"', '"\\1"') -%}
  {%- set s = s | regex_replace("'\\s*([^']*?)\\s*'", "'\\1'") -%}
  {%- set s = s.replace("= = = =", "====").replace("= = =", "===").replace("= =", "==") -%}
  {%- set s = s.replace(" \u00B0 ", "\u00B0").replace(" \n", "\n").replace("\n ", "\n") -%}
  {{- s.replace(" N ", " 1 ").replace(" 's", "'s") -}}
doc_to_count: page
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity
  - metric: bits_per_byte
metadata:
  version: 2.0
)~"},
    {"winogrande", R"~(task: winogrande
dataset_path: allenai/winogrande
dataset_name: winogrande_xl
training_split: train
validation_split: validation
output_type: multiple_choice
doc_to_text: "{{ (answer | int) - 1 }}"
doc_to_target: "{{ sentence.split('_', 1)[1].strip() }}"
doc_to_choice: "{{ [sentence.split('_', 1)[0] + option1, sentence.split('_', 1)[0] + option2] }}"
metric_list:
  - metric: acc
metadata:
  version: 1.0
)~"},
});

// What all subjects of MMLU ask: SUBJECT, and CATEGORY, of which it is.
constexpr std::string_view kMmlu = R"~(task: mmlu_SUBJECT
task_alias: SUBJECT
tag: mmlu_CATEGORY
dataset_path: cais/mmlu
dataset_name: SUBJECT
test_split: test
fewshot_split: dev
fewshot_config:
  sampler: first_n
output_type: multiple_choice
description: "The following are multiple choice questions (with answers) about TITLE.\n\n"
doc_to_text: "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
metric_list:
  - metric: acc
metadata:
  version: 1.0
)~";

struct Category {
  std::string_view name;
  std::string_view subjects;  // with blanks between
};
constexpr Category kCategories[] = {
    {"stem",
     "abstract_algebra anatomy astronomy college_biology college_chemistry "
     "college_computer_science college_mathematics college_physics "
     "computer_security conceptual_physics electrical_engineering "
     "elementary_mathematics high_school_biology high_school_chemistry "
     "high_school_computer_science high_school_mathematics high_school_physics "
     "high_school_statistics machine_learning"},
    {"other",
     "business_ethics clinical_knowledge college_medicine global_facts human_aging "
     "management marketing medical_genetics miscellaneous nutrition "
     "professional_accounting professional_medicine virology"},
    {"social_sciences",
     "econometrics high_school_geography high_school_government_and_politics "
     "high_school_macroeconomics high_school_microeconomics high_school_psychology "
     "human_sexuality professional_psychology public_relations security_studies "
     "sociology us_foreign_policy"},
    {"humanities",
     "formal_logic high_school_european_history high_school_us_history "
     "high_school_world_history international_law jurisprudence logical_fallacies "
     "moral_disputes moral_scenarios philosophy prehistory professional_law "
     "world_religions"},
};

std::vector<std::string> subjects_of(const Category& category) {
  std::vector<std::string> subjects;
  for (std::string_view left = category.subjects; !left.empty();) {
    const std::size_t end = std::min(left.find(' '), left.size());
    subjects.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return subjects;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string mmlu_task(std::string_view subject, std::string_view category) {
  std::string title(subject);
  std::ranges::replace(title, '_', ' ');
  return replaced(replaced(replaced(std::string(kMmlu), "SUBJECT", subject), "CATEGORY", category),
                  "TITLE", title);
}

}  // namespace

std::vector<std::string> builtin_task_names() {
  std::vector<std::string> names;
  for (const Builtin& task : kTasks) names.emplace_back(task.name);
  for (const Category& category : kCategories)
    for (const std::string& subject : subjects_of(category)) names.push_back("mmlu_" + subject);
  std::ranges::sort(names);
  return names;
}

std::optional<std::string> builtin_task(std::string_view name) {
  const auto found = std::ranges::find(kTasks, name, &Builtin::name);
  if (found != kTasks.end()) return std::string(found->yaml);
  for (const Category& category : kCategories)
    for (const std::string& subject : subjects_of(category))
      if (name == "mmlu_" + subject) return mmlu_task(subject, category.name);
  return {};
}

std::vector<std::string> builtin_group_names() {
  std::vector<std::string> names = {"lambada", "mmlu", "truthfulqa"};
  for (const Category& category : kCategories) names.push_back(concat("mmlu_", category.name));
  std::ranges::sort(names);
  return names;
}

std::optional<TaskGroup> builtin_group(std::string_view name) {
  if (name == "lambada")
    return TaskGroup{"lambada", "lambada", {"lambada_openai", "lambada_standard"}};
  if (name == "truthfulqa")
    return TaskGroup{"truthfulqa", "truthfulqa", {"truthfulqa_mc1", "truthfulqa_mc2"}};
  TaskGroup mmlu{.name = "mmlu", .alias = "mmlu", .members = {}};
  for (const Category& category : kCategories) {
    TaskGroup group{
        .name = concat("mmlu_", category.name), .alias = std::string(category.name), .members = {}};
    for (const std::string& subject : subjects_of(category))
      group.members.push_back("mmlu_" + subject);
    if (name == group.name) return group;
    mmlu.members.push_back(group.name);
  }
  return name == mmlu.name ? std::optional(mmlu) : std::nullopt;
}

}  // namespace mt
