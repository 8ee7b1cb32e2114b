// What a training takes from a project, as Megatron-LM core_v0.12.1 does (load_retro_args() of
// megatron/training/arguments.py).
#pragma once

#include <memory>

#include "data/samples/retro_samples.h"

namespace mt {

class CommandLine;
struct PretrainOptions;

// Gives a run the settings of the project that --retro-project-dir names: its token files, split,
// tokenizer, lengths, batch, evaluations, seed and chunks.  Files, tokenizer and cache may be given
// otherwise; of the others Exit::bad_config where one is given and not the project's, for which
// neighbours are known.  Does nothing where there is no project.
void take_project(CommandLine& cl, PretrainOptions& options);

// Opens the neighbours of a run's samples, if it has any, when the command line is parsed.
void open_neighbors(PretrainOptions& options);

}  // namespace mt
