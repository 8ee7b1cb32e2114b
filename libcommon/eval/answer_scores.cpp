#include "eval/answer_scores.h"

#include <simdjson.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <ostream>

#include "base/command.h"
#include "base/error.h"
#include "base/input/line_reader.h"
#include "base/input/read_input.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "base/lines.h"
#include "base/utf8.h"
#include "text/chat/chat_strings.h"
#include "text/python_regex.h"
#include "text/unicode/unicode.h"

namespace mt {
namespace {

constexpr std::size_t kCountedOfDev = 3000;
constexpr std::string_view kEnd = "<|endoftext|>";

void remove_all(std::string& text, std::string_view what) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos;)
    text.erase(at, what.size());
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

// What may stand in front of an answer, and behind it.
std::string bare_answer(std::string text) {
  for (const std::string_view words : {"Answer:", "????  ", "A: ", "A:"}) remove_all(text, words);
  text = std::string(strip_text(text, Side::both));
  remove_all(text, kEnd);
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// --- Files --------------------------------------------------------------------------------------

class Questions {
 public:
  explicit Questions(const std::string& path) : path_(path) {
    const std::string text = read_input(path, [] {});
    if (path.ends_with(".txt") || path.ends_with(".lst")) {
      for (const std::string_view line : lines_of(text)) {
        place_ = concat(path, ":", right_.size() + 1);
        if (path.ends_with(".lst")) {
          right_.push_back({replace_invalid_utf8(line)});
          continue;
        }
        take(parsed(line));
      }
      return;
    }
    place_ = path;
    simdjson::dom::array all;
    if (parsed(text).get(all) != simdjson::SUCCESS) refuse("an array of questions");
    for (const simdjson::dom::element question : all) {
      place_ = concat(path, ": question ", right_.size());
      take(question);
    }
  }

  const std::vector<std::vector<std::string>>& right() const { return right_; }

 private:
  [[noreturn]] void refuse(const char* expected) const {
    fail(Exit::bad_data, place_, ": expected ", expected);
  }
  simdjson::dom::element parsed(std::string_view text) {
    simdjson::dom::element element;
    if (const auto error = parse_json(parser_, text).get(element)) fail_json(text, place_, error);
    return element;
  }
  std::string text_of(simdjson::dom::element answer) const {
    std::string_view text;
    simdjson::dom::object object;
    if (answer.get(object) == simdjson::SUCCESS && object["text"].get(text) != simdjson::SUCCESS)
      refuse("answers that are texts, or objects with a text");
    if (!answer.is_object() && answer.get(text) != simdjson::SUCCESS)
      return simdjson::minify(answer);
    return std::string(text);
  }
  void take(simdjson::dom::element question) {
    std::vector<std::string>& right = right_.emplace_back();
    simdjson::dom::element answers = question;
    simdjson::dom::object object;
    if (question.get(object) == simdjson::SUCCESS &&
        object["answers"].get(answers) != simdjson::SUCCESS &&
        object["answer"].get(answers) != simdjson::SUCCESS)
      refuse("a member answers or answer");
    simdjson::dom::array list;
    if (answers.get(list) != simdjson::SUCCESS) {
      if (!answers.is_null()) right.push_back(text_of(answers));
      return;
    }
    for (const simdjson::dom::element answer : list)
      if (!answer.is_null()) right.push_back(text_of(answer));
  }

  std::string path_, place_;
  simdjson::dom::parser parser_;
  std::vector<std::vector<std::string>> right_;
};

std::vector<std::string> read_answers(const std::string& path) {
  LineReader reader({.inputs = expand_inputs({path})});
  std::vector<std::string> answers;
  std::optional<bool> json;
  simdjson::dom::parser parser;
  for (LineBlock block; reader.next(block);)
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      if (!json) json = line.starts_with("{");
      std::string_view text = line;
      simdjson::dom::object object;
      if (*json && (parse_json(parser, line).get(object) != simdjson::SUCCESS ||
                    (object["pred"].get(text) != simdjson::SUCCESS &&
                     object["text"].get(text) != simdjson::SUCCESS)))
        fail(Exit::bad_data, block.file, ":", number,
             ": expected an object of JSON with a text `pred` or `text`");
      answers.push_back(replace_invalid_utf8(text));
    });
  return answers;
}

std::string four_digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", x);
  return text;
}

}  // namespace

