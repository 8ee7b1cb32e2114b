#include "train/checkpoint.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "model/checkpoint_tokenizer.h"
#include "model/gpt_checkpoint.h"

namespace mt {

static std::string state_prefix(const std::string& name) { return "optimizer.state." + name + "."; }

bool goes_on_in_place(const TrainOptions& o) {
  std::error_code error;
  return !o.save.empty() && !o.finetune &&
         (o.load == o.save || std::filesystem::equivalent(o.load, o.save, error));
}

// What to load, and whether it is to begin a new run.
static std::pair<std::optional<CheckpointPlace>, bool> checkpoint_to_load(const TrainOptions& o) {
  std::optional<CheckpointPlace> place;
  if (!o.load.empty()) place = find_checkpoint(o.load, o.ckpt_step);
  if (place) return {place, o.finetune};
  if (!o.pretrained_checkpoint.empty()) {
    place = find_checkpoint(o.pretrained_checkpoint);
    if (!place) fail(Exit::no_input, o.pretrained_checkpoint, ": no checkpoint there");
  } else if (o.exit_on_missing_checkpoint) {
    fail(Exit::no_input, o.load,
         ": no checkpoint there, and --exit-on-missing-checkpoint is given");
  }
  return {place, true};
}

void prepare_folders(const TrainOptions& o, const Log& log) {
  checkpoint_to_load(o);
  if (o.save.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(o.save, error);
  if (error == std::errc::not_a_directory)
    fail(Exit::cannot_create, o.save, ": is a file, expected a folder for checkpoints");
  errno = error.value();
  if (error || ::access(o.save.c_str(), W_OK | X_OK) != 0)
    fail_errno(o.save, "cannot create checkpoints there", Exit::cannot_create);
  if (goes_on_in_place(o)) return;
  if (const auto place = find_checkpoint(o.save))
    log.warn(concat(o.save, ": holds iteration ", place->iteration, " of another run, since ",
                    o.load.empty() ? "there is no --load" : concat("--load is ", o.load),
                    "; checkpoints of equal iterations will be replaced"));
}

static PyValue make_args(const TrainOptions& o, const TrainCounters& counters,
                         const Tokenizer& tokenizer) {
  PyValue args = PyValue::dict();
  const auto set = [&](const char* name, PyValue value) { args.set_item(name, std::move(value)); };
  add_gpt_args(o.model, o.compute_dtype(), args);
  for (const char* name : {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                           "context_parallel_size", "expert_model_parallel_size"})
    set(name, 1);
  set("encoder_tensor_model_parallel_size", 0);
  set("encoder_pipeline_model_parallel_size", 0);
  set("virtual_pipeline_model_parallel_size", PyValue());
  set("num_layers_per_virtual_pipeline_stage", PyValue());
  set("world_size", o.ranks);
  set("data_parallel_size", o.ranks);
  set("use_distributed_optimizer", false);
  set("ckpt_fully_parallel_save", false);
  set("ckpt_format", "torch_dist");
  set("async_save", false);
  set("data_parallel_random_init", false);
  set("no_save_optim", o.save_optimizer ? PyValue() : PyValue(true));
  set("no_save_rng", true);  // there is no state of random numbers
  set("seq_length", o.data.seq_length);
  set("micro_batch_size", o.micro_batch_size);
  set("global_batch_size", o.batch_size());
  set("train_iters", o.train_iters);
  set("seed", static_cast<std::int64_t>(o.seed));
  set("tokenizer_type", std::string(tokenizer.type()));
  set("consumed_train_samples", counters.consumed_train_samples);
  set("skipped_train_samples", counters.skipped_train_samples);
  set("consumed_valid_samples", counters.consumed_valid_samples);
  return PyValue::make(PyValue::global("argparse", "Namespace"), args);
}

// Fused Adam's groups: rows that decay, then rows that do not.
static PyValue make_optimizer(const TrainOptions& o, const Optimizer& optimizer,
                              double learning_rate) {
  const AdamOptions& adam = o.optimizer.adam;
  PyValue groups = PyValue::list();
  for (const double decay_mult : {1.0, 0.0})
    groups.append(PyValue::dict({{"lr", learning_rate},
                                 {"betas", PyValue::tuple({adam.beta1, adam.beta2})},
                                 {"eps", adam.eps},
                                 {"weight_decay", o.weight_decay * decay_mult},
                                 {"bias_correction", true},
                                 {"step", optimizer.steps()},
                                 {"wd_mult", decay_mult},
                                 {"lr_mult", 1.0},
                                 {"is_expert_parallel", false},
                                 {"is_decoupled_lr", false},
                                 {"max_lr", o.lr.lr},
                                 {"min_lr", o.lr.min_lr}}));
  return PyValue::dict(
      {{"state", PyValue::dict({{"common_step", optimizer.steps()}})}, {"param_groups", groups}});
}

static PyValue make_scheduler(const TrainOptions& o, const TrainCounters& counters) {
  return PyValue::dict({{"max_lr", o.lr.lr},
                        {"lr_warmup_steps", o.lr.warmup_samples},
                        {"num_steps", counters.consumed_train_samples},
                        {"lr_decay_style", o.lr.decay_style},
                        {"lr_decay_steps", o.lr.decay_samples},
                        {"min_lr", o.lr.min_lr},
                        {"start_wd", o.weight_decay},
                        {"end_wd", o.weight_decay},
                        {"wd_incr_style", "constant"},
                        {"wd_incr_steps", o.train_iters * o.batch_size()}});
}

void save_training(const TrainOptions& o, const TrainCounters& counters, const Gpt& model,
                   const Optimizer& optimizer, const TrainData& data) {
  CheckpointSave save(o.save, counters.iteration);
  DistWriter writer(save.folder(), 0);
  const ParamTable& table = model.table();
  write_rows(writer, table, "", [](const Param& row) { return row.value; });
  write_extra_states(writer, o.model);
  CheckpointSave::Content content;
  content.common =
      PyValue::dict({{"args", make_args(o, counters, data.tokenizer())},
                     {"checkpoint_version", 3.0},
                     {"iteration", counters.iteration},
                     {"opt_param_scheduler", make_scheduler(o, counters)},
                     {"num_floating_point_operations_so_far", counters.floating_point_operations}});
  if (o.save_optimizer) {
    for (std::size_t slot = 0; slot < Optimizer::state_names().size(); ++slot)
      write_rows(writer, table, state_prefix(Optimizer::state_names()[slot]),
                 [&](const Param& row) { return optimizer.state(row, slot); });
    content.common.set_item("optimizer",
                            make_optimizer(o, optimizer, o.lr.at(counters.consumed_train_samples)));
  }
  content.files = write_tokenizer(save.folder(), data.tokenizer_options());
  content.files.push_back(writer.close());
  content.manifest_extra =
      tokenizer_manifest(data.tokenizer_options(), data.tokenizer().identity());
  save.publish(content);
}

void delete_old_checkpoints(const TrainOptions& o, std::int64_t latest) {
  if (!o.save_retain_interval && !o.keep_last) return;
  std::int64_t kept = 1;  // the latest
  std::vector<std::int64_t> iterations = list_checkpoints(o.save);
  for (auto i = iterations.rbegin(); i != iterations.rend(); ++i) {
    if (*i >= latest || kept++ < o.keep_last.value_or(1)) continue;
    if (!o.save_retain_interval || *i % *o.save_retain_interval != 0) delete_checkpoint(o.save, *i);
  }
}

static std::string on_off(bool value) { return value ? "on" : "off"; }

static void check_same_model(const GptConfig& run, const GptConfig& stored,
                             const std::string& where) {
  const auto check = [&](const char* name, const auto& ours, const auto& theirs) {
    if (ours != theirs)
      fail(Exit::bad_config, where, ": ", name, " is ", theirs, " in the checkpoint and ", ours,
           " here");
  };
  check("--num-layers", run.num_layers, stored.num_layers);
  check("--hidden-size", run.hidden_size, stored.hidden_size);
  check("--ffn-hidden-size", run.ffn(), stored.ffn());
  check("--num-attention-heads", run.num_attention_heads, stored.num_attention_heads);
  check("--num-query-groups", run.kv_heads(), stored.kv_heads());
  check("--kv-channels", run.head_dim(), stored.head_dim());
  check("--position-embedding-type", run.position_embedding_type, stored.position_embedding_type);
  check("--rotary-base", run.rotary_base, stored.rotary_base);
  check("--rotary-percent", run.rotary_percent, stored.rotary_percent);
  check("--rotary-interleaved", on_off(run.rotary_interleaved), on_off(stored.rotary_interleaved));
  check("--use-rope-scaling", on_off(run.use_rope_scaling), on_off(stored.use_rope_scaling));
  check("--rope-scaling-factor", run.rope_scaling_factor, stored.rope_scaling_factor);
  check("--rotary-seq-len-interpolation-factor", run.rotary_interpolation.value_or(1),
        stored.rotary_interpolation.value_or(1));
  for (std::int64_t layer = 0; layer < run.num_layers; ++layer)
    check("the window of a layer (--window-size)", run.window(layer), stored.window(layer));
  check("--apply-layernorm-1p", on_off(run.apply_layernorm_1p), on_off(stored.apply_layernorm_1p));
  check("--qk-layernorm", on_off(run.qk_layernorm), on_off(stored.qk_layernorm));
  check("--squared-relu", on_off(run.squared_relu), on_off(stored.squared_relu));
  check("--normalization", run.normalization, stored.normalization);
  check("--norm-epsilon", run.norm_epsilon, stored.norm_epsilon);
  check("--swiglu", on_off(run.swiglu), on_off(stored.swiglu));
  check("--untie-embeddings-and-output-weights", on_off(run.untie_embeddings_and_output_weights),
        on_off(stored.untie_embeddings_and_output_weights));
  check("--disable-bias-linear", on_off(!run.add_bias_linear), on_off(!stored.add_bias_linear));
  check("a bias in the QKV projection", on_off(run.has_qkv_bias()), on_off(stored.has_qkv_bias()));
  check("GeLU in its tanh form", on_off(run.activation() == Activation::gelu_tanh),
        on_off(stored.activation() == Activation::gelu_tanh));
  if (stored.position_embedding_type == "learned_absolute")
    check("--max-position-embeddings", run.max_position_embeddings, stored.max_position_embeddings);
}

static void load_optimizer(const MegatronCheckpoint& checkpoint, const ParamTable& table,
                           Optimizer& optimizer) {
  const std::string where = checkpoint.tensors().folder() + ": common.pt";
  const PyValue* stored = checkpoint.common().find("optimizer");
  if (stored == nullptr)
    fail(Exit::bad_data, where, ": no optimizer state; --no-load-optim starts with a fresh one");
  if (const PyValue* inner = stored->find("optimizer")) stored = inner;  // mixed precision's
  const auto& groups = stored->at("param_groups", where).as_items(where + ": param_groups");
  if (groups.empty()) fail(Exit::bad_data, where, ": optimizer.param_groups is empty");
  optimizer.set_steps(groups.front().at("step", where).as_integer(where + ": step"));
  for (std::size_t slot = 0; slot < Optimizer::state_names().size(); ++slot)
    read_rows(checkpoint.tensors(), table, state_prefix(Optimizer::state_names()[slot]),
              [&](const Param& row) { return optimizer.state(row, slot); });
}

// The samples that a checkpoint counts as consumed are those of its own order.
static void warn_of_other_samples(const TrainOptions& o, const PyValue& args,
                                  const std::string& where, const Log& log) {
  const auto compare = [&](const char* name, const char* stored, std::int64_t here) {
    const PyValue* value = args.find(stored);
    if (value == nullptr || value->is_none()) return;
    const std::int64_t there = value->as_integer(concat(where, ": args.", stored));
    if (there != here)
      log.warn(concat(where, ": ", name, " is ", there, " in the checkpoint and ", here,
                      " here: the samples after it are others than that run's"));
  };
  compare("--seq-length", "seq_length", o.data.seq_length);
  compare("--seed", "seed", static_cast<std::int64_t>(o.seed));
}

std::optional<TrainCounters> load_training(const TrainOptions& o, Gpt& model, Optimizer& optimizer,
                                           const TrainData& data, const Group& ranks,
                                           const Log& log) {
  const auto [place, only_weights] = checkpoint_to_load(o);
  if (!place) return std::nullopt;
  const MegatronCheckpoint checkpoint(place->folder, {ranks.rank(), ranks.size()});
  const std::string where = place->folder + ": common.pt";
  const PyValue& args = checkpoint.common().at("args", where);
  check_same_model(o.model, gpt_config_of(args, where), place->folder);
  const std::string identity = tokenizer_identity(checkpoint);
  if (!identity.empty() && identity != data.tokenizer().identity())
    fail(Exit::bad_config, place->folder, ": was trained with a tokenizer of identity ", identity,
         ", but this run's has ", data.tokenizer().identity());
  check_all_used(checkpoint.tensors(), model.table());
  read_rows(checkpoint.tensors(), model.table(), "", [](const Param& row) { return row.value; });
  if (place->release || only_weights) return TrainCounters{};
  if (ranks.rank() == 0) warn_of_other_samples(o, args, place->folder, log);
  if (o.load_optimizer) load_optimizer(checkpoint, model.table(), optimizer);

  TrainCounters counters{.iteration = checkpoint.common().at("iteration", where).as_integer(where)};
  const auto count = [&](const char* name, std::int64_t otherwise) {
    const PyValue* value = args.find(name);
    return value == nullptr || value->is_none() ? otherwise
                                                : value->as_integer(where + ": args." + name);
  };
  counters.consumed_train_samples =
      count("consumed_train_samples", counters.iteration * o.batch_size());
  counters.consumed_valid_samples = count("consumed_valid_samples", 0);
  counters.skipped_train_samples = count("skipped_train_samples", 0);
  if (const PyValue* done = checkpoint.common().find("num_floating_point_operations_so_far"))
    counters.floating_point_operations = done->as_real(where);
  return counters;
}

}  // namespace mt
