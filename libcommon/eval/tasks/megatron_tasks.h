// Megatron-LM's own zero-shot tasks (tasks/zeroshot_gpt), with the numbers and the lines that it
// prints: WIKITEXT103, the perplexity of one text in windows that overlap, and LAMBADA, whether the
// last token or the last word of a passage is the likeliest.  Neither is the task of
// lm-evaluation-harness of a like name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/tasks/task_run.h"
#include "eval/windows.h"

namespace mt {

using PrintText = std::function<void(std::string_view)>;

// The text as it stood before it was cut into tokens, by the rules that Megatron-LM has for files
// whose path has "ptb", "wiki" or "lambada" in it.  Exit::usage for another path.
std::string megatron_detokenized(const std::string& text, const std::string& path);

// One file.  Its first token is not scored; windows as eval/windows.h cuts them.
void run_wikitext103(const std::string& path, const EvalModel& model, const Windows& windows,
                     bool json, const PrintText& print);

// Files of JSON lines with `text`.  strict: the last word, behind what stands before it without
// white space; else the last token.  A passage that is longer than the model takes loses its
// beginning.
void run_lambada(const std::vector<std::string>& paths, const EvalModel& model, bool strict,
                 bool json, const PrintText& print);

}  // namespace mt
