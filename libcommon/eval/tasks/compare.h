// compare_items: two models' answers to the same documents, from the lines that mt-eval or
// lm-evaluation-harness wrote of them.
//
// Documents are the same where task, document (by its hash) and filter are; a file that names no
// task is of any.  Of a metric that is 0 or 1 of each document, the test is McNemar's, exact:
//   p = min(1, 2 sum_{i <= min(b, c)} C(b + c, i) / 2^(b + c)),
// b and c being how many are right in one alone.  Of others it is that of the mean difference, of
// whose sign each document's is turned at random, 10,000 times.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/chat/chat_value.h"

namespace mt {

struct ComparedMetric {
  std::string task = {}, filter = {}, metric = {};
  std::int64_t documents = 0;
  bool is_accuracy = false;
  std::int64_t only_a = 0, only_b = 0;  // of an accuracy: right in one alone
  double a = 0, b = 0;                  // means
  double error = 0;                     // of their difference
  double p = 1;
};

struct ChangedItem {
  std::string task, filter, metric;
  ChatValue id;  // the document's, in A
  double a = 0, b = 0;
};

struct Comparison {
  std::vector<ComparedMetric> metrics;
  std::vector<ChangedItem> changed;     // of accuracies
  std::int64_t only_a = 0, only_b = 0;  // lines that the other has not
};

// Exit::bad_data, "PATH:LINE: ...", for a line that is none of such; where no line is the same.
Comparison compare_items(const std::string& a, const std::string& b);

// For people: a line for each changed document, then for each metric; and as a line of JSON.
std::string comparison_text(const Comparison& comparison);
std::string comparison_json(const Comparison& comparison);

double mcnemar_p(std::int64_t b, std::int64_t c);
double sign_flip_p(std::span<const double> differences);

}  // namespace mt
