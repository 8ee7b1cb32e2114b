// What mt-eval measures: each reads the options' inputs, scores them with the model and prints what
// it found, with --json line by line as texts are scored.  Whoever calls has checked the options
// and that the model is of a family that fits.  Exit::bad_config for lengths that the model does
// not take, Exit::bad_data for inputs that cannot be read or have nothing to score.
#pragma once

#include "eval/eval_options.h"

namespace mt {

class Progress;

// The perplexity of texts under a GPT or a Mamba (eval/perplexity.h).
void measure_perplexity(const EvalOptions& options, const LoadedModel& loaded, Progress& progress);

// How well a BERT guesses masked words, of samples or of each word of a text in turn, and a T5
// spans that were cut out (eval/guesses.h).
void measure_masked_words(const EvalOptions& o, const LoadedModel& loaded, Progress& progress);
void measure_pseudo_perplexity(const EvalOptions& o, const LoadedModel& loaded, Progress& progress);
void measure_spans(const EvalOptions& o, const LoadedModel& loaded, Progress& progress);

// Tasks by their names or files (eval/tasks/task_session.h), and Megatron-LM's own two
// (eval/tasks/megatron_tasks.h).
void measure_tasks(const EvalOptions& o, const LoadedModel& loaded, Progress& progress);
void measure_wikitext103(const EvalOptions& o, const LoadedModel& loaded, Progress& progress);
void measure_lambada(const EvalOptions& o, const LoadedModel& loaded, Progress& progress);

}  // namespace mt
