#include "eval/tasks/task_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/threads.h"
#include "eval/tasks/vqa_answers.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

// --- Of a document -------------------------------------------------------------------------------

// The first of the largest.
std::size_t largest(std::span<const double> values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

// The choices that are right.  Exit::bad_data where one is none of them.
std::vector<std::size_t> right_choices(const EvalItem& item) {
  std::vector<std::size_t> right;
  const auto add = [&](const ChatValue& gold) {
    if (const auto index = python_index(gold);
        index && 0 <= *index && *index < std::ssize(item.choices)) {
      right.push_back(static_cast<std::size_t>(*index));
    } else {
      const auto found =
          index ? item.choices.end() : std::ranges::find(item.choices, python_text(gold));
      if (found == item.choices.end())
        fail(Exit::bad_data, "doc_to_target: ", python_repr(gold), " is none of ",
             item.choices.size(), " choices");
      right.push_back(static_cast<std::size_t>(found - item.choices.begin()));
    }
  };
  if (item.gold.is_list())
    for (const ChatValue& gold : *item.gold.items()) add(gold);
  else
    add(item.gold);
  return right;
}

std::vector<double> softmax(std::span<const double> values) {
  const double top = *std::ranges::max_element(values);
  std::vector<double> all;
  for (const double value : values) all.push_back(std::exp(value - top));
  const double sum = std::accumulate(all.begin(), all.end(), 0.0);
  for (double& value : all) value /= sum;
  return all;
}

double true_mass(const EvalTask& task, const EvalItem& item, std::span<const double> lls) {
  const ChatValue labels = task.true_choices.of(item.doc);
  if (!labels.is_list() || labels.items()->size() != lls.size())
    fail(Exit::bad_data, "true_choices: expected a list with a label for each choice");
  const std::vector<double> p = softmax(lls);
  double mass = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (python_equal((*labels.items())[i], 1)) mass += p[i];
  return mass;
}

ChatValue list_of(std::span<const double> values) {
  std::vector<ChatValue> items;
  for (const double value : values) items.emplace_back(value);
  return ChatValue::list(std::move(items));
}

ChatValue judge_choice(const EvalTask& task, const EvalItem& item, std::string_view metric,
                       std::span<const EvalResponse> responses) {
  const std::size_t n = item.choices.size();
  std::vector<double> lls, by_characters, by_bytes, mutual;
  for (std::size_t i = 0; i < n; ++i) {
    const double ll = responses[i].log_likelihood;
    lls.push_back(ll);
    by_characters.push_back(ll / static_cast<double>(count_points(item.choices[i])));
    by_bytes.push_back(ll / static_cast<double>(item.choices[i].size()));
    if (responses.size() == 2 * n) mutual.push_back(ll - responses[n + i].log_likelihood);
  }
  if (metric == "acc" && task.true_choices.is_given()) return true_mass(task, item, lls);
  const std::vector<std::size_t> right = right_choices(item);
  const auto hit = [&](std::span<const double> values) {
    return std::ranges::find(right, largest(values)) != right.end() ? 1.0 : 0.0;
  };
  if (metric == "acc") return hit(lls);
  if (metric == "acc_norm") return hit(by_characters);
  if (metric == "acc_bytes") return hit(by_bytes);
  if (metric == "acc_mutual_info") return hit(mutual);
  if (metric == "exact_match")
    return std::ranges::any_of(right, [&](std::size_t i) { return responses[i].greedy; }) ? 1 : 0;
  if (right.size() != 1) fail(Exit::bad_data, metric, ": expected one right choice");
  if (metric == "brier_score") return ChatValue::list({right[0], list_of(softmax(lls))});
  return ChatValue::list({right[0], largest(lls)});  // f1, mcc
}

// The parts between white space, the empty ones at the ends too: len(re.split(r"\s+", text)).
std::int64_t count_words_of(std::string_view text) {
  static const PythonRegex kSpace(R"(\s+)");
  return std::ssize(kSpace.find_all(text)) + 1;
}

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

std::string plain_form(const EvalMetric& metric, std::string text) {
  for (const PythonRegex& regex : metric.ignored) text = regex.replace(text, "");
  if (metric.ignore_case) text = lower_text(text);
  std::erase_if(text, [&](char c) {
    return (metric.ignore_punctuation && kPunctuation.find(c) != kPunctuation.npos) ||
           (metric.ignore_numbers && '0' <= c && c <= '9');
  });
  return text;
}

double exact_match(const EvalMetric& metric, const EvalItem& item, const std::string& text) {
  std::vector<std::string> golds;
  const auto index = python_index(item.gold);
  if (!item.choices.empty() && index && 0 <= *index && *index < std::ssize(item.choices))
    golds.push_back(item.choices[static_cast<std::size_t>(*index)]);
  else if (item.gold.is_list())
    for (const ChatValue& gold : *item.gold.items()) golds.push_back(python_text(gold));
  else
    golds.push_back(python_text(item.gold));
  const std::string answer = plain_form(metric, text);
  return std::ranges::any_of(
             golds, [&](const std::string& gold) { return plain_form(metric, gold) == answer; })
             ? 1.0
             : 0.0;
}

}  // namespace

