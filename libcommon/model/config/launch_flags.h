// LaunchFlags: what a launch script of Megatron's says of a model that a program loads, and of how
// it is run.  The checkpoint says what the model is, so a script can only say the same or be wrong:
// nothing of it is passed over.
#pragma once

#include <string>

#include "model/config/model_config.h"

namespace mt {

// Flags of how numbers are computed, which are the same for any program: there is one way.
void imply_numerics(CommandLine& cl);

// Likewise of how strictly a checkpoint is read.
void imply_checkpoint_checks(CommandLine& cl);

class LaunchFlags {
 public:
  // After all that the program declares itself: the settings of a model, and flags of a run whose
  // effect always holds for one that only reads it.  `cl` must outlive check().
  void add_to(CommandLine& cl);
  // After parse(): Exit::bad_config, naming a setting that the command line has otherwise than the
  // model at `path`, unless --use-checkpoint-args is given.
  void check(const ModelConfig& stored, const std::string& path) const;
  bool takes_checkpoints() const { return use_checkpoint_args_; }  // what differs is no error

 private:
  const CommandLine* cl_ = nullptr;  // of add_to()
  bool use_checkpoint_args_ = false;
};

}  // namespace mt
