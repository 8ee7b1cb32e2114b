// The state of a training run in a checkpoint: parameters, optimizer, counters.  It does not depend
// on the number of ranks: a run may go on with any other.
#pragma once

#include <string>

#include "comm/world.h"
#include "model/gpt.h"
#include "optim/optimizer.h"
#include "train/train_options.h"

namespace mt {

struct TrainCounters {
  std::int64_t iteration = 0, consumed_train_samples = 0, consumed_valid_samples = 0;
  std::int64_t skipped_train_samples = 0;  // part of consumed_train_samples, or rounded off steps
  std::int64_t scheduled_samples = 0;      // of steps that were not skipped for their gradients
  double floating_point_operations = 0;
};

// What a checkpoint keeps of a run.
struct TrainingState {
  Gpt& model;
  Optimizer& optimizer;
  ParamSchedule& schedule;
  TrainCounters& counters;
  Stream& stream;
};

// Whether options.load and options.save are the same folder.
bool goes_on_in_place(const TrainOptions& options);

// Makes sure, before any work is done, that there is what must be loaded and that options.save can
// be written to; warns of a checkpoint there that this run does not go on from.
void prepare_folders(const TrainOptions& options, const Log& log);

// Called on every rank; on return the checkpoint is published: a lasting one in options.save, where
// --save-retain-interval and --keep-last then delete older ones; else the only one in
// options.non_persistent_folder().  Each rank that has something of its own, a part of the weights
// or of the distributed optimizer's state, writes a file.  Returns the folder.
std::string save_training(const TrainOptions& options, bool lasting, const TrainingState& state,
                          const TrainData& data, const World& world);

enum class Loaded { nothing, lasting, non_persistent };

// Called on every rank; fills the state from options.load, where there is a checkpoint.  Warns
// where the run sees other samples than the checkpoint's did.  A model, tokenizer or schedule that
// differs is Exit::bad_config.
Loaded load_training(const TrainOptions& options, TrainingState& state, const TrainData& data,
                     const World& world, const Log& log);

}  // namespace mt
