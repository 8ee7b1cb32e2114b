#include "train/run/checkpoint.h"

#include <algorithm>

#include "ckpt/torch_file.h"
#include "formats/finite_weights.h"
#include "formats/peft/adapted_source.h"
#include "formats/peft/peft_folder.h"
#include "model/checkpoint_tokenizer.h"
#include "model/config/megatron_args.h"
#include "model/config/model_config.h"
#include "model/families/tower.h"
#include "model/image_positions.h"
#include "model/model.h"
#include "model/model_table.h"
#include "nn/adapter.h"
#include "tensor/host_copy.h"
#include "text/same_ids.h"
#include "train/run/foreign_model.h"
#include "train/run/fp8_checkpoint.h"
#include "train/run/optimizer_checkpoint.h"
#include "train/run/run_checkpoint.h"
#include "train/run/teacher_rows.h"
#include "train/run/to_load.h"

namespace mt {

static bool packs_sequences(const PyValue& args) {
  const PyValue* const value = args.find("pack_sequences");
  return value != nullptr && *value == PyValue(true);
}

// A model knows classes of images by their numbers, in the order of their names.
static void check_same_classes(const Task& task, DType dtype, const PyValue& args,
                               const std::string& where) {
  PyValue own = PyValue::dict();
  task.describe(dtype, own);
  const PyValue *const stored = args.find("image_classes"), *const here = own.find("image_classes");
  if (stored != nullptr && here != nullptr && !(*stored == *here))
    fail(Exit::bad_config, where,
         ": was trained to tell other classes than this run's images "
         "have; with --finetune it begins anew");
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
  PyValue own = PyValue::dict();
  task.describe(o.compute_dtype(), own);
  if (const PyValue* const images = own.find("training_images"))
    compare("the number of images", "training_images", images->as_integer(where));
  if (packs_sequences(args) != packs_sequences(own))
    log.warn(concat(where, ": --pack-sequences is ", packs_sequences(args) ? "on" : "off",
                    " in the checkpoint and ", packs_sequences(own) ? "on" : "off",
                    " here: the samples after it are others than that run's"));
}

// The checkpoint to load, on all ranks, each of which has checked a part of it; if one finds
// damage, the one before, and so on at most kMostDamaged times.
static std::unique_ptr<RunCheckpoint> open_whole(const CheckpointOptions& o, ToLoad& found,
                                                 Group& ranks, const Log& log) {
  for (int damaged = 0;; ++damaged) {
    std::unique_ptr<RunCheckpoint> checkpoint;
    std::exception_ptr error;
    std::string why;
    try {
      checkpoint = open_run_checkpoint(found.place->folder, {ranks.rank(), ranks.size()});
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

// A tokenizer is what it does: files that differ may give the same ids.  What is put around a text
// is in the samples of a run, or is not.  `stored` makes that of the manifest; `may_add`: words may
// follow its own.
static void check_tokenizer(const std::string& manifest, const std::string& folder,
                            const Tokenizer& tokenizer, bool may_add,
                            const std::function<std::unique_ptr<Tokenizer>()>& stored) {
  const std::string identity = tokenizer_identity(manifest);
  if (identity.empty() || identity == tokenizer.identity()) return;
  bool same = false, more = false;
  try {
    const auto known = stored();
    same = same_vocabulary(*known, tokenizer);
    more = !same && adds_words(*known, tokenizer);
  } catch (const Error&) {  // its files are not there, or not what they were
  }
  if (!same && !(more && may_add))
    fail(Exit::bad_config, folder, ": was trained with a tokenizer of identity ", identity,
         ", but this run's has ", tokenizer.identity(),
         more ? " and further words; a new run from its weights takes them with --finetune "
                "--resize-embeddings"
              : " and gives other ids");
}

static std::unique_ptr<Tokenizer> tokenizer_in(const std::string& folder,
                                               const std::string& manifest) {
  TokenizerOptions stored = tokenizer_of_manifest(manifest);
  for (const TokenizerField& field : tokenizer_fields(stored.type))
    if (field.is_file && !field.is_default(stored))
      field.set(stored, concat(folder, "/", field.get(stored)));
  return make_tokenizer(stored);
}

// The rows of what is loaded, a model with these settings; and which of a task's model it has:
// where a run begins anew, all but the head of a task that it lacks or has with other labels, a
// value head and adapters that it lacks, which then keep their initial weights; of a Retro that
// begins as a GPT what is the GPT's; of towers that begin as a BERT what is the BERT's; and of a
// ViT of other images all, with positions of another size.
class LoadedRows {
 public:
  LoadedRows(const ModelConfig& stored, const Task& task, bool begins_anew) {
    const ModelConfig& wanted = task.model();
    const bool same = stored.task_head == wanted.task_head &&
                      stored.num_labels == wanted.num_labels &&
                      stored.value_head == wanted.value_head;
    has_adapters_ = stored.has_adapters();
    fits_gpt_ = wanted.family == ModelFamily::retro && stored.family == ModelFamily::gpt;
    fits_bert_ = wanted.family == ModelFamily::biencoder && stored.family == ModelFamily::bert;
    fits_images_ = wanted.family == ModelFamily::vit &&
                   (wanted.img_h != stored.img_h || wanted.img_w != stored.img_w ||
                    wanted.class_tokens() != stored.class_tokens());
    table_ =
        same && has_adapters_ == wanted.has_adapters() && !fits_gpt_ && !fits_bert_ && !fits_images_
            ? task.rows()
            : model_rows(stored);
    loses_norm_ = fits_gpt_ && !wanted.retro_final_layernorm;
    if (begins_anew && !same) drawn_ = wanted.task_head;
    lacks_value_ = begins_anew && wanted.value_head && !stored.value_head;
  }
  const ParamTable& table() const { return table_; }
  ParamTable take_table() { return std::move(table_); }
  bool has(const Param& row) const {
    return (drawn_.empty() || row.place.stack != drawn_) &&
           (!lacks_value_ || row.place.stack != kValueHead) &&
           (has_adapters_ || !is_adapter(row.place)) &&
           (!(fits_gpt_ || fits_bert_ || fits_images_) || in_table(row) != nullptr);
  }
  // A row of the model as it stands in what is loaded.
  Param as_stored(const Param& row) const {
    Param stored = row;
    if (fits_gpt_) stored.layers = in_table(row)->layers;
    if (fits_bert_) stored.place = in_table(row)->place;
    return stored;
  }
  // The row of positions that stand for others; null: of another row, or they are the same.
  const Param* other_positions(const Param& row) const {
    const bool positions = row.place.module == std::string_view("position_embeddings");
    return fits_images_ && positions ? in_table(row) : nullptr;
  }
  void tell(const std::string& where, const Log& log) const {
    if (!drawn_.empty())
      log.warn(
          concat(where, ": could not find ", drawn_, " in the checkpoint, initializing to random"));
    if (fits_gpt_) log.note(concat(where, ": is a GPT; what attends to neighbours begins anew"));
    if (fits_bert_) log.note(concat(where, ": is a BERT, which each tower begins as"));
    if (fits_images_)
      log.note(concat(where, ": positions of patches are interpolated to this run's images"));
    if (loses_norm_)
      log.warn(concat(where,
                      ": its final norm is left out, as by Megatron-LM; "
                      "--retro-final-layernorm keeps it"));
  }

 private:
  const Param* in_table(const Param& row) const {
    const auto& rows = table_.rows();
    const RowPlace place = fits_bert_ ? bert_place(row.place).value_or(RowPlace()) : row.place;
    const auto found = std::ranges::find(rows, place, &Param::place);
    return found == rows.end() ? nullptr : &*found;
  }

  ParamTable table_;
  std::string drawn_;  // the stack of the head
  bool has_adapters_ = false, fits_gpt_ = false, fits_bert_ = false, fits_images_ = false,
       loses_norm_ = false, lacks_value_ = false;
};

// A run goes on with the adapters that are stored.
static void check_same_adapters(const AdapterConfig& run, const AdapterConfig& stored,
                                const std::string& where) {
  const auto compare = [&](const char* name, const auto& here, const auto& there) {
    if (!(here == there))
      fail(Exit::bad_config, where, ": ", name, " is ", there, " in the adapter and ", here,
           " here");
  };
  compare("--lora-rank", run.lora_rank, stored.lora_rank);
  compare("--lora-alpha", run.lora_alpha, stored.lora_alpha);
  const auto on_off = [](bool on) { return std::string_view(on ? "on" : "off"); };
  compare("--use-rslora", on_off(run.use_rslora), on_off(stored.use_rslora));
  compare("--use-dora", on_off(run.use_dora), on_off(stored.use_dora));
  compare("--lora-targets", run.lora_targets, stored.lora_targets);
}

// A run goes on with the numbers that its frozen weights were rounded to.
static void check_same_base(const AdapterConfig& run, const AdapterConfig& stored,
                            const std::string& where) {
  const auto type = [](const AdapterConfig& config) {
    return config.quantize_base.empty() ? "none" : config.quantize_base;
  };
  if (type(run) != type(stored))
    fail(Exit::bad_config, where, ": --quantize-base is ", type(stored), " in the checkpoint and ",
         type(run), " here");
}

// They belong to the weights, whatever run these begin.
static void load_scales(TrainingState& state,
                        const std::function<std::string(const Param&)>& stored,
                        const std::string& where, const World& world, const Log& log) {
  if (state.fp8 != nullptr && state.fp8->is_delayed())
    load_fp8(*state.fp8, state.model.table(), stored, where, world, state.stream, log);
}

// Positions of this run's images from those in `stored`, a row of the source.
static void read_positions(const ModelSource& source, const Param& stored,
                           const ModelConfig& wanted, Tensor out) {
  const auto room = [](const Shape& shape) {
    return Buffer(Device::cpu, static_cast<std::size_t>(shape.numel()) * sizeof(float));
  };
  const Buffer read = room(stored.shape), made = room(out.shape());
  const Tensor from = read.tensor(DType::f32, stored.shape),
               to = made.tensor(DType::f32, out.shape());
  source.read(stored, "", from);
  resize_positions(to, wanted, from, source.config());
  dense(DType::f32, to.shape(), {static_cast<const std::byte*>(to.data()), to.bytes()})
      .copy_to({0, 0}, out);
}

// A model's classes may be called otherwise than this run's folders, which may be fewer.  Training
// takes them for others of the same numbers, and says so; what is evaluated would be told wrong.
static void compare_classes(const ModelConfig& run, const ModelConfig& stored,
                            const std::string& where, const RunOptions& options, bool tells,
                            const Log& log) {
  if (run.label_names.empty() || stored.label_names.empty()) return;
  std::vector<std::string> here = run.labels(), there = stored.labels();
  here.resize(std::min(here.size(), run.named_labels()));
  const auto [own, other] = std::ranges::mismatch(here, there);
  if (own == here.end()) return;
  const std::string text =
      concat(where, other == there.end() ? ": it has no class " : ": its class ",
             own - here.begin(), other == there.end() ? "" : " is " + *other, ", this run's is ",
             *own, "; classes are told by their numbers, in the order of their folders");
  if (options.evaluation.skip_train) fail(Exit::bad_config, text);
  if (tells) log.warn(text);
}

// The weights of a model of others', with what lies beside them.
static void load_foreign(const std::string& path, const RunOptions& options, TrainingState& state,
                         const World& world, const Log& log) {
  const bool first = world.all().rank() == 0;
  const std::unique_ptr<ModelSource> source =
      open_model(path, {.further = state.task.model().mtp_num_layers,
                        .adapter = options.checkpoint.adapter,
                        .merges_adapter = !state.task.model().has_adapters()});
  const auto* const adapted = dynamic_cast<const AdaptedSource*>(source.get());
  if (adapted != nullptr && adapted->has_words() && state.task.model().has_adapters())
    fail(Exit::bad_config, options.checkpoint.adapter.empty() ? path : options.checkpoint.adapter,
         ": has words of its own, which an adapter that is learnt has not; mt-finetune merge makes "
         "one model of it");
  if (first)
    for (const std::string& note : source->notes()) log.note(note);
  if (first && source->common().is(PyValue::Kind::dict))
    log.note(concat(source->path(), ": its model is taken, and nothing else of its run"));
  ModelConfig wanted = state.task.model();
  if (wanted.family == ModelFamily::retro && source->config().family == ModelFamily::gpt)
    wanted.family = ModelFamily::gpt;  // which it begins as
  if (wanted.family == ModelFamily::biencoder && source->config().family == ModelFamily::bert) {
    wanted.family = ModelFamily::bert;  // likewise
    wanted.encoder_num_layers = 0;
    wanted.bert_binary_head = source->config().bert_binary_head;
  }
  const std::string changed = check_same_model(wanted, source->config(), source->path(), true);
  if (first && !changed.empty()) log.note(concat(source->path(), ": ", changed));
  if (wanted.family == ModelFamily::vit)
    compare_classes(wanted, source->config(), source->path(), options, first, log);
  if (wanted.family != ModelFamily::vit)  // whose words are classes
    check_tokenizer(source->manifest_extra(), source->path(), state.task.tokenizer(),
                    options.checkpoint.resize_embeddings,
                    [&] { return source->make_tokenizer({}); });
  if (const std::int64_t known = source->config().vocab_size, words = wanted.vocab_size;
      first && wanted.family != ModelFamily::vit && words > known)
    log.note(concat(source->path(), ": knows ", known, " words, and this run ", words,
                    "; the rows of the others begin as the mean of its own"));
  if (const std::int64_t words =
          wanted.family == ModelFamily::vit ? 0 : state.task.tokenizer().vocab_size();
      first && words > wanted.vocab_size)
    log.note(concat(source->path(), ": its tokenizer has ", words,
                    " words, and the model rows for ", wanted.vocab_size,
                    "; samples may have none of the others"));
  if (source->config().has_adapters())
    check_same_adapters(
        state.task.model(), source->config(),
        options.checkpoint.adapter.empty() ? source->path() : options.checkpoint.adapter);
  const LoadedRows rows(source->config(), state.task, true);
  if (first) rows.tell(source->path(), log);
  source->check_all_used(rows.table());
  state.stream.synchronize();
  state.optimizer.set_values(
      [&](const Param& row) {
        if (state.teacher.fill(row)) return;
        const bool is_drawn = !rows.has(row), is_norm = row.place.param == Adapter::kMagnitude;
        if (is_drawn && !is_norm) return initialize(row, row.value, options.seed, state.stream);
        const HostCopy here = HostCopy::for_writing(row.value);
        if (is_drawn)
          read_magnitudes(*source, state.task.model(), row, here.tensor());
        else if (const Param* positions = rows.other_positions(row))
          read_positions(*source, *positions, state.task.model(), here.tensor());
        else
          read_part(*source, rows.as_stored(row), state.task.model().vocab_size, here.tensor());
        if (row.packed_as == PackedAs::none) check_finite(source->path(), row, here.tensor());
        here.upload();
      },
      state.stream);
  state.stream.synchronize();
  source->finish_reading();
  const auto remembered = [&](const Param& row) {
    return rows.has(row) ? source->extra_state(rows.as_stored(row)) : std::string();
  };
  load_scales(state, remembered, source->path(), world, log);
  if (first)
    for (const Companion& file : source->companions())
      state.companions.push_back({.name = file.name, .content = file.read()});
}

Loaded load_training(const RunOptions& options, TrainingState& state, const World& world,
                     const Log& log) {
  const CheckpointOptions& o = options.checkpoint;
  const Task& task = state.task;
  Group& ranks = world.all();
  ToLoad found = find_to_load(o);
  if (o.resize_embeddings && found.place && !found.begins_anew)
    fail(Exit::usage, "--resize-embeddings: ", found.place->folder,
         " is what this run goes on from, words and all; with --finetune it begins anew");
  // Whose rows may be fewer than the run's.
  if (o.resize_embeddings && found.place) found.foreign = found.place->folder;
  // A run that trains adapters begins from a model, and one that trains none from a merged one.
  const bool adapted = found.place && is_peft_folder(found.place->folder);
  if (found.place && adapted != task.model().has_adapters()) found.foreign = found.place->folder;
  // A Retro may begin as a GPT, towers as a BERT, and a ViT with other images.
  const bool is_retro = task.model().family == ModelFamily::retro,
             begins_otherwise = is_retro || task.model().family == ModelFamily::vit ||
                                task.model().family == ModelFamily::biencoder;
  if (begins_otherwise && found.place && (found.begins_anew || found.place->release))
    found.foreign = found.place->folder;
  if (!found.foreign.empty()) {
    load_foreign(found.foreign, options, state, world, log);
    return Loaded::lasting;
  }
  if (!found.place) return Loaded::nothing;
  const std::unique_ptr<RunCheckpoint> checkpoint = open_whole(o, found, ranks, log);
  const Loaded loaded = found.lasting ? Loaded::lasting : Loaded::non_persistent;
  const std::optional<CheckpointPlace>& place = found.place;
  const std::string where = checkpoint->where();
  const PyValue common = checkpoint->common(), &args = common.at("args", where);
  const PyValue* const retrieves = args.find("retro_add_retriever");
  if (is_retro && (retrieves == nullptr || !(*retrieves == PyValue(true))))
    fail(Exit::bad_config, place->folder, ": is no Retro; a GPT becomes one with --finetune");
  const ModelConfig stored = model_config_of(args, task.model().family, where);
  const std::string changed =
      check_same_model(task.model(), stored, place->folder, found.begins_anew);
  if (!found.begins_anew && !place->release && task.model().value_head != stored.value_head)
    fail(
        Exit::bad_config, place->folder, ": is of a run ", stored.value_head ? "with" : "without",
        " a value head, which mt-finetune grpo --advantage gae learns; --finetune begins anew with "
        "its other weights");
  if (ranks.rank() == 0 && !changed.empty()) log.note(concat(place->folder, ": ", changed));
  if (stored.family == ModelFamily::vit && options.evaluation.skip_train)  // else the task does
    compare_classes(task.model(), stored, place->folder, options, ranks.rank() == 0, log);
  const std::string manifest = checkpoint->manifest_extra();
  check_tokenizer(manifest, place->folder, task.tokenizer(), false,
                  [&] { return tokenizer_in(place->folder, manifest); });
  if (ranks.rank() == 0) state.companions = read_companions(place->folder + "/tokenizer");
  LoadedRows rows(stored, task, found.begins_anew || place->release);
  if (ranks.rank() == 0) rows.tell(place->folder, log);
  std::unique_ptr<ModelSource> base;
  if (adapted) {
    check_same_adapters(task.model(), stored, place->folder);
    check_same_base(task.model(), stored, place->folder);
    base = open_model(task.model().lora_base);
  }
  checkpoint->take_rows(rows.take_table());
  state.stream.synchronize();
  state.optimizer.set_values(
      [&](const Param& row) {
        if (state.teacher.fill(row)) return;
        if (!rows.has(row)) return initialize(row, row.value, options.seed, state.stream);
        const HostCopy here = HostCopy::for_writing(row.value);
        if (base && !is_adapter(row.place) && !task.model().is_new_head(row.place.stack))
          read_part(*base, row, task.model().vocab_size, here.tensor());
        else
          checkpoint->read(row, "", here.tensor());
        if (row.packed_as == PackedAs::none) check_finite(place->folder, row, here.tensor());
        here.upload();
      },
      state.stream);
  state.stream.synchronize();
  const auto remembered = [&](const Param& row) {
    return rows.has(row) ? checkpoint->extra_state(row) : std::string();
  };
  load_scales(state, remembered, place->folder, world, log);
  if (place->release || found.begins_anew) return loaded;
  check_same_classes(task, options.compute_dtype(), args, place->folder);
  if (ranks.rank() == 0) warn_of_other_samples(options, task, args, place->folder, log);
  TrainCounters& counters = state.counters;
  if (o.load_optimizer) {
    load_optimizer(*checkpoint, state.optimizer);
    if (!options.evaluation.skip_train)
      counters.scheduled_samples = load_scheduler(*checkpoint, state.schedule);
  }
  counters.iteration = common.at("iteration", where).as_integer(where);
  const auto count = [&](const char* name, std::int64_t otherwise) {
    const PyValue* value = args.find(name);
    return value == nullptr || value->is_none() ? otherwise
                                                : value->as_integer(where + ": args." + name);
  };
  counters.consumed_train_samples =
      count("consumed_train_samples", counters.iteration * options.batch.largest());
  counters.consumed_valid_samples = count("consumed_valid_samples", 0);
  counters.skipped_train_samples = count("skipped_train_samples", 0);
  if (const PyValue* done = common.find("num_floating_point_operations_so_far"))
    counters.floating_point_operations = done->as_real(where);
  return loaded;
}

}  // namespace mt