// The answers that people gave, texts or objects with an "answer".
static std::vector<std::string> answers_of(const EvalItem& item) {
  const std::vector<ChatValue> all =
      item.gold.is_list() ? *item.gold.items() : std::vector<ChatValue>{item.gold};
  std::vector<std::string> answers;
  for (const ChatValue& one : all) {
    const ChatValue* const answer = one.find("answer");
    answers.push_back(python_text(answer == nullptr ? one : *answer));
  }
  return answers;
}

static double judge_answer(const EvalMetric& metric, const EvalItem& item,
                           const std::string& text) {
  if (metric.name == "exact_match") return exact_match(metric, item, text);
  const std::vector<std::string> answers = answers_of(item);
  if (metric.name == "vqa_accuracy") return vqa_accuracy(text, answers);
  if (metric.name == "anls") return anls(text, answers);
  double best = 0;
  for (const std::string& answer : answers) best = std::max(best, relaxed_accuracy(text, answer));
  return best;
}

MetricValues judge_likelihoods(const EvalTask& task, const EvalItem& item,
                               std::span<const EvalResponse> responses) {
  MetricValues values;
  const double ll = responses.front().log_likelihood;
  std::string counted;
  if (task.kind == EvalKind::rolling)
    counted = task.counted.is_given() ? task.counted.text_of(item.doc) : python_text(item.target);
  for (const EvalMetric& metric : task.metrics) {
    ChatValue value;
    if (task.kind == EvalKind::multiple_choice)
      value = judge_choice(task, item, metric.name, responses);
    else if (task.kind == EvalKind::loglikelihood)
      value = metric.name == "acc" ? ChatValue(responses.front().greedy ? 1 : 0) : ChatValue(ll);
    else
      value =
          ChatValue::list({ll, metric.name == "word_perplexity" ? ChatValue(count_words_of(counted))
                                                                : ChatValue(counted.size())});
    values.emplace_back(metric.name, std::move(value));
  }
  return values;
}

MetricValues judge_text(const EvalTask& task, const EvalItem& item, const ChatValue& filtered) {
  MetricValues values;
  for (const EvalMetric& metric : task.metrics) {
    double sum = 0;
    const std::vector<ChatValue> texts =
        filtered.is_list() ? *filtered.items() : std::vector<ChatValue>{filtered};
    for (const ChatValue& text : texts) sum += judge_answer(metric, item, python_text(text));
    values.emplace_back(metric.name, texts.empty() ? 0.0 : sum / static_cast<double>(texts.size()));
  }
  return values;
}

// --- Over all documents --------------------------------------------------------------------------

