#include "train/run/to_load.h"

#include <filesystem>
#include <vector>

#include "base/log.h"
#include "base/near_path.h"
#include "ckpt/megatron_checkpoint.h"
#include "formats/model_source.h"
#include "formats/peft/peft_folder.h"
#include "train/options/checkpoint_options.h"
#include "train/run/foreign_model.h"
#include "train/run/run_checkpoint.h"

namespace mt {

namespace fs = std::filesystem;

// The non-persistent checkpoint, where it is not older than the lasting one.
static std::optional<CheckpointPlace> newer_non_persistent(
    const CheckpointOptions& o, const std::optional<CheckpointPlace>& lasting) {
  if (o.ckpt_step) return std::nullopt;
  const std::string folder = o.non_persistent_folder(o.load);
  const auto place = find_checkpoint(folder);
  if (place && place->release)
    fail(Exit::bad_data, folder, ": a release, expected checkpoints of a run");
  return place && (!lasting || place->iteration >= lasting->iteration) ? place : std::nullopt;
}

// A new run may begin where --load names nothing, an empty folder, or where it saves.
static void check_may_begin(const CheckpointOptions& o) {
  if (o.load.empty()) return;
  if (o.exit_on_missing_checkpoint)
    fail(Exit::no_input, o.load,
         ": no checkpoint there, and --exit-on-missing-checkpoint is given");
  if (o.finetune) fail_without_model(o.load);
  if (!o.save.empty() && is_same_file(o.load, o.save)) return;
  if (!names_beside(o.load + "/").empty()) fail_without_model(o.load);
}

ToLoad find_to_load(const CheckpointOptions& o) {
  std::optional<CheckpointPlace> place;
  if (std::string foreign = find_foreign_model(o.load, o.ckpt_step); !foreign.empty())
    return {.begins_anew = true, .foreign = std::move(foreign)};
  if (!o.load.empty()) {
    place = find_checkpoint(o.load, o.ckpt_step);
    if (!o.non_persistent_ckpt_type.empty())
      if (const auto newer = newer_non_persistent(o, place)) return {newer, false, o.finetune};
  }
  if (place) return {place, true, o.finetune};
  if (std::string foreign = find_foreign_model(o.pretrained_checkpoint, {}); !foreign.empty())
    return {.begins_anew = true, .foreign = std::move(foreign)};
  if (o.pretrained_checkpoint.empty()) {
    check_may_begin(o);
  } else {
    place = find_checkpoint(o.pretrained_checkpoint);
    if (!place) fail_without_model(o.pretrained_checkpoint);
  }
  return {place, true, true};
}

std::optional<ToLoad> checkpoint_before(const CheckpointOptions& o, const ToLoad& found) {
  std::error_code error;
  if (o.ckpt_step || found.begins_anew || found.place->release ||
      fs::equivalent(found.place->folder, o.load, error))
    return {};
  ToLoad before;
  if (!found.lasting) before.place = find_checkpoint(o.load);
  if (found.lasting)
    for (const std::int64_t iteration : list_checkpoints(o.load))
      if (iteration < found.place->iteration)
        before.place = {iteration_folder(o.load, iteration), iteration};
  return before.place ? std::optional(before) : std::nullopt;
}

void warn_of_newer(const CheckpointOptions& o, const ToLoad& found, const Log& log) {
  if (o.load.empty() || o.ckpt_step || !o.non_persistent_ckpt_type.empty()) return;
  const std::string folder = o.non_persistent_folder(o.load);
  if (!fs::is_directory(folder)) return;
  const std::vector<std::int64_t> iterations = list_checkpoints(folder);
  if (!iterations.empty() && (!found.place || iterations.back() > found.place->iteration))
    log.warn(concat(folder, ": holds iteration ", iterations.back(), ", newer than what ", o.load,
                    " does; --non-persistent-ckpt-type global goes on from there"));
}

static std::optional<StoredSettings> settings_of(const CheckpointOptions& o, const ToLoad& found,
                                                 std::int64_t further, int damaged = 0) {
  const bool adapts = found.place && !o.adapter.empty() && !is_peft_folder(found.place->folder);
  if (!found.foreign.empty() || adapts) {
    const std::string& path = adapts ? found.place->folder : found.foreign;
    const std::unique_ptr<ModelSource> model =
        open_model(path, {.further = further, .adapter = o.adapter, .merges_adapter = false});
    return StoredSettings{path, model->config(), model->config().max_position_embeddings};
  }
  if (!found.place) return {};
  try {
    const std::string& folder = found.place->folder;
    const auto checkpoint = open_run_checkpoint(folder, {.while_reading = true});
    const std::string where = checkpoint->where();
    const PyValue common = checkpoint->common(), &args = common.at("args", where);
    StoredSettings stored{folder, checkpoint->settings(), {}};
    if (const PyValue* const length = args.find("seq_length"); length && !length->is_none())
      stored.seq_length = length->as_integer(where + ": args.seq_length");
    return stored;
  } catch (const Error&) {
    const auto before = damaged == kMostDamaged ? std::nullopt : checkpoint_before(o, found);
    if (!before) throw;
    return settings_of(o, *before, further, damaged + 1);
  }
}

std::optional<StoredSettings> stored_settings(const CheckpointOptions& o, std::int64_t further) {
  constexpr int kMost = 10;  // times that another run replaces what was found
  if (o.load.empty() && o.pretrained_checkpoint.empty()) return {};
  ToLoad found = find_to_load(o);
  for (int times = 0;; ++times) {
    try {
      return settings_of(o, found, further);
    } catch (const Error&) {
      const ToLoad newer = find_to_load(o);
      const bool replaced =
          found.place && newer.place && newer.place->folder != found.place->folder;
      if (times == kMost || !replaced) throw;
      found = newer;
    }
  }
}

}  // namespace mt
