// The tasks that the program has itself, as task files (eval/tasks/eval_task.h), with the texts of
// lm-evaluation-harness's; their documents are the rows of the data sets that they name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

std::vector<std::string> builtin_task_names();                   // sorted; groups are none
std::optional<std::string> builtin_task(std::string_view name);  // its file; nothing: there is none

// A group: tasks and groups whose results count together, by their sizes.
struct TaskGroup {
  std::string name, alias;
  std::vector<std::string> members;
};
std::vector<std::string> builtin_group_names();
std::optional<TaskGroup> builtin_group(std::string_view name);

}  // namespace mt
