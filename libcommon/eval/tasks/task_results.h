// What a task's documents come to: a line of JSON for each document and filter, in
// lm-evaluation-harness's words, and the results of all, as JSON and as a table.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "eval/tasks/builtin_tasks.h"
#include "eval/tasks/eval_task.h"
#include "eval/tasks/task_run.h"

namespace mt {

// TaskScores: of a task's documents, by filter and metric.
class TaskScores {
 public:
  explicit TaskScores(const EvalTask& task) : task_(task) {}

  // Judges an answer; returns its lines, one for each filter.  `tokens`: they have the tokens and
  // their log-probabilities, too.
  std::string add(const EvalAnswer& answer, bool tokens);
  // Counts a line that add() has returned before.  Exit::bad_data, beginning with `place`, where it
  // is none of the document that comes next.
  void add_line(std::string_view line, std::string_view place);
  std::int64_t documents() const;  // that have all their lines

  struct Result {
    std::string metric, filter;
    double value = 0;
    std::optional<double> error = {};
    bool higher_is_better = true;
  };
  std::vector<Result> results(std::int64_t resamples) const;
  const EvalTask& task() const { return task_; }

 private:
  const EvalTask& task_;
  std::int64_t lines_ = 0;
  std::map<std::pair<std::string, std::string>, std::vector<ChatValue>> values_;  // filter, metric
};

// EvalResults: of tasks, and of groups of them.
class EvalResults {
 public:
  struct Entry {
    std::string name, alias, version;
    std::int64_t num_fewshot = 0, original = 0, effective = 0;  // documents: all, and those asked
    int depth = 0;                                              // of groups that it is in
    bool is_group = false;
    std::vector<TaskScores::Result> results = {};
    ChatValue config = {};
  };
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  // Puts a group before the entries from `first` on, of which those a level below count, by their
  // sizes.
  void add_group(const TaskGroup& group, std::size_t first, int depth);
  std::size_t size() const { return entries_.size(); }

  // Members of an object: results, n-shot, n-samples, configs, versions, higher_is_better.
  void write(JsonWriter& json) const;
  std::string table() const;  // Markdown's

 private:
  std::vector<Entry> entries_;
};

}  // namespace mt
