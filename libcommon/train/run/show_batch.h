// What one step of a run reads: `mt-pretrain show-batch STEP`.
#pragma once

#include <cstdint>
#include <iosfwd>

namespace mt {

class Log;
class Task;
struct RunOptions;

// Writes the samples of the `step`-th step (from 1) of a run that begins with these options, in
// order: who computes each, and of which tokens of which documents it is made, with their text.
//   sample 16 of the run: rank 0, micro-batch 0
//     corpus_text_document, document 5, tokens 0 to 20: "Once upon …"
// or, with --json, one object a sample:
//   {"schema":"mt-batch/1","step":3,"sample":16,"rank":0,"micro_batch":0,"parts":
//    [{"file":"corpus_text_document","document":5,"sequence":5,"begin":0,"end":20,"text":"…"}]}
// Tokens are counted in the document's sequence, `end` is one past the last; the last token of all
// is only predicted.  Samples of BERT and T5 are shown as `mt-preprocess samples` does
// (show_samples.h).  Exit::bad_config past the end of the run.
void show_batch(const RunOptions& options, Task& task, std::int64_t step, const Log& log,
                std::ostream& out);

}  // namespace mt
