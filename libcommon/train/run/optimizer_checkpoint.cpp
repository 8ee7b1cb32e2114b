#include "train/run/optimizer_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "formats/megatron/rank_optimizer.h"
#include "model/row_checkpoint.h"
#include "ops/kept.h"
#include "tensor/host_copy.h"

namespace mt {

static const char* const kShardingType = "fully_sharded_model_space";

static bool is_reformulated(const Optimizer& optimizer) {
  return optimizer.options().use_distributed_optimizer && optimizer.options().name == "adam";
}

// --- Tensors ------------------------------------------------------------------------------------

static void write_piece(DistWriter& writer, const Optimizer::Piece& piece, const std::string& state,
                        const Tensor& flat) {
  const HostCopy here = HostCopy::of(flat);
  for (const KeyPart& part : reformulated_parts(*piece.row, piece.begin, piece.end))
    writer.add(
        state_prefix(state) + part.key, part.whole, part.offset,
        here.tensor().rows(part.begin - piece.begin, part.end - piece.begin).reshape(part.chunk));
}

// What has fewer bits is stored in f32, as Megatron's is.
static bool is_narrow(const Tensor& kept) { return size_of(kept.dtype()) < sizeof(float); }

// Memory for as much, in f32.
static Buffer wide_storage(const Tensor& kept) {
  return {Device::cpu, static_cast<std::size_t>(kept.numel()) * sizeof(float)};
}

static Tensor as_stored(const Tensor& kept, const Tensor& scale, Buffer& storage) {
  if (!is_narrow(kept)) return kept;
  storage = wide_storage(kept);
  const Tensor wide = storage.tensor(DType::f32, kept.shape());
  read_all(wide.span<float>(), kept, scale);
  return wide;
}

void write_optimizer(DistWriter& writer, const Optimizer& optimizer) {
  for (const Optimizer::Piece& piece : optimizer.pieces()) {
    if (!optimizer.counts(*piece.row) || !optimizer.keeps_own_piece(*piece.row)) continue;
    const auto write = [&](const std::string& name, const Tensor& kept, const Tensor& scale) {
      Buffer storage;
      const Tensor stored = as_stored(kept, scale, storage);
      if (is_reformulated(optimizer))
        write_piece(writer, piece, name, stored);
      else
        write_row(writer, *piece.row, name, stored.reshape(piece.row->local));
    };
    if (is_reformulated(optimizer) || piece.has_master)
      write(kMaster, piece.master, piece.master_scale);
    const std::vector<std::string>& names = Optimizer::state_names(piece.rule);
    for (std::size_t i = 0; i < names.size(); ++i) write(names[i], piece.state[i], piece.scales[i]);
  }
}

PyValue make_mcore_data(const Optimizer& optimizer, const ParamTable& table) {
  PyValue data = PyValue::dict();
  if (!is_reformulated(optimizer)) return data;
  std::set<std::string> keys;
  for (const Param& row : table.rows()) {
    if (!row.trainable) continue;
    for (const KeyPart& part : key_parts(row, {.of_state = true})) {
      if (!keys.insert(part.key).second) continue;
      const std::span<const std::int64_t> extents = part.whole.extents();
      const PyValue original = PyValue::dict(
          {{std::string(kOriginalShapeField), PyValue::tuple({extents.begin(), extents.end()})}});
      for (const char* state : {kMaster, "exp_avg", "exp_avg_sq"})
        data.set_item(state_prefix(state) + part.key, original);
    }
  }
  return data;
}

static void check_sharding_type(const PyValue* type, const std::string& where) {
  if (type == nullptr || type->is_none()) return;
  const std::string& name = type->as_string(where);
  if (name != kShardingType && name != "fully_reshardable")
    fail(Exit::bad_data, where, ": the optimizer's state is stored as ", name, ", expected ",
         kShardingType);
}

static PyValue stored_optimizer(const RunCheckpoint& checkpoint, const std::string& where) {
  const PyValue common = checkpoint.common();
  const PyValue* stored = common.find("optimizer");
  if (stored == nullptr)
    fail(Exit::bad_data, where, ": no optimizer state; --no-load-optim starts with a fresh one");
  check_sharding_type(stored->find("param_state_sharding_type"), where);
  if (const PyValue* content = common.find("content_metadata"))
    if (!content->is_none())
      check_sharding_type(content->find("distrib_optim_sharding_type"), where);
  return *stored;
}

// Fills a piece's part of what is stored of its row.
static void load_piece(const RunCheckpoint& from, const Optimizer::Piece& piece,
                       const std::string& state, const Tensor& into) {
  const Param& row = *piece.row;
  if (into.numel() == row.local.numel()) return from.read(row, state, into.reshape(row.local));
  const Buffer whole(Device::cpu,
                     static_cast<std::size_t>(row.local.numel()) * size_of(into.dtype()));
  from.read(row, state, whole.tensor(into.dtype(), row.local));
  const Tensor flat = whole.tensor(into.dtype(), {row.local.numel()});
  const HostCopy here = HostCopy::for_writing(into);
  std::memcpy(here.tensor().data(), flat.rows(piece.begin, piece.end).data(), into.bytes());
  here.upload();
}

// What is stored, as it is kept.
static void load_kept(const RunCheckpoint& from, const Optimizer::Piece& piece,
                      const std::string& state, const Tensor& kept, const Tensor& scale) {
  if (!is_narrow(kept)) return load_piece(from, piece, state, kept);
  const Buffer storage = wide_storage(kept);
  const Tensor wide = storage.tensor(DType::f32, kept.shape());
  load_piece(from, piece, state, wide);
  write_all(kept, scale, wide.span<float>());
}

static void load_pieces(const RunCheckpoint& from, const Optimizer& optimizer) {
  for (const Optimizer::Piece& piece : optimizer.pieces()) {
    const std::vector<std::string>& names = Optimizer::state_names(piece.rule);
    for (std::size_t i = 0; i < names.size(); ++i)
      load_kept(from, piece, names[i], piece.state[i], piece.scales[i]);
    if (!piece.has_master) continue;
    // A run in fp32 stores none: its values are their own.
    load_kept(from, piece, from.master_of(*piece.row), piece.master, piece.master_scale);
  }
}

// --- Groups and loss scale ----------------------------------------------------------------------

namespace {

// Parameters that share settings.
struct ParamGroup {
  Optimizer::Rule rule = Optimizer::Rule::adam;
  double decay_mult = 1, learning_rate_mult = 1;
  bool decoupled = false;
  friend bool operator==(const ParamGroup&, const ParamGroup&) = default;
};

}  // namespace

// In the order of their first parameters, as Megatron matches them.
static std::vector<ParamGroup> groups_of(const Optimizer& optimizer, const ParamTable& table,
                                         const ParamSchedule& schedule) {
  std::vector<ParamGroup> groups;
  for (const Param& row : table.rows()) {
    const ParamGroup group{optimizer.rule_of(row), row.decay_mult, row.learning_rate_mult,
                           row.embedding_or_output && schedule.has_decoupled()};
    if (row.trainable && std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  }
  return groups;
}

static void add_rule(PyValue& entry, Optimizer::Rule rule, const OptimizerOptions& options) {
  switch (rule) {
    case Optimizer::Rule::adam:
      entry.set_item("betas", PyValue::tuple({options.adam.beta1, options.adam.beta2}));
      entry.set_item("eps", options.adam.eps);
      entry.set_item("bias_correction", true);
      break;
    case Optimizer::Rule::sgd:
      entry.set_item("momentum", options.sgd_momentum);
      entry.set_item("dampening", 0.0);
      entry.set_item("nesterov", false);
      break;
    case Optimizer::Rule::muon:
      entry.set_item("momentum", options.muon.momentum);
      entry.set_item("nesterov", options.muon.nesterov);
      break;
  }
}

static PyValue make_group(const ParamGroup& group, const Optimizer& optimizer,
                          const ParamSchedule& schedule, const StepRates& rates) {
  const ParamSchedule::Values& values = schedule.values();
  const ParamSchedule::Span span = group.decoupled ? *values.decoupled : values.lr;
  const double rate = group.decoupled ? rates.decoupled_learning_rate : rates.learning_rate;
  PyValue entry = PyValue::dict({{"lr", rate * group.learning_rate_mult},
                                 {"weight_decay", rates.weight_decay * group.decay_mult},
                                 {"step", optimizer.steps()},
                                 {"wd_mult", group.decay_mult},
                                 {"lr_mult", group.learning_rate_mult},
                                 {"is_expert_parallel", false},
                                 {"is_decoupled_lr", group.decoupled},
                                 {"max_lr", span.max},
                                 {"min_lr", span.min}});
  add_rule(entry, group.rule, optimizer.options());
  return entry;
}

static PyValue make_scaler(const Optimizer& optimizer, TorchWriter& tensors) {
  PyValue scaler = PyValue::dict();
  if (!optimizer.options().loss_scale.is_dynamic()) return scaler;
  const LossScaleState& state = optimizer.scaler();
  auto scale = static_cast<float>(state.scale);
  scaler.set_item("scale", tensors.tensor({&scale, DType::f32, {1}}));
  scaler.set_item("growth_tracker", state.growth);
  scaler.set_item("hysteresis_tracker", state.hysteresis);
  return scaler;
}

PyValue make_optimizer(const Optimizer& optimizer, const ParamTable& table,
                       const ParamSchedule& schedule, std::int64_t scheduled_samples,
                       TorchWriter& tensors) {
  const StepRates rates = schedule.at(scheduled_samples);
  PyValue groups = PyValue::list();
  for (const ParamGroup& group : groups_of(optimizer, table, schedule))
    groups.append(make_group(group, optimizer, schedule, rates));
  PyValue inner = PyValue::dict();
  if (!is_reformulated(optimizer))
    inner.set_item("state", PyValue::dict({{"common_step", optimizer.steps()}}));
  inner.set_item("param_groups", groups);
  const bool scales = optimizer.options().loss_scale.is_given();
  if (!scales && !is_reformulated(optimizer)) return inner;
  PyValue outer = PyValue::dict({{"optimizer", inner}});
  if (scales) outer.set_item("grad_scaler", make_scaler(optimizer, tensors));
  if (is_reformulated(optimizer)) outer.set_item("param_state_sharding_type", kShardingType);
  return outer;
}

static void load_scaler(const RunCheckpoint& checkpoint, const PyValue& stored,
                        const std::string& where, Optimizer& optimizer) {
  const PyValue* scaler = stored.find("grad_scaler");
  const PyValue* tensor = scaler == nullptr ? nullptr : scaler->find("scale");
  if (tensor == nullptr) return;  // none, or a constant one
  float value = 0;
  checkpoint.read_common_tensor(*tensor, {&value, DType::f32, {1}});
  if (!(value > 0) || !std::isfinite(value))
    fail(Exit::bad_data, where, ": grad_scaler.scale is ", value, ", expected a positive number");
  const auto count = [&](const char* name) {
    return scaler->at(name, where).as_integer(where + ": grad_scaler." + name);
  };
  optimizer.set_scaler({.scale = static_cast<double>(value),
                        .growth = count("growth_tracker"),
                        .hysteresis = count("hysteresis_tracker")});
}

// The steps that an optimizer has taken, which its groups count or, as in Megatron-LM's with
// PyTorch's Adam, each parameter does, as a number with a point.  torch.optim.SGD counts none.
static void load_steps(const RunCheckpoint& checkpoint, const PyValue& stored, const PyValue& group,
                       Optimizer& optimizer) {
  const std::string where = checkpoint.where() + ": step";
  const PyValue* step = group.find("step");
  const std::optional<PyValue> counted =
      step == nullptr ? common_step(stored, checkpoint.common_tensors(), checkpoint.where())
                      : std::nullopt;
  if (counted) step = &*counted;
  if (step == nullptr && optimizer.options().name == "sgd") return;
  const double steps =
      (step != nullptr ? *step : group.at("step", checkpoint.where())).as_real(where);
  if (!(steps >= 0 && steps < 1e15) || steps != std::floor(steps))
    fail(Exit::bad_data, where, ": is ", steps, ", expected a number of steps");
  optimizer.set_steps(static_cast<std::int64_t>(steps));
}

void load_optimizer(const RunCheckpoint& checkpoint, Optimizer& optimizer) {
  const std::string where = checkpoint.where();
  const PyValue stored = stored_optimizer(checkpoint, where);
  if (optimizer.options().loss_scale.is_dynamic())
    load_scaler(checkpoint, stored, where, optimizer);
  const PyValue* inner = stored.find("optimizer");
  const auto& groups = (inner != nullptr ? *inner : stored)
                           .at("param_groups", where)
                           .as_items(where + ": param_groups");
  if (groups.empty()) fail(Exit::bad_data, where, ": optimizer.param_groups is empty");
  load_steps(checkpoint, stored, groups.front(), optimizer);
  load_pieces(checkpoint, optimizer);
}

// --- The schedule -------------------------------------------------------------------------------

// A whole number as one, which is what Megatron keeps.
static PyValue number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return PyValue(static_cast<std::int64_t>(value));
  return PyValue(value);
}

PyValue make_scheduler(const ParamSchedule& schedule, std::int64_t scheduled_samples) {
  const ParamSchedule::Values& v = schedule.values();
  return PyValue::dict({{"max_lr", v.lr.max},
                        {"lr_warmup_steps", number(v.warmup)},
                        {"num_steps", scheduled_samples},
                        {"lr_decay_style", v.decay_style},
                        {"lr_decay_steps", number(v.decay)},
                        {"min_lr", v.lr.min},
                        {"start_wd", v.start_weight_decay},
                        {"end_wd", v.end_weight_decay},
                        {"wd_incr_style", v.weight_decay_style},
                        {"wd_incr_steps", number(v.weight_decay_span)}});
}

// The group of word embeddings and output layer, if the checkpoint has one.
static std::optional<ParamSchedule::Span> decoupled_of(const RunCheckpoint& checkpoint,
                                                       const std::string& where) {
  const PyValue common = checkpoint.common();
  const PyValue* stored = common.find("optimizer");
  if (stored == nullptr) return std::nullopt;
  if (const PyValue* inner = stored->find("optimizer")) stored = inner;
  for (const PyValue& group : stored->at("param_groups", where).as_items(where)) {
    const PyValue* is = group.find("is_decoupled_lr");
    if (is != nullptr && *is == PyValue(true))
      return ParamSchedule::Span{group.at("max_lr", where).as_real(where),
                                 group.at("min_lr", where).as_real(where)};
  }
  return std::nullopt;
}

std::int64_t load_scheduler(const RunCheckpoint& checkpoint, ParamSchedule& schedule) {
  const std::string where = checkpoint.where();
  const PyValue stored = checkpoint.common().at("opt_param_scheduler", where);
  // The first of these names that there is; the others are those of older checkpoints.
  const auto find = [&](std::initializer_list<const char*> names) -> const PyValue& {
    for (const char* name : names)
      if (const PyValue* value = stored.find(name)) return *value;
    return stored.at(*(names.end() - 1), where);
  };
  ParamSchedule::Values values = schedule.values();
  values.lr = {find({"start_lr", "max_lr"}).as_real(where), find({"min_lr"}).as_real(where)};
  values.decoupled = decoupled_of(checkpoint, where);
  values.warmup = find({"warmup_iter", "warmup_steps", "lr_warmup_steps"}).as_real(where);
  values.decay = find({"end_iter", "decay_steps", "lr_decay_steps"}).as_real(where);
  values.decay_style = find({"decay_style", "lr_decay_style"}).as_string(where);
  if (stored.find("start_wd") != nullptr) {
    values.start_weight_decay = find({"start_wd"}).as_real(where);
    values.end_weight_decay = find({"end_wd"}).as_real(where);
    values.weight_decay_span = find({"wd_incr_steps"}).as_real(where);
    values.weight_decay_style = find({"wd_incr_style"}).as_string(where);
  }
  const std::int64_t consumed = find({"num_iters", "num_steps"}).as_integer(where);
  if (consumed < 0 || !values.is_valid())
    fail(Exit::bad_data, where, ": opt_param_scheduler: not a schedule of the learning rate");
  schedule.merge(values, checkpoint.folder());
  return consumed;
}

}  // namespace mt