namespace {

// A document's number, or its two.
struct Sample {
  double a = 0, b = 0;
};

std::vector<Sample> samples_of(std::string_view aggregation, std::span<const ChatValue> values) {
  const auto number = [&](const ChatValue& value) {
    const auto known = python_number(value);
    if (!known) fail(Exit::bad_data, aggregation, ": expected numbers");
    return *known;
  };
  std::vector<Sample> samples;
  for (const ChatValue& value : values) {
    if (!value.is_list()) {
      samples.push_back({number(value), 0});
    } else {
      if (value.items()->size() != 2) fail(Exit::bad_data, aggregation, ": expected two numbers");
      samples.push_back({number((*value.items())[0]), number((*value.items())[1])});
    }
  }
  return samples;
}

double sum_of(std::span<const Sample> samples, double Sample::*which) {
  double sum = 0;
  for (const Sample& sample : samples) sum += sample.*which;
  return sum;
}

double mean_of(std::span<const Sample> samples) {
  return sum_of(samples, &Sample::a) / static_cast<double>(samples.size());
}

// a: what is right; b: what is said.
double f1_of(std::span<const Sample> samples) {
  double both = 0, wrong = 0;
  for (const auto& [gold, said] : samples) {
    both += gold == 1 && said == 1;
    wrong += (gold == 1) != (said == 1);
  }
  return both == 0 ? 0 : 2 * both / (2 * both + wrong);
}

// Matthews' correlation of several classes (Gorodkin 2004, doi:10.1016/j.compbiolchem.2004.09.006).
double mcc_of(std::span<const Sample> samples) {
  std::map<double, std::pair<double, double>> classes;  // how often right, and said
  double hits = 0;
  for (const auto& [gold, said] : samples) {
    ++classes[gold].first;
    ++classes[said].second;
    hits += gold == said;
  }
  const auto n = static_cast<double>(samples.size());
  double cross = 0, of_gold = 0, of_said = 0;
  for (const auto& [name, count] : classes) {
    cross += count.first * count.second;
    of_gold += count.first * count.first;
    of_said += count.second * count.second;
  }
  const double scale = (n * n - of_gold) * (n * n - of_said);
  return scale == 0 ? 0 : (hits * n - cross) / std::sqrt(scale);
}

double over_all(std::string_view aggregation, std::span<const Sample> samples) {
  if (aggregation == "mean") return mean_of(samples);
  if (aggregation == "perplexity") return std::exp(-mean_of(samples));
  if (aggregation == "f1") return f1_of(samples);
  if (aggregation == "matthews_corrcoef") return mcc_of(samples);
  const double weighted = sum_of(samples, &Sample::a) / sum_of(samples, &Sample::b);
  return aggregation == "bits_per_byte" ? -weighted / std::numbers::ln2 : std::exp(-weighted);
}

double brier_of(std::span<const ChatValue> values) {
  double sum = 0;
  for (const ChatValue& value : values) {
    const ChatValue* const p =
        value.is_list() && value.items()->size() == 2 ? &(*value.items())[1] : nullptr;
    if (p == nullptr || !p->is_list()) fail(Exit::bad_data, "brier_score: expected probabilities");
    for (std::size_t i = 0; i < p->items()->size(); ++i) {
      const double gold = python_equal((*value.items())[0], static_cast<std::int64_t>(i)) ? 1 : 0;
      const double error = python_number((*p->items())[i]).value_or(0) - gold;
      sum += error * error;
    }
  }
  return sum / static_cast<double>(values.size());
}

double spread_of(std::span<const double> values) {  // of a sample
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1));
}

double bootstrap_error(std::string_view aggregation, std::span<const Sample> samples,
                       std::int64_t resamples) {
  std::vector<double> values(static_cast<std::size_t>(resamples));
  parallel_for(resamples, [&](std::int64_t k) {
    std::vector<Sample> drawn(samples.size());
    Counter words{};
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (i % 4 == 0)
        words = philox({static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(k), 0, 0},
                       {.seed_low = 0, .purpose = 0x424F4F54});
      drawn[i] = samples[std::uint64_t{words[i % 4]} * samples.size() >> 32];
    }
    values[static_cast<std::size_t>(k)] = over_all(aggregation, drawn);
  });
  return spread_of(values);
}

}  // namespace

double aggregate(std::string_view aggregation, std::span<const ChatValue> values) {
  if (aggregation == "brier_score") return brier_of(values);
  return over_all(aggregation, samples_of(aggregation, values));
}

std::optional<double> standard_error(std::string_view aggregation,
                                     std::span<const ChatValue> values, std::int64_t resamples) {
  if (values.size() < 2) return {};
  if (aggregation == "mean") {
    std::vector<double> numbers;
    for (const Sample& sample : samples_of(aggregation, values)) numbers.push_back(sample.a);
    return spread_of(numbers) / std::sqrt(static_cast<double>(numbers.size()));
  }
  const bool resampled =
      aggregation == "perplexity" || aggregation == "f1" || aggregation == "matthews_corrcoef";
  if (!resampled || resamples < 2) return {};
  return bootstrap_error(aggregation, samples_of(aggregation, values), resamples);
}

double pooled_mean(std::span<const double> values, std::span<const std::int64_t> sizes) {
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i] * static_cast<double>(sizes[i]);
    all += static_cast<double>(sizes[i]);
  }
  return sum / all;
}

double pooled_error(std::span<const double> errors, std::span<const std::int64_t> sizes) {
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const auto size = static_cast<double>(sizes[i]);
    sum += (size - 1) * errors[i] * errors[i] * size;
    all += size;
  }
  return std::sqrt(sum / (all - static_cast<double>(errors.size())) / all);
}

}  // namespace mt
