// Metrics of a document's answers, and what they come to over all documents, with their standard
// errors, as lm-evaluation-harness computes them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eval/tasks/eval_task.h"
#include "eval/tasks/task_prompt.h"

namespace mt {

// What a model says to a request: how likely what follows is, and whether each of its tokens was
// the likeliest; or a text.
struct EvalResponse {
  double log_likelihood = 0;
  bool greedy = false;
  std::string text = {};
};

// By its name: a number, or what is only a number over all documents, a list of two.
using MetricValues = std::vector<std::pair<std::string, ChatValue>>;

// Of answers to a document's requests, in their order.
MetricValues judge_likelihoods(const EvalTask& task, const EvalItem& item,
                               std::span<const EvalResponse> responses);
// Of the text, or the list of them, that a filter leaves of what was generated.
MetricValues judge_text(const EvalTask& task, const EvalItem& item, const ChatValue& filtered);

// Over all documents, of which there is at least one.  Exit::bad_data for values of another kind
// than the aggregation's.
double aggregate(std::string_view aggregation, std::span<const ChatValue> values);
// Its standard error: of a mean from the spread of the values, of others from so many resamples of
// the documents; nothing where none is known.
std::optional<double> standard_error(std::string_view aggregation,
                                     std::span<const ChatValue> values, std::int64_t resamples);

// Of a group, from its tasks' values, errors and sizes.
double pooled_mean(std::span<const double> values, std::span<const std::int64_t> sizes);
double pooled_error(std::span<const double> errors, std::span<const std::int64_t> sizes);

}  // namespace mt
