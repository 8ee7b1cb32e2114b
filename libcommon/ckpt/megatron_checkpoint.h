// A folder of Megatron-LM checkpoints in the `torch_dist` format (core_v0.12.1):
//   SAVE/latest_checkpointed_iteration.txt   the tracker: "1000", or "release"; replaced last
//   SAVE/iter_0001000/
//     common.pt                 torch.save of a dict: iteration, checkpoint_version, args, ...;
//                               Megatron's main branch has it as an object of the tensors' instead
//     __R_N.distcp, .metadata   the tensors (ckpt/dist_checkpoint.h)
//     metadata.json             {"sharded_backend": "torch_dist", ...}: makes it torch_dist
//     mt-manifest.json          hash of every file (ckpt/checkpoint_manifest.h); others ignore it
//
// A published checkpoint is whole or absent.  Everything is written into
// SAVE/iter_0001000.tmp.PID, every file and then the folder synced, the folder renamed to
// iter_0001000, SAVE synced, and only then is the tracker replaced (written aside, synced, renamed,
// SAVE synced).  A crash leaves the previous checkpoint and its tracker, and at most a *.tmp.PID
// folder that the next save removes (ckpt/folder_save.h).  The folder keeps its mark until the
// tracker names it, so that a first save which dies between the two is known for what it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/checkpoint_place.h"
#include "ckpt/dist_checkpoint.h"
#include "ckpt/folder_save.h"

namespace mt {

inline constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
// Megatron Bridge's, beside that or alone: a state of PyTorch whose step is the iteration.
inline constexpr const char* kTrainState = "latest_train_state.pt";

inline constexpr const char* kCommonObject = "common_state/shard_0_1";  // instead of common.pt

enum class CheckpointFormat { torch_dist, torch, torch_dcp };

// By content: metadata.json, mp_rank_0*, .metadata, in this order.  Exit::bad_data for none.
CheckpointFormat detect_checkpoint_format(const std::string& iteration_folder);

// A checkpoint's own files: what its manifest lists, and what Megatron-LM too calls so.  A folder
// without manifest that a conversion or a run would replace may be Megatron-LM's.
FolderFiles checkpoint_files();

// SAVE/iter_0001000, or SAVE/release for iteration 0.
std::string checkpoint_folder(const std::string& save_folder, std::int64_t iteration);

// Returns checkpoint_folder() for a save, once it has removed what dead processes left of such
// folders and of the tracker.
std::string folder_to_save(const std::string& save_folder, std::int64_t iteration);
void write_tracker(const std::string& save_folder, std::int64_t iteration);
// Does what saves that died once their folders had their names did not come to: the tracker of a
// first one is written, and marks (kSaveMark) are removed.
void complete_saves(const std::string& save_folder);

// Whether a folder is a checkpoint's own, of torch_dist or torch, and no folder of checkpoints.
bool is_one_checkpoint(const std::string& folder);

// Which checkpoint of `save_folder` to load: itself, if it is a checkpoint's own folder; iteration
// `step` if given (ignored for a release), else what the tracker says, or Megatron Bridge's own;
// Exit::bad_data if it is malformed.  Without one it is the newest, if its save died just before it
// wrote the tracker, and nothing if none is whole; other checkpoints are then Exit::no_input.
std::optional<CheckpointPlace> find_checkpoint(const std::string& save_folder,
                                               std::optional<std::int64_t> step = {});

// Iterations whose folders exist, ascending: to fall back to, or to delete old ones.
std::vector<std::int64_t> list_checkpoints(const std::string& save_folder);

// Deletes a checkpoint that is not wanted any more: renamed first, so that readers find it whole or
// not at all, and a save removes what is left if this dies.  A symbolic link is left alone, and so
// is a folder with anything that is no checkpoint's own.
void delete_checkpoint(const std::string& save_folder, std::int64_t iteration);

std::string iteration_folder(const std::string& save_folder, std::int64_t iteration);

// An opened torch_dist checkpoint.  Of a checkpoint with a manifest every file is checked against
// its size, and against its hash by the reader whose part it is: with N ranks, reader r of N takes
// each N-th file, so that all are read once.  A difference is Exit::bad_data and names the file.
class MegatronCheckpoint {
 public:
  struct Part {
    int index = 0, count = 1;    // an index of `count` takes none
    bool while_reading = false;  // hashes of large files are compared by finish_reading()
  };
  MegatronCheckpoint(const std::string& iteration_folder, Part verified);
  explicit MegatronCheckpoint(const std::string& iteration_folder)
      : MegatronCheckpoint(iteration_folder, Part()) {}

  const DistReader& tensors() const { return tensors_; }
  // Exit::bad_data if a file differs from its hash that was to be checked while reading.
  void finish_reading() const;
  // A dict: common.pt, or the object common_state/shard_0_1 of newer Megatron.
  const PyValue& common() const { return common_; }
  const TorchReader* common_tensors() const { return &*common_reader_; }  // that it refers to
  // A tensor of the common state (a gradient scaler's), copied to `out` of equal dtype and shape.
  void read_common_tensor(const PyValue& value, Tensor out) const;

  std::string manifest_extra() const;  // JSON as given to finish(); {} without a manifest

 private:
  std::optional<CheckpointManifest> manifest_;
  std::unique_ptr<HashedReads> reads_;
  DistReader tensors_;  // opened once the files are verified
  std::optional<MappedFile> common_file_;
  std::optional<TorchReader> common_reader_;
  PyValue common_;
};

// One save in progress.  Rank 0 makes it and tells the others its folder; every rank writes there
// with a DistWriter; rank 0 gathers their WrittenFiles, finishes and publishes.  Destroyed before
// that, all that was written is removed.  Errors are one line: Exit::cannot_create, io_error (disk
// full), no_permission.
class CheckpointSave {
 public:
  // Makes SAVE if need be, and removes what dead processes left there.  Iteration 0 is a release.
  // `replaces` is FolderSave's.
  CheckpointSave(const std::string& save_folder, std::int64_t iteration, bool replaces = true);

  const std::string& folder() const { return save_.folder(); }  // SAVE/iter_0001000.tmp.PID

  struct Content {
    std::vector<WrittenFile> files;  // of all ranks
    // A dict, with tensors made by common_writer(); None if kCommonObject is among the files'
    // items.
    PyValue common;
    PyValue mcore_data = PyValue::dict();
    std::string manifest_extra = "{}";  // JSON: tokenizer identity and the like
  };
  TorchWriter& common_writer() { return common_writer_; }

  // Completes the folder.
  void finish(const Content& content);
  // On return the checkpoint is on the disk and the tracker names it.
  void publish();

 private:
  std::string save_folder_;
  std::int64_t iteration_;
  FolderSave save_;
  TorchWriter common_writer_;
};

}  // namespace mt
