// What a task's filters leave of the texts that a model makes.
#pragma once

#include <span>
#include <string>

#include "eval/tasks/eval_task.h"

namespace mt {

// Of some texts, which answer the same request: a text, or a list.  Exit::bad_data where there is
// no match of the number that is asked for.
ChatValue filtered(const EvalFilter& filter, std::span<const std::string> texts);

}  // namespace mt
