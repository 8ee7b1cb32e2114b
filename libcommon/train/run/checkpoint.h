// The state of a training run in a checkpoint: parameters, optimizer, counters.  It does not depend
// on the number of ranks: a run may go on with any other.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ckpt/megatron_checkpoint.h"
#include "comm/world.h"
#include "formats/model_source.h"
#include "model/checkpoint_tokenizer.h"
#include "optim/optimizer.h"
#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {

class Fp8Layers;
class TeacherRows;
struct ConvertOptions;

struct TrainCounters {
  std::int64_t iteration = 0, consumed_train_samples = 0, consumed_valid_samples = 0;
  std::int64_t skipped_train_samples = 0;  // part of consumed_train_samples, or rounded off steps
  std::int64_t scheduled_samples = 0;      // of steps that were not skipped for their gradients
  double floating_point_operations = 0;
};

// A run's tokenizer as its checkpoints keep it, read when the run begins.
struct KeptTokenizer {
  std::vector<TokenizerCopy> files;
  std::string manifest;
};

// What a checkpoint keeps of a run.
struct TrainingState {
  const Task& task;
  Model& model;
  Optimizer& optimizer;
  ParamSchedule& schedule;
  TrainCounters& counters;
  Stream& stream;
  const KeptTokenizer& tokenizer;  // on rank 0
  // What lies beside the tokenizer in the checkpoint that the run went on from, on rank 0.
  std::vector<Companion>& companions;
  const TeacherRows& teacher;
  Fp8Layers* fp8 = nullptr;  // null: no layer multiplies codes of eight bits
};

// A checkpoint on its way to the disk; every rank makes one and publishes it.  A lasting one is in
// options.save, where --save-retain-interval and --keep-last then delete older ones; else it is the
// only one in options.non_persistent_folder().  Each rank writes a file: its share of the weights
// that it has in common with others, and its part of the distributed optimizer's state.
class TrainingSave {
 public:
  // The state as it is now.  With options.async_save it is copied, and a thread writes it; what
  // that throws is thrown by publish().  `when_written` is called once this rank's part is written;
  // once every rank's is, publish() will not wait.
  TrainingSave(const RunOptions& options, bool lasting, const TrainingState& state,
               const World& world, std::function<void()> when_written);
  TrainingSave(const TrainingSave&) = delete;
  ~TrainingSave();  // before publish(), all that was written is removed

  const std::string& folder() const { return save_folder_; }
  void publish();  // on return the checkpoint is on the disk and the tracker names it

 private:
  void write_own();
  // Unless the run's own tokenizer has a file of that name.
  void add_companion(const Companion& file, const std::string& folder);
  // Of rank 0: the checkpoint in the torch format, which becomes the one that lasts.
  void publish_ranks();

  const RunOptions& run_;
  const CheckpointOptions& options_;
  Group& ranks_;
  bool lasting_;
  std::string save_folder_;
  std::string first_folder_;  // where it is written first: another if its format is torch
  std::int64_t iteration_;
  std::optional<CheckpointSave> save_;  // of rank 0
  CheckpointSave::Content content_;     // of rank 0, but for the tensors' files
  std::optional<DistWriter> writer_;    // of a rank that writes
  std::vector<WrittenFile> own_;
  std::exception_ptr error_;
  std::function<void()> when_written_;
  std::thread thread_;  // the last: it uses all others
};

// A conversion into files of such ranks, of which all else is to be said.
ConvertOptions conversion_for(const RankOptions& ranks);

enum class Loaded { nothing, lasting, non_persistent };

// Called on every rank; fills the state from options.load, where there is a checkpoint.  Warns
// where the run sees other samples than the checkpoint's did.  A model, tokenizer or schedule that
// differs is Exit::bad_config.
Loaded load_training(const RunOptions& options, TrainingState& state, const World& world,
                     const Log& log);

}  // namespace mt
