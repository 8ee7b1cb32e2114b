#include "post/labels/label_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/json.h"

namespace mt {

// --- Tallies ------------------------------------------------------------------------------------

void Tally::add(const Tally& other) {
  total += other.total;
  correct += other.correct;
  squared += other.squared;
  numbers += other.numbers;
  if (confusion.empty()) {
    confusion = other.confusion;
    return;
  }
  for (std::size_t i = 0; i < confusion.size(); ++i)
    for (std::size_t j = 0; j < confusion[i].size(); ++j) confusion[i][j] += other.confusion[i][j];
}

double Tally::accuracy() const {
  return total == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(total);
}

double Tally::macro_f1() const {
  double sum = 0;
  int labels = 0;
  for (std::size_t i = 0; i < confusion.size(); ++i) {
    std::int64_t of_label = 0, predicted = 0;
    for (std::size_t j = 0; j < confusion.size(); ++j) {
      of_label += confusion[i][j];
      predicted += confusion[j][i];
    }
    if (of_label + predicted == 0) continue;
    sum += 2 * static_cast<double>(confusion[i][i]) / static_cast<double>(of_label + predicted);
    ++labels;
  }
  return labels == 0 ? 0 : sum / labels;
}

// --- Scores -------------------------------------------------------------------------------------

LabelScores::LabelScores(const LabelledSet& set, std::vector<double> scores,
                         std::vector<std::string> labels)
    : set_(set),
      scores_(std::move(scores)),
      labels_(std::move(labels)),
      each_(scores_.size() / static_cast<std::size_t>(set.samples())) {}

std::span<const double> LabelScores::of_sample(std::int64_t i) const {
  return std::span(scores_).subspan(static_cast<std::size_t>(i) * each_, each_);
}

std::int64_t LabelScores::predicted(std::int64_t i) const {
  const std::span<const double> scores = of_sample(i);
  return std::ranges::max_element(scores) - scores.begin();
}

std::vector<double> LabelScores::probabilities(std::int64_t i) const {
  std::vector<double> scores(of_sample(i).begin(), of_sample(i).end());
  if (set_.kind == LabelKind::numbers) return scores;
  if (set_.kind == LabelKind::many) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
    return scores;
  }
  const double top = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - top);
  for (double& score : scores) score /= sum;
  return scores;
}

Tally LabelScores::tally() const {
  Tally tally{.total = set_.samples()};
  if (set_.kind == LabelKind::one) tally.confusion.assign(each_, std::vector<std::int64_t>(each_));
  for (std::int64_t i = 0; i < set_.samples(); ++i) {
    if (set_.kind == LabelKind::one) {
      const auto label = static_cast<std::size_t>(set_.labels[static_cast<std::size_t>(i)]),
                 said = static_cast<std::size_t>(predicted(i));
      tally.confusion[label][said] += 1;
      tally.correct += label == said ? 1 : 0;
      continue;
    }
    bool right = true;
    for (std::size_t c = 0; c < each_; ++c) {
      const double score = of_sample(i)[c],
                   number = set_.numbers[static_cast<std::size_t>(i) * each_ + c];
      tally.squared += (score - number) * (score - number);
      right = right && (score > 0) == (number > 0.5);
    }
    tally.numbers += static_cast<std::int64_t>(each_);
    tally.correct += right ? 1 : 0;
  }
  return tally;
}

// The labels that hold of a sample, by its scores or its own.
void LabelScores::write_many(std::int64_t i, const char* name, bool of_scores,
                             JsonWriter& json) const {
  json.key(name).begin_array();
  for (std::size_t c = 0; c < each_; ++c) {
    const double number = set_.numbers[static_cast<std::size_t>(i) * each_ + c];
    if (of_scores ? of_sample(i)[c] > 0 : number > 0.5) json.value(labels_[c]);
  }
  json.end_array();
}

void LabelScores::write_lines(const std::string& name, std::string& lines) const {
  for (std::int64_t i = 0; i < set_.samples(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    JsonWriter json;
    json.begin_object().member("set", name).member("uid", set_.uids[at]);
    if (set_.kind == LabelKind::one) {
      if (set_.has_labels) json.member("label", labels_[static_cast<std::size_t>(set_.labels[at])]);
      json.member("prediction", labels_[static_cast<std::size_t>(predicted(i))]);
    } else if (set_.kind == LabelKind::many) {
      if (set_.has_labels) write_many(i, "label", false, json);
      write_many(i, "prediction", true, json);
    } else if (set_.has_labels) {
      json.key("label").begin_array();
      for (std::size_t c = 0; c < each_; ++c)
        json.value(static_cast<double>(set_.numbers[at * each_ + c]));
      json.end_array();
    }
    json.key("scores").begin_array();
    for (const double score : probabilities(i)) json.value(score);
    lines += json.end_array().end_object().text() + "\n";
  }
}

// --- Reports ------------------------------------------------------------------------------------

static std::string formatted(const char* format, auto... values) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)), '\0');
  std::snprintf(text.data(), text.size() + 1, format, values...);
  return text;
}

static std::string result_of(const Tally& t, LabelKind kind) {
  if (kind == LabelKind::numbers)
    return formatted("mean squared error = %.6E", t.squared / static_cast<double>(t.numbers));
  return formatted("correct / total = %lld / %lld = %.4f %%", static_cast<long long>(t.correct),
                   static_cast<long long>(t.total), 100 * t.accuracy());
}

static EpochReport with_numbers(EpochReport report, const Tally& t, LabelKind kind) {
  report.numbers = {{"total", t.total}};
  if (kind == LabelKind::numbers) {
    report.numbers.emplace_back("mean_squared_error", t.squared / static_cast<double>(t.numbers));
    return report;
  }
  report.numbers.emplace_back("correct", t.correct);
  report.numbers.emplace_back("accuracy", t.accuracy());
  if (kind != LabelKind::one) return report;
  report.numbers.emplace_back("f1", t.macro_f1());
  JsonWriter confusion;
  confusion.begin_array();
  for (const std::vector<std::int64_t>& row : t.confusion) {
    confusion.begin_array();
    for (const std::int64_t count : row) confusion.value(count);
    confusion.end_array();
  }
  report.tables.emplace_back("confusion", confusion.end_array().text());
  return report;
}

EpochReport epoch_report(std::int64_t epoch, const std::string& set, const Tally& tally,
                         LabelKind kind, double seconds) {
  EpochReport report{
      .line = concat(" > |epoch: ", epoch, "| metrics for ", set, ": ", result_of(tally, kind),
                     formatted(", elapsed time (sec): %.3f", seconds)),
      .set = set};
  return with_numbers(std::move(report), tally, kind);
}

EpochReport overall_report(std::int64_t epoch, const Tally& tally, LabelKind kind) {
  return with_numbers(
      {.line = concat(" >> |epoch: ", epoch, "| overall: ", result_of(tally, kind))}, tally, kind);
}

}  // namespace mt
