// What a run is to load, as its options say and as it lies there: a checkpoint of a run, or a model
// of others'; and what that tells of the run's settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ckpt/checkpoint_place.h"
#include "model/config/model_config.h"

namespace mt {

class Log;
struct CheckpointOptions;

struct ToLoad {
  std::optional<CheckpointPlace> place = {};
  bool lasting = true;
  bool begins_anew = false;  // only the weights are taken
  std::string foreign = {};  // instead of `place`: a model of others' there
};

inline constexpr int kMostDamaged = 3;  // checkpoints that are passed over, one after another

// Finds nothing where a run may begin without.  Exit::no_input, with what is there instead, where
// it may not: with --finetune, or where --load names what is neither a checkpoint nor the folder
// that this run saves in.
ToLoad find_to_load(const CheckpointOptions& options);

// What a run can go on from instead, as its last checkpoint but one: nothing where it was asked for
// just that checkpoint, or for weights alone.
std::optional<ToLoad> checkpoint_before(const CheckpointOptions& options, const ToLoad& found);

// Warns of a checkpoint that a run without --non-persistent-ckpt-type passes over.
void warn_of_newer(const CheckpointOptions& options, const ToLoad& found, const Log& log);

struct StoredSettings {
  std::string where;                       // the checkpoint's own folder, or the model's
  ModelConfig model;                       // completed
  std::optional<std::int64_t> seq_length;  // of its samples; of a model of others', all it may have
};

// The settings of what is to be loaded, if anything is; of the checkpoint before, where it is
// damaged and a run would go on from that.  further: ModelSourceOptions'.
std::optional<StoredSettings> stored_settings(const CheckpointOptions& options,
                                              std::int64_t further);

}  // namespace mt
