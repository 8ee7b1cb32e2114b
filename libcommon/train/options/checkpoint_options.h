// CheckpointOptions: what a run goes on from, and where and when it is saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mt {

class CommandLine;

struct CheckpointOptions {
  std::string save, load;
  std::string format = "torch_dist";         // of what is saved: that, or "torch"
  std::string convert_format, convert_save;  // instead of the run: see mt-pretrain.cpp
  std::optional<std::int64_t> save_interval, non_persistent_save_interval;
  std::string non_persistent_ckpt_type;        // "global", or "": such checkpoints are not loaded
  std::string non_persistent_global_ckpt_dir;  // see non_persistent_folder()
  bool load_optimizer = true, save_optimizer = true;
  bool finetune = false, exit_on_missing_checkpoint = false;
  bool force = false;              // replaces checkpoints of another run
  bool writes_further = false;     // a file besides, which force replaces, too
  bool resize_embeddings = false;  // for words that the checkpoint's tokenizer has not
  bool use_args = false;           // the model is what the checkpoint says, whatever flags say
  std::string pretrained_checkpoint;
  std::string adapter;  // of PEFT's, with which a run begins that loads a model
  std::optional<std::int64_t> ckpt_step, save_retain_interval, keep_last;
  const char* keep_option = "--keep-last";  // says keep_last
  bool async_save = false, fully_parallel_save = true;

  void add_to(CommandLine& cl);
  void complete(bool draws) const;  // checks what must fit together; a plan may draw an image
  // Makes ranks that may be started again after a failure go on from what this run has saved;
  // `attempt` says how often they were.
  void go_on_after_failures(int attempt);

  bool converts() const { return !convert_format.empty() || !convert_save.empty(); }
  // Whether --load and --save are the same folder.
  bool goes_on_in_place() const;
  // Where the checkpoint is that each of its kind replaces, for lasting ones in `checkpoints`.
  std::string non_persistent_folder(const std::string& checkpoints) const {
    return non_persistent_global_ckpt_dir.empty() ? checkpoints + "/non_persistent"
                                                  : non_persistent_global_ckpt_dir;
  }
};

}  // namespace mt
