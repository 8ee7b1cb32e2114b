#include "eval/tasks/task_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "eval/tasks/response_filters.h"
#include "text/chat/chat_python.h"

namespace mt {
namespace {

ChatValue json(const std::string& text) { return chat_value_of_json(text, "test"); }

EvalTask task_of(const std::string& yaml) { return read_eval_task("task: t\n" + yaml, "t"); }

std::string shown(const MetricValues& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += (text.empty() ? "" : " ") + name + "=" + chat_value_json(value);
  return text;
}

// Spec: log-likelihoods -4, -4.5, -3.9 of 4, 9 and 3 characters: acc picks the last, acc_norm the
// second.
TEST(TaskMetrics, Choices) {
  const EvalTask task = task_of(
      "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\n"
      "metric_list:\n- metric: acc\n- metric: acc_norm\n- metric: acc_bytes\n"
      "- metric: acc_mutual_info\n- metric: exact_match\n- metric: f1\n- metric: brier_score\n");
  EvalItem item{.choices = {"four", "nine char", "sie"}};
  const std::vector<EvalResponse> responses = {{.log_likelihood = -4, .greedy = true},
                                               {.log_likelihood = -4.5},
                                               {.log_likelihood = -3.9},
                                               {.log_likelihood = -5},
                                               {.log_likelihood = -5},
                                               {.log_likelihood = -5}};
  const auto judged = [&](ChatValue gold) {
    item.gold = std::move(gold);
    const MetricValues values = judge_likelihoods(task, item, responses);
    return shown({values.begin(), values.end() - 1});
  };
  EXPECT_EQ(judged(2),
            "acc=1.0 acc_norm=0.0 acc_bytes=0.0 acc_mutual_info=1.0 exact_match=0 f1=[2, 2]");
  EXPECT_EQ(judged(1),
            "acc=0.0 acc_norm=1.0 acc_bytes=1.0 acc_mutual_info=0.0 exact_match=0 f1=[1, 2]");
  EXPECT_EQ(judged("four"),
            "acc=0.0 acc_norm=0.0 acc_bytes=0.0 acc_mutual_info=0.0 exact_match=1 f1=[0, 2]");
  EXPECT_THROW(judged(3), Error);
  EXPECT_THROW(judged("five"), Error);
  // numpy: p = softmax(-4, -4.5, -3.9); sum((p - [1, 0, 0])**2)
  item.gold = 0;
  const ChatValue brier = judge_likelihoods(task, item, responses).back().second;
  const ChatValue one[] = {brier};
  EXPECT_NEAR(aggregate("brier_score", one), 0.6145796923201421, 1e-12);
}

TEST(TaskMetrics, TextsAndFilters) {
  const EvalTask task = task_of(
      "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\nrepeats: 3\n"
      "metric_list:\n- {metric: exact_match, ignore_case: true, ignore_punctuation: true, "
      "ignore_numbers: true, regexes_to_ignore: ['^the ']}\n"
      "filter_list:\n- name: vote\n  filter: [{function: remove_whitespace}, {function: "
      "lowercase}, "
      "{function: majority_vote}, {function: take_first}]\n"
      "- name: number\n  filter: [{function: regex, group_select: -1, "
      "regex_pattern: '(-?[$0-9.,]{2,})|(-?[0-9]+)'}, {function: take_first}]\n"
      "- name: strict\n  filter: [{function: regex, regex_pattern: '#### (\\-?[0-9\\.\\,]+)'}, "
      "{function: take_first}]\n");
  const std::vector<std::string> texts = {" The answer is $18.50. Thus 7 items", "A", "a "};
  EXPECT_EQ(chat_value_json(filtered(task.filters[0], texts)), "\"a\"");
  EXPECT_EQ(chat_value_json(filtered(task.filters[1], texts)), "\"7\"");
  EXPECT_EQ(chat_value_json(filtered(task.filters[2], texts)), "\"[invalid]\"");
  const std::vector<std::string> sum = {"so 3+4=7 #### 1,234."};
  EXPECT_EQ(chat_value_json(filtered(task.filters[1], sum)), "\"1,234.\"");
  EXPECT_EQ(chat_value_json(filtered(task.filters[2], sum)), "\"1,234.\"");
  const auto judged = [&](const char* gold, const char* text) {
    const EvalItem item{.gold = json(gold)};
    return shown(judge_text(task, item, text));
  };
  EXPECT_EQ(judged("\"The Cat!\"", "the cat 9"), "exact_match=0.0");  // a blank is left of it
  EXPECT_EQ(judged("\"the Cat!\"", "CAT9"), "exact_match=1.0");
  EXPECT_EQ(judged("[\"dog\",\"cat\"]", "Cat"), "exact_match=1.0");
  EXPECT_EQ(judged("[\"dog\",\"cat\"]", "cow"), "exact_match=0.0");
}

TEST(TaskMetrics, OverDocuments) {
  const auto all = [](const char* text) { return *json(text).items(); };
  const auto hits = all("[1,0,1,1,0]");
  EXPECT_DOUBLE_EQ(aggregate("mean", hits), 0.6);
  EXPECT_NEAR(standard_error("mean", hits, 0).value(), 0.244949, 1e-6);
  EXPECT_FALSE(standard_error("mean", all("[1]"), 0));
  EXPECT_NEAR(aggregate("perplexity", all("[-1,-3]")), std::exp(2.0), 1e-12);
  const auto weighted = all("[[-6,2],[-3,4]]");
  EXPECT_NEAR(aggregate("weighted_perplexity", weighted), std::exp(1.5), 1e-12);
  EXPECT_NEAR(aggregate("bits_per_byte", weighted), 1.5 / std::log(2.0), 1e-12);
  EXPECT_FALSE(standard_error("weighted_perplexity", weighted, 1000));
  // scikit-learn 1.9: f1_score, matthews_corrcoef
  const auto pairs = all("[[1,1],[1,0],[0,0],[0,1],[1,1]]");
  EXPECT_NEAR(aggregate("f1", pairs), 2.0 / 3, 1e-12);
  EXPECT_NEAR(aggregate("matthews_corrcoef", pairs), 1.0 / 6, 1e-12);
  EXPECT_NEAR(aggregate("matthews_corrcoef", all("[[0,0],[1,2],[2,2],[1,1]]")), 0.7, 1e-12);
  EXPECT_EQ(aggregate("matthews_corrcoef", all("[[1,1],[1,1]]")), 0);
  EXPECT_THROW(aggregate("mean", all("[\"x\"]")), Error);
}

// The spread of a mean's resamples is its standard error, nearly.
TEST(TaskMetrics, Resamples) {
  std::vector<ChatValue> values;
  for (int i = 0; i < 400; ++i) values.emplace_back(-2.0 - 0.01 * (i % 37));
  const double error = standard_error("mean", values, 0).value();
  const double resampled = standard_error("perplexity", values, 20'000).value();
  EXPECT_NEAR(resampled / aggregate("perplexity", values) / error, 1, 0.03);
  EXPECT_EQ(standard_error("perplexity", values, 20'000), resampled);
  EXPECT_FALSE(standard_error("perplexity", values, 0));
}

// lm_eval.api.metrics: aggregate_subtask_metrics, pooled_sample_stderr
TEST(TaskMetrics, Groups) {
  const double values[] = {0.5, 0.25}, errors[] = {0.1, 0.05};
  const std::int64_t sizes[] = {10, 30};
  EXPECT_DOUBLE_EQ(pooled_mean(values, sizes), 0.3125);
  EXPECT_NEAR(pooled_error(errors, sizes), 0.04497806482930845, 1e-12);
}

}  // namespace
}  // namespace mt
