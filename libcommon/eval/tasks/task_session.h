// TaskSession: measures a model by tasks: finds their files and documents, runs one after the
// other, writes a line for each document and the results of all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/tasks/task_results.h"
#include "eval/tasks/task_run.h"

namespace mt {

class CommandLine;

struct TaskOptions {
  std::string data, fewshot, system, output_dir;
  std::optional<std::int64_t> num_fewshot, limit;
  std::int64_t bootstrap_iters = 100'000;
  bool apply_chat_template = false, multiturn = false, resume = false, force = false,
       log_tokens = false;

  void add_to(CommandLine& cl);
  const char* given() const;  // the name of one that is given, which asks for a task; or null
  void check() const;         // Exit::usage for one that has no effect without another
};

// Whether it names tasks: one of the program's own, a group, or a file; several with commas
// between.
bool names_tasks(std::string_view asked);

struct TaskSettings {
  std::string asked = {};                // as --task has it
  std::vector<std::string> inputs = {};  // of the one task; none: the options say where they are
  TaskOptions options = {};
  std::uint64_t seed = 1234;  // by which examples are drawn
  bool json = false;
  // The model as results name it, and all that a run that goes on must have alike, as JSON.
  std::string model = {}, run = {};
  std::function<std::string(const ChatValue& messages, bool goes_on)> chat = {};
};

// The tasks that a run measures, read and found; constant once made.  Exit::usage for a name that
// is none, and for documents that nothing names.
class TaskPlan {
 public:
  struct Planned {
    EvalTask task;
    std::vector<std::string> documents, pool;  // files
    std::int64_t num_fewshot = 0;
  };
  // A group of the tasks from `first` on, up to but without `end`.
  struct Group {
    TaskGroup group;
    std::size_t first = 0, end = 0;
    int depth = 0;
  };
  explicit TaskPlan(const TaskSettings& settings);

  const std::vector<Planned>& tasks() const { return tasks_; }
  const std::vector<Group>& groups() const { return groups_; }  // those within others after them
  int depth_of(std::size_t task) const;

 private:
  void add(const TaskSettings& settings, const std::string& name, int depth);
  void add_task(const TaskSettings& settings, EvalTask task, const std::string& folder);

  std::vector<Planned> tasks_;
  std::vector<Group> groups_;
};

// The documents of some files, a JSON object a line; at least one.
EvalDocs read_docs(const std::vector<std::string>& paths);

// print: takes what goes to stdout.  done: is told of each document that is answered.
void run_tasks(const TaskPlan& plan, const TaskSettings& settings, const EvalModel& model,
               const std::function<void(std::string_view)>& print,
               const std::function<void()>& done);

}  // namespace mt
