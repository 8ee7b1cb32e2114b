// MMLU's tasks, which the program has itself: one for each subject, in four groups that are
// together a group, too.
#pragma once

#include "eval/tasks/builtin_tasks.h"

namespace mt {

std::vector<std::string> mmlu_task_names();
std::vector<std::string> mmlu_group_names();
// The task or the group of this name; nothing where MMLU has none.
std::optional<std::string> mmlu_task(std::string_view name);
std::optional<TaskGroup> mmlu_group(std::string_view name);

}  // namespace mt
