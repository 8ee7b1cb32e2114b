// The flags of Megatron-LM core_v0.12 that no option of mt-pretrain declares, each with what
// happens to it and why; mt-flags(7) is made from the option table and these.
//   implied: its effect always holds here, or it says how the same numbers are computed, so it is
//            accepted, and --print-config says so
//   refused: not supported, an error that says why, so that no run differs silently from what its
//            script asks for; a value that asks for nothing (a size of 1) is accepted
// Who adds an option of one of these names deletes its line here.
#pragma once

#include "base/command.h"

namespace mt {

// After all declarations of mt-pretrain: a flag that is declared and listed is a std::logic_error.
void add_megatron_flags(CommandLine& cl);

// The part of it that belongs to models other than a dense GPT, in model_flags.cpp.
void add_other_model_flags(CommandLine& cl);

// Those of other releases, which the program may declare itself, in release_flags.cpp; and those of
// them that are of what other programs do here, in other_program_flags.cpp.
void add_release_flags(CommandLine& cl);
void add_other_program_flags(CommandLine& cl);

// Those of its forks and of ModelOpt, in fork_flags.cpp.
void add_fork_flags(CommandLine& cl);

}  // namespace mt