std::vector<std::string> compared_words(std::string_view text, bool delete_punctuation) {
  static const PythonRegex articles(R"(\b(a|an|the)\b)");
  std::string bare;
  for (const char c : lower_text(text))
    if (!is_ascii_punctuation(c))
      bare += c;
    else if (!delete_punctuation)
      bare += ' ';
  bare = articles.replace(bare, " ");
  std::vector<std::string> words;
  bool in_word = false;
  for (std::size_t at = 0; at < bare.size();) {
    const char32_t point = next_code_point(bare, at);
    const bool is_space = is_python_space(point);
    if (!is_space && !in_word) words.emplace_back();
    if (!is_space) append_utf8(words.back(), point);
    in_word = !is_space;
  }
  return words;
}

WordOverlap word_overlap(std::string_view guess, std::string_view answer) {
  const std::vector<std::string> of_guess = compared_words(guess, false),
                                 of_answer = compared_words(answer, false);
  std::map<std::string_view, std::int64_t> counts;
  for (const std::string& word : of_answer) ++counts[word];
  std::int64_t common = 0;
  for (const std::string& word : of_guess)
    if (const auto found = counts.find(word); found != counts.end() && found->second > 0) {
      --found->second;
      ++common;
    }
  if (common == 0) return {};
  const double precision = static_cast<double>(common) / static_cast<double>(of_guess.size()),
               recall = static_cast<double>(common) / static_cast<double>(of_answer.size());
  return {precision, recall, 2 * precision * recall / (precision + recall)};
}

AnswerScores score_answers(std::span<const std::string> answers,
                           std::span<const std::vector<std::string>> right, std::size_t counted) {
  AnswerScores scores;
  std::int64_t exact = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i < counted) {
      const std::string said = joined(compared_words(bare_answer(answers[i]), true));
      ++scores.answers;
      exact += std::ranges::any_of(right[i], [&](const std::string& one) {
        return joined(compared_words(one, true)) == said;
      });
    }
    if (right[i].empty()) continue;
    const std::string_view first = strip_text(right[i].front(), Side::both);
    if (first.empty() || first == "no_passages_used") continue;
    std::string guess(strip_text(answers[i], Side::both));
    remove_all(guess, kEnd);
    const WordOverlap overlap = word_overlap(guess, first);
    ++scores.compared;
    scores.overlap.precision += overlap.precision;
    scores.overlap.recall += overlap.recall;
    scores.overlap.f1 += overlap.f1;
  }
  if (scores.answers == 0 || scores.compared == 0)
    fail(Exit::bad_data, "there are no answers, or no question has a right one");
  scores.exact = static_cast<double>(exact) / static_cast<double>(scores.answers);
  for (double* const mean : {&scores.overlap.precision, &scores.overlap.recall, &scores.overlap.f1})
    *mean /= static_cast<double>(scores.compared);
  return scores;
}

void AnswerScoresOptions::add_to(CommandLine& cl) {
  cl.positional("ANSWERS", &answers,
                "a line for each question: text, or JSON with `pred` or `text`; - is stdin");
  cl.positional("QUESTIONS", &questions,
                "a JSON array of objects with `answers` or `answer`; lines of them in .txt; lines "
                "of text in .lst");
  cl.option("--method", &method, "NAME", "what the answers' author is called");
  cl.flag("--json", &json, "one JSON object");
}

void score_answers(const AnswerScoresOptions& options, std::ostream& out) {
  const std::vector<std::string> answers = read_answers(options.answers);
  const Questions questions(options.questions);
  if (answers.size() > questions.right().size())
    fail(Exit::bad_data, options.answers, ": has ", answers.size(), " answers, and ",
         options.questions, " ", questions.right().size(), " questions");
  const bool is_dev =
      std::filesystem::path(options.questions).filename().string().find("dev") != std::string::npos;
  const AnswerScores scores =
      score_answers(answers, questions.right(),
                    is_dev ? std::min(kCountedOfDev, answers.size()) : answers.size());
  const auto& [precision, recall, f1] = scores.overlap;
  if (options.json) {
    JsonWriter line;
    line.begin_object()
        .member("schema", "mt-answers/1")
        .member("answers", scores.answers)
        .member("exact_match", scores.exact)
        .member("compared", scores.compared)
        .member("precision", precision)
        .member("recall", recall)
        .member("f1", f1)
        .end_object();
    out << line.text() << '\n';
    return;
  }
  out << "Method: " << options.method << "; Precision: " << four_digits(precision)
      << "; recall: " << four_digits(recall) << "; f1: " << four_digits(f1) << '\n'
      << "Exact Match: " << four_digits(scores.exact) << ";\n";
}

}  // namespace mt
