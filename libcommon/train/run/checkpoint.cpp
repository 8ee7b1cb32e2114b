#include "train/run/checkpoint.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "model/checkpoint_tokenizer.h"
#include "model/config/megatron_args.h"
#include "model/model.h"
#include "model/row_checkpoint.h"
#include "tensor/host_copy.h"
#include "text/same_ids.h"
#include "train/run/foreign_model.h"
#include "train/run/optimizer_checkpoint.h"

namespace mt {

namespace {

struct ToLoad {
  std::optional<CheckpointPlace> place = {};
  bool lasting = true;
  bool begins_anew = false;  // only the weights are taken
  std::string foreign = {};  // instead of `place`: a model of others' there
};

constexpr int kMostDamaged = 3;  // checkpoints that are passed over, one after another

}  // namespace

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

static ToLoad checkpoint_to_load(const CheckpointOptions& o) {
  std::optional<CheckpointPlace> place;
  if (is_foreign_model(o.load)) {
    if (o.ckpt_step)
      fail(Exit::usage, "--ckpt-step ", *o.ckpt_step, ": ", o.load,
           " is a model, which has no iterations");
    return {.begins_anew = true, .foreign = o.load};
  }
  if (!o.load.empty()) {
    place = find_checkpoint(o.load, o.ckpt_step);
    if (!o.non_persistent_ckpt_type.empty())
      if (const auto newer = newer_non_persistent(o, place)) return {newer, false, o.finetune};
  }
  if (place) return {place, true, o.finetune};
  if (is_foreign_model(o.pretrained_checkpoint))
    return {.begins_anew = true, .foreign = o.pretrained_checkpoint};
  if (!o.pretrained_checkpoint.empty()) {
    place = find_checkpoint(o.pretrained_checkpoint);
    if (!place) fail(Exit::no_input, o.pretrained_checkpoint, ": no checkpoint there");
  } else if (o.exit_on_missing_checkpoint) {
    fail(Exit::no_input, o.load,
         ": no checkpoint there, and --exit-on-missing-checkpoint is given");
  }
  return {place, true, true};
}

// What a run can go on from instead, as its last checkpoint but one: nothing where it was asked for
// just that checkpoint, or for weights alone.
static std::optional<ToLoad> checkpoint_before(const CheckpointOptions& o, const ToLoad& found) {
  std::error_code error;
  if (o.ckpt_step || found.begins_anew || found.place->release ||
      std::filesystem::equivalent(found.place->folder, o.load, error))
    return {};
  ToLoad before;
  if (!found.lasting) before.place = find_checkpoint(o.load);
  if (found.lasting)
    for (const std::int64_t iteration : list_checkpoints(o.load))
      if (iteration < found.place->iteration)
        before.place = {iteration_folder(o.load, iteration), iteration};
  return before.place ? std::optional(before) : std::nullopt;
}

// A checkpoint that a run without --non-persistent-ckpt-type passes over.
static void warn_of_newer(const CheckpointOptions& o, const ToLoad& found, const Log& log) {
  if (o.load.empty() || o.ckpt_step || !o.non_persistent_ckpt_type.empty()) return;
  const std::string folder = o.non_persistent_folder(o.load);
  if (!std::filesystem::is_directory(folder)) return;
  const std::vector<std::int64_t> iterations = list_checkpoints(folder);
  if (!iterations.empty() && (!found.place || iterations.back() > found.place->iteration))
    log.warn(concat(folder, ": holds iteration ", iterations.back(), ", newer than what ", o.load,
                    " does; --non-persistent-ckpt-type global goes on from there"));
}

void prepare_folders(const CheckpointOptions& o, const Log& log) {
  warn_of_newer(o, checkpoint_to_load(o), log);
  if (o.save.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(o.save, error);
  if (error == std::errc::not_a_directory)
    fail(Exit::cannot_create, o.save, ": is a file, expected a folder for checkpoints");
  errno = error.value();
  if (error || ::access(o.save.c_str(), W_OK | X_OK) != 0)
    fail_errno(o.save, "cannot create checkpoints there", Exit::cannot_create);
  complete_tracker(o.save);
  if (o.goes_on_in_place()) return;
  if (const auto place = find_checkpoint(o.save))
    log.warn(concat(o.save, ": holds iteration ", place->iteration, " of another run, since ",
                    o.load.empty() ? "there is no --load" : concat("--load is ", o.load),
                    "; checkpoints of equal iterations will be replaced",
                    o.keep_last || o.save_retain_interval ? ", and older ones deleted" : ""));
}

// The samples that a checkpoint counts as consumed are those of its own order.
static void warn_of_other_samples(const RunOptions& o, const Task& task, const PyValue& args,
                                  const std::string& where, const Log& log) {
  const auto compare = [&](const char* name, const char* stored, std::int64_t here) {
    const PyValue* value = args.find(stored);
    if (value == nullptr || value->is_none()) return;
    const std::int64_t there = value->as_integer(concat(where, ": args.", stored));
    if (there != here)
      log.warn(concat(where, ": ", name, " is ", there, " in the checkpoint and ", here,
                      " here: the samples after it are others than that run's"));
  };
  compare("--seq-length", "seq_length", task.seq_length());
  compare("--seed", "seed", static_cast<std::int64_t>(o.seed));
}

// The checkpoint to load, on all ranks, each of which has checked a part of it; if one finds
// damage, the one before, and so on at most kMostDamaged times.
static std::unique_ptr<MegatronCheckpoint> open_whole(const CheckpointOptions& o, ToLoad& found,
                                                      Group& ranks, const Log& log) {
  for (int damaged = 0;; ++damaged) {
    std::unique_ptr<MegatronCheckpoint> checkpoint;
    std::exception_ptr error;
    std::string why;
    try {
      checkpoint = std::make_unique<MegatronCheckpoint>(
          found.place->folder, MegatronCheckpoint::Part{ranks.rank(), ranks.size()});
    } catch (const Error& e) {
      if (e.code() != Exit::bad_data && e.code() != Exit::no_input) throw;
      error = std::current_exception();
      why = e.what();
    }
    double failed = error ? 1 : 0;
    ranks.all_reduce({&failed, DType::f64, {1}}, Reduction::max).wait();
    if (failed == 0) return checkpoint;
    const auto before = damaged == kMostDamaged ? std::nullopt : checkpoint_before(o, found);
    if (!before) {
      if (error) std::rethrow_exception(error);
      ranks.barrier();  // throws, as another rank does
    }
    if (error) log.warn(concat(why, "; going on from ", before->place->folder));
    found = *before;
  }
}

// If a checkpoint is damaged, of the one before, as open_whole() goes on from that.
static std::optional<std::int64_t> vocabulary_of(const CheckpointOptions& o, const ToLoad& found,
                                                 int damaged = 0) {
  if (!found.foreign.empty()) return open_model(found.foreign)->config().vocab_size;
  if (!found.place) return {};
  try {
    const std::string& folder = found.place->folder;
    const MegatronCheckpoint checkpoint(folder, {.while_reading = true});
    const PyValue* const size = checkpoint.common().at("args", folder).find("vocab_size");
    if (size == nullptr || size->is_none()) return {};
    return size->as_integer(folder + ": args.vocab_size");
  } catch (const Error&) {
    const auto before = damaged == kMostDamaged ? std::nullopt : checkpoint_before(o, found);
    if (!before) throw;
    return vocabulary_of(o, *before, damaged + 1);
  }
}

std::optional<std::int64_t> stored_vocabulary(const CheckpointOptions& o) {
  if (o.load.empty() && o.pretrained_checkpoint.empty()) return {};
  try {
    return vocabulary_of(o, checkpoint_to_load(o));
  } catch (const Error&) {  // of which load_training() tells
    return {};
  }
}

// A tokenizer is what it does: files that differ may give the same ids.  What is put around a text is
// in the samples of a run, or is not.  `stored` makes that of the manifest.
static void check_tokenizer(const std::string& manifest, const std::string& folder,
                            const Tokenizer& tokenizer,
                            const std::function<std::unique_ptr<Tokenizer>()>& stored) {
  const std::string identity = tokenizer_identity(manifest);
  if (identity.empty() || identity == tokenizer.identity()) return;
  bool same = false;
  try {
    same = same_vocabulary(*stored(), tokenizer);
  } catch (const Error&) {  // its files are not there, or not what they were
  }
  if (!same)
    fail(Exit::bad_config, folder, ": was trained with a tokenizer of identity ", identity,
         ", but this run's has ", tokenizer.identity(), " and gives other ids");
}

static std::unique_ptr<Tokenizer> tokenizer_in(const std::string& folder,
                                               const std::string& manifest) {
  TokenizerOptions stored = tokenizer_of_manifest(manifest);
  for (const TokenizerField& field : tokenizer_fields(stored.type))
    if (field.is_file && !field.is_default(stored))
      field.set(stored, concat(folder, "/", field.get(stored)));
  return make_tokenizer(stored);
}

// The weights of a model of others', with what lies beside them.
static void load_foreign(const std::string& path, TrainingState& state, bool first,
                         const Log& log) {
  const std::unique_ptr<ModelSource> source = open_model(path);
  if (first)
    for (const std::string& note : source->notes()) log.note(note);
  check_same_model(state.task.model(), source->config(), source->path());
  check_tokenizer(source->manifest_extra(), source->path(), state.task.tokenizer(),
                  [&] { return source->make_tokenizer({}); });
  source->check_all_used(state.task.rows());
  state.stream.synchronize();
  state.optimizer.set_values(
      [&](const Param& row) {
        const HostCopy here = HostCopy::for_writing(row.value);
        read_part(*source, row, here.tensor());
        here.upload();
      },
      state.stream);
  state.stream.synchronize();
  source->finish_reading();
  if (first)
    for (const Companion& file : source->companions())
      state.companions.push_back({.name = file.name, .content = file.read()});
}

Loaded load_training(const RunOptions& options, TrainingState& state, const World& world,
                     const Log& log) {
  const CheckpointOptions& o = options.checkpoint;
  const Task& task = state.task;
  Group& ranks = world.all();
  ToLoad found = checkpoint_to_load(o);
  if (!found.foreign.empty()) {
    load_foreign(found.foreign, state, ranks.rank() == 0, log);
    return Loaded::lasting;
  }
  if (!found.place) return Loaded::nothing;
  const std::unique_ptr<MegatronCheckpoint> opened = open_whole(o, found, ranks, log);
  const Loaded loaded = found.lasting ? Loaded::lasting : Loaded::non_persistent;
  const MegatronCheckpoint& checkpoint = *opened;
  const std::optional<CheckpointPlace>& place = found.place;
  const std::string where = place->folder + ": common.pt";
  const PyValue& args = checkpoint.common().at("args", where);
  check_same_model(task.model(), model_config_of(args, task.model().family, where), place->folder);
  const std::string manifest = checkpoint.manifest_extra();
  check_tokenizer(manifest, place->folder, task.tokenizer(),
                  [&] { return tokenizer_in(place->folder, manifest); });
  if (ranks.rank() == 0) state.companions = read_companions(place->folder + "/tokenizer");
  check_all_used(checkpoint.tensors(), task.rows());
  state.stream.synchronize();
  state.optimizer.set_values(
      [&](const Param& row) { read_row(checkpoint.tensors(), row, {}, row.value); }, state.stream);
  state.stream.synchronize();
  if (place->release || found.begins_anew) return loaded;
  if (ranks.rank() == 0) warn_of_other_samples(options, task, args, place->folder, log);
  TrainCounters& counters = state.counters;
  if (o.load_optimizer) {
    load_optimizer(checkpoint, state.optimizer);
    if (!options.evaluation.skip_train)
      counters.scheduled_samples = load_scheduler(checkpoint, state.schedule);
  }

  counters.iteration = checkpoint.common().at("iteration", where).as_integer(where);
  const auto count = [&](const char* name, std::int64_t otherwise) {
    const PyValue* value = args.find(name);
    return value == nullptr || value->is_none() ? otherwise
                                                : value->as_integer(where + ": args." + name);
  };
  counters.consumed_train_samples =
      count("consumed_train_samples", counters.iteration * options.batch.largest());
  counters.consumed_valid_samples = count("consumed_valid_samples", 0);
  counters.skipped_train_samples = count("skipped_train_samples", 0);
  if (const PyValue* done = checkpoint.common().find("num_floating_point_operations_so_far"))
    counters.floating_point_operations = done->as_real(where);
  return loaded;
}

}  // namespace mt
