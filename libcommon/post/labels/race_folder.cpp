#include "post/labels/race_folder.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "post/labels/object_lines.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  if (error) {
    errno = error.value();
    fail_errno(folder, "cannot be read as a folder of RACE's", Exit::no_input);
  }
  if (files.empty()) fail(Exit::no_input, folder, ": has no .txt files, expected those of RACE");
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> texts_of(const JsonObject& object, const simdjson::dom::element& list,
                                  const char* name) {
  std::vector<std::string> texts;
  simdjson::dom::array items;
  if (list.get(items)) object.refuse("\"", name, "\": expected a list of texts");
  for (const simdjson::dom::element item : items) {
    std::string_view text;
    if (item.get(text)) object.refuse("\"", name, "\": expected a list of texts");
    texts.emplace_back(text);
  }
  return texts;
}

std::string with_choice(const std::string& question, const std::string& choice) {
  if (question.find('_') == question.npos) return clean_text(question + " " + choice);
  std::string filled;
  for (const char c : question) c == '_' ? void(filled += choice) : void(filled += c);
  return clean_text(filled);
}

void add_article(LabelledSet& set, const JsonObject& article) {
  const std::vector<std::string> questions =
                                     texts_of(article, article.member("questions"), "questions"),
                                 answers = texts_of(article, article.member("answers"), "answers");
  simdjson::dom::array options;
  if (article.member("options").get(options)) article.refuse("\"options\": expected a list");
  if (answers.size() != questions.size() || options.size() != questions.size())
    article.refuse(questions.size(), " questions, ", options.size(), " options and ",
                   answers.size(), " answers, expected as many of each");
  const std::int64_t text = set.add_text(clean_text(article.text("article")));
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const std::vector<std::string> choices = texts_of(article, options.at(i), "options");
    if (std::ssize(choices) != kChoicesOfRace)
      article.refuse(choices.size(), " options of a question, expected ", kChoicesOfRace);
    const int label = answers[i].size() == 1 ? answers[i][0] - 'A' : -1;
    if (label < 0 || label >= kChoicesOfRace)
      article.refuse("answer ", json_quoted(answers[i]), ", expected A, B, C or D");
    for (const std::string& choice : choices)
      set.pairs.push_back({set.add_text(with_choice(questions[i], choice)), text});
    set.labels.push_back(label);
    set.uids.push_back(std::ssize(set.uids));
  }
}

}  // namespace

LabelledSet read_race(const std::string& folder) {
  LabelledSet set{.name = folder, .choices = kChoicesOfRace};
  for_each_object(files_of(folder),
                  [&](const JsonObject& article, std::int64_t) { add_article(set, article); });
  if (set.uids.empty()) fail(Exit::bad_data, folder, ": has no questions");
  return set;
}

}  // namespace mt
