#include "train/run/save_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "ckpt/megatron_checkpoint.h"
#include "formats/model_source.h"
#include "train/run/to_load.h"

namespace mt {

// What others saved is replaced only by who was told to.
static void check_is_own(const CheckpointOptions& o, const Log& log) {
  const auto place = o.goes_on_in_place() ? std::nullopt : find_checkpoint(o.save);
  if (!place) return;
  const std::string holds = concat(
      o.save, ": holds iteration ", place->iteration, " of another run, since ",
      o.load.empty() ? "there is no --load"
                     : concat(o.finetune ? "--finetune begins anew from " : "--load is ", o.load));
  if (!o.force)
    fail(Exit::cannot_create, holds, "; --load ", o.save, " goes on from it, --force replaces it");
  log.warn(concat(holds, "; checkpoints of equal iterations will be replaced",
                  o.keep_last || o.save_retain_interval ? ", and older ones deleted" : ""));
}

// A folder that is read as a model by what lies there would be read as the run's, too.
static void refuse_folder_of_a_model(const CheckpointOptions& o) {
  if (find_checkpoint(o.save)) return;
  if (const std::string sign = sign_of_model(o.save); !sign.empty())
    fail(Exit::cannot_create, o.save, ": is a model's folder, by its ", sign,
         "; expected another one for checkpoints");
}

std::unique_ptr<SaveLock> prepare_folders(const RunOptions& options, const Log& log) {
  const CheckpointOptions& o = options.checkpoint;
  const ToLoad found = find_to_load(o);
  warn_of_newer(o, found, log);
  if (o.save.empty()) return {};
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(o.save, error);
  if (error == std::errc::not_a_directory)
    fail(Exit::cannot_create, o.save, ": is a file, expected a folder for checkpoints");
  errno = error.value();
  if (error || ::access(o.save.c_str(), W_OK | X_OK) != 0)
    fail_errno(o.save, "cannot create checkpoints there", Exit::cannot_create);
  refuse_folder_of_a_model(o);
  auto lock = std::make_unique<SaveLock>(o.save);
  if (is_new) lock->own_folder();
  complete_saves(o.save);
  check_is_own(o, log);
  // Ranks that are started again go on from what the tracker names, until they have saved more.
  const bool goes_back = o.ckpt_step && o.goes_on_in_place() && options.ranks.max_restarts() > 0;
  if (goes_back && !found.place->release) write_tracker(o.save, *o.ckpt_step);
  return lock;
}

std::string how_to_go_on(const CheckpointOptions& options) {
  if (options.save.empty()) return "; nothing was saved, for want of --save";
  if (!find_checkpoint(options.save)) return "; nothing was saved yet: run the same command again";
  if (options.goes_on_in_place()) return ", saved; run the same command to go on";
  return concat(", saved; run the same command with --load ", options.save,
                options.finetune ? " and without --finetune to go on" : " to go on");
}

}  // namespace mt
