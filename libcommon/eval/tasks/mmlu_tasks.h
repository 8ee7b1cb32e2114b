// Of the tasks that the program has itself those of MMLU: one of each subject, in four groups,
// which together are a group, too.
#pragma once

#include "eval/tasks/builtin_tasks.h"

namespace mt {

std::vector<std::string> mmlu_task_names();
std::vector<std::string> mmlu_group_names();
// Nothing: it is none of these.
std::optional<std::string> mmlu_task(std::string_view name);
std::optional<TaskGroup> mmlu_group(std::string_view name);

}  // namespace mt
