#include "eval/tasks/mmlu_tasks.h"

#include <algorithm>

#include "base/error.h"

namespace mt {
namespace {

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

std::string task_of(std::string_view subject, std::string_view category) {
  std::string title(subject);
  std::ranges::replace(title, '_', ' ');
  return replaced(replaced(replaced(std::string(kMmlu), "SUBJECT", subject), "CATEGORY", category),
                  "TITLE", title);
}

}  // namespace

std::vector<std::string> mmlu_task_names() {
  std::vector<std::string> names;
  for (const Category& category : kCategories)
    for (const std::string& subject : subjects_of(category)) names.push_back("mmlu_" + subject);
  return names;
}

std::optional<std::string> mmlu_task(std::string_view name) {
  for (const Category& category : kCategories)
    for (const std::string& subject : subjects_of(category))
      if (name == "mmlu_" + subject) return task_of(subject, category.name);
  return {};
}

std::vector<std::string> mmlu_group_names() {
  std::vector<std::string> names = {"mmlu"};
  for (const Category& category : kCategories) names.push_back(concat("mmlu_", category.name));
  return names;
}

std::optional<TaskGroup> mmlu_group(std::string_view name) {
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
