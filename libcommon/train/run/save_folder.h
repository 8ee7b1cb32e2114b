// The folder that a run saves in: made, locked and seen to be the run's own before any work is
// done.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "ckpt/save_lock.h"
#include "train/options/run_options.h"

namespace mt {

// Makes sure, before any work is done, that there is what must be loaded and that options.save can
// be written to; Exit::cannot_create where that holds a checkpoint of a run that this one does not
// go on from, unless options.force.  The lock is on that folder.
std::unique_ptr<SaveLock> prepare_folders(const RunOptions& options, const Log& log);

// What the line that tells of a run's early end says behind it: what was saved, and how to go on.
std::string how_to_go_on(const CheckpointOptions& options);

}  // namespace mt
