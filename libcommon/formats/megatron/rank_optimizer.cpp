#include "formats/megatron/rank_optimizer.h"

#include <algorithm>

#include "base/error.h"
#include "ckpt/tensor_source.h"

namespace mt {

constexpr const char *kInner = "optimizer", *kGroups = "param_groups",
                     *kOfExperts = "is_expert_parallel", *kMasters = "fp32_from_fp16_params";

RankOptimizer::RankOptimizer(const ModelSource& source) {
  for (const std::string& state : source.states())
    if (state == "fp32_param")
      master = state;
    else if (!state.empty())
      moments.push_back(state);
  distributed = source.is_reformulated() || source.is_reshardable();
  if (distributed && master.empty())
    fail(Exit::bad_data, source.path(), ": the distributed optimizer has no fp32_param");
}

// --- Groups -------------------------------------------------------------------------------------

// What of `optimizer` has the groups.
static const PyValue& inner_of(const PyValue& optimizer) {
  const PyValue* const inner = optimizer.find(kInner);
  return inner != nullptr ? *inner : optimizer;
}

static const std::vector<PyValue>& groups_of(const PyValue& optimizer, const std::string& where) {
  if (!optimizer.is(PyValue::Kind::dict))
    fail(Exit::bad_data, where, ": optimizer is ", name_of(optimizer.kind()),
         ", expected the dict of one optimizer");
  return inner_of(optimizer).at(kGroups, where + ": optimizer").as_items(where + ": param_groups");
}

static bool is_true(const PyValue& group, const char* name) {
  const PyValue* const value = group.find(name);
  return value != nullptr && *value == PyValue(true);
}

// Which of the groups a parameter belongs to.
static std::size_t group_of(const Param& row, const std::vector<PyValue>& groups,
                            const std::string& where) {
  const bool decoupled =
      row.embedding_or_output && std::any_of(groups.begin(), groups.end(), [](const PyValue& g) {
        return is_true(g, "is_decoupled_lr");
      });
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (groups[i].at("wd_mult", where).as_real(where) == row.decay_mult &&
        is_true(groups[i], "is_decoupled_lr") == decoupled)
      found.push_back(i);
  if (found.size() != 1)
    fail(Exit::bad_data, where, ": ", row.name(), ": ", found.size(),
         " of optimizer.param_groups fit, expected 1");
  return found[0];
}

// The groups that a rank has, with the numbers of their parameters.
struct RankGroup {
  std::size_t group;
  std::vector<std::size_t> params;
};
static std::vector<RankGroup> rank_groups(std::span<const RankParam> params,
                                          const std::vector<PyValue>& groups,
                                          const std::string& where) {
  std::vector<RankGroup> found;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::size_t group = group_of(*params[i].row, groups, where);
    auto at = std::find_if(found.begin(), found.end(),
                           [&](const RankGroup& g) { return g.group == group; });
    if (at == found.end()) at = found.insert(found.end(), {group, {}});
    at->params.push_back(i);
  }
  return found;
}

// The dict with another value of a key that it has.
static PyValue with(const PyValue& dict, const char* name, const PyValue& value,
                    const std::string& where) {
  PyValue changed = PyValue::dict();
  const std::vector<PyValue>& entries = dict.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    changed.set_item(entries[i], entries[i] == PyValue(name) ? value : entries[i + 1]);
  return changed;
}

static PyValue without(const PyValue& dict, const char* name, const std::string& where) {
  PyValue rest = PyValue::dict();
  const std::vector<PyValue>& entries = dict.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (!(entries[i] == PyValue(name))) rest.set_item(entries[i], entries[i + 1]);
  return rest;
}

// --- Chains -------------------------------------------------------------------------------------

static std::map<std::int64_t, PyValue> by_number(const PyValue& dict, const std::string& where) {
  std::map<std::int64_t, PyValue> found;
  const std::vector<PyValue>& entries = dict.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (entries[i].is(PyValue::Kind::integer)) found[entries[i].as_integer(where)] = entries[i + 1];
  return found;
}

std::vector<PyValue> chained_optimizers(const PyValue& stored, const std::string& where) {
  std::vector<PyValue> optimizers;
  if (stored.is(PyValue::Kind::list))
    optimizers = stored.as_items(where);
  else if (stored.is(PyValue::Kind::dict))
    for (const auto& [number, optimizer] : by_number(stored, where))
      optimizers.push_back(optimizer);
  if (optimizers.empty()) return {stored};
  for (std::size_t i = 0; i < optimizers.size(); ++i)
    for (const PyValue& group : groups_of(optimizers[i], where))
      if (optimizers.size() != 2 || is_true(group, kOfExperts) != (i == 1))
        fail(Exit::bad_data, where, ": chains ", optimizers.size(),
             " optimizers, expected one of experts behind one of all else");
  return optimizers;
}

// What experts' optimizer is where they have groups in common with other parameters.
static PyValue experts_part(const PyValue& optimizer, const ParamTable& table,
                            const std::string& where) {
  std::vector<RankParam> experts;
  for (const Param& row : table.rows())
    if (row.copies == Copies::experts) experts.push_back({&row});
  const std::vector<PyValue>& groups = groups_of(optimizer, where);
  PyValue own = PyValue::list();
  for (const RankGroup& group : rank_groups(experts, groups, where))
    own.append(with(groups[group.group], kOfExperts, true, where));
  const PyValue* const inner = optimizer.find(kInner);
  return inner == nullptr ? with(optimizer, kGroups, own, where)
                          : with(optimizer, kInner, with(*inner, kGroups, own, where), where);
}

std::vector<PyValue> optimizers_for(const PyValue& stored, std::int64_t expert_ranks,
                                    const ParamTable& table, const std::string& where) {
  std::vector<PyValue> optimizers = chained_optimizers(stored, where);
  if (optimizers.size() == optimizer_count(expert_ranks)) return optimizers;
  const PyValue experts = experts_part(optimizers[0], table, where);
  if (optimizers.size() == 1) return {optimizers[0], experts};
  if (groups_of(experts, where) != groups_of(optimizers[1], where))
    fail(Exit::bad_config, where,
         ": experts have groups of their own in optimizer.param_groups, which needs "
         "--target-expert-parallel-size above 1");
  return {optimizers[0]};
}

PyValue as_chain(const std::vector<PyValue>& optimizers) {
  if (optimizers.size() == 1) return optimizers[0];
  PyValue chain = PyValue::dict();
  for (std::size_t i = 0; i < optimizers.size(); ++i) chain.set_item(i, optimizers[i]);
  return chain;
}

// --- Writing ------------------------------------------------------------------------------------

// The step that one optimizer has counted.
static std::optional<PyValue> step_of(const PyValue& stored, const TorchReader& tensors,
                                      const std::string& where) {
  const PyValue* const state = inner_of(stored).find("state");
  const PyValue* const step = state == nullptr ? nullptr : state->find("common_step");
  if (step == nullptr) return {};
  if (!TorchReader::is_tensor(*step)) return *step;
  const StoredTensor stored_step = tensors.tensor(*step);
  float number = 0;
  if (stored_step.shape.numel() != 1 || !is_float(stored_step.dtype))
    fail(Exit::bad_data, where, ": optimizer.state.common_step: expected a number");
  stored_step.copy_to(origin_of(stored_step.shape.rank()),
                      {&number, DType::f32, stored_step.shape});
  return PyValue(static_cast<double>(number));
}

std::optional<PyValue> common_step(const PyValue& stored, const TorchReader& tensors,
                                   const std::string& where) {
  const std::vector<PyValue> optimizers = chained_optimizers(stored, where);
  const auto number = [&](const std::optional<PyValue>& step) {
    return step ? step->as_real(where + ": optimizer.state.common_step") : -1;
  };
  std::optional<PyValue> step = step_of(optimizers[0], tensors, where);
  for (const PyValue& other : optimizers)
    if (const auto own = step_of(other, tensors, where); number(own) != number(step))
      fail(Exit::bad_data, where, ": optimizer.state.common_step is ", number(own),
           " of experts and ", number(step), " of other parameters");
  return step;
}

PyValue make_rank_optimizer(const PyValue& stored, const PyValue* step, const RankOptimizer& kind,
                            std::span<const RankParam> params, const std::string& where) {
  const std::vector<PyValue>& groups = groups_of(stored, where);
  PyValue state = PyValue::dict(), own = PyValue::list(), masters = PyValue::list();
  std::int64_t id = 0;
  for (const RankGroup& group : rank_groups(params, groups, where)) {
    PyValue entry = without(groups[group.group], "params", where);
    PyValue ids = PyValue::list(), copies = PyValue::list();
    for (const std::size_t number : group.params) {
      PyValue moments = PyValue::dict();
      if (step != nullptr) moments.set_item("step", *step);
      for (const std::string& name : kind.moments)
        if (!kind.distributed) moments.set_item(name, params[number].states.at(name));
      if (!kind.distributed && !kind.master.empty())
        copies.append(params[number].states.at(kind.master));
      state.set_item(id, std::move(moments));
      ids.append(id++);
    }
    if (!kind.distributed) entry.set_item("params", std::move(ids));
    own.append(std::move(entry));
    masters.append(std::move(copies));
  }
  PyValue inner = PyValue::dict();
  if (!kind.distributed) inner.set_item("state", std::move(state));
  inner.set_item(kGroups, std::move(own));
  if (!kind.distributed && kind.master.empty()) return inner;
  PyValue outer = PyValue::dict({{kInner, std::move(inner)}});
  if (const PyValue* scaler = stored.find("grad_scaler")) outer.set_item("grad_scaler", *scaler);
  if (!kind.distributed) outer.set_item(kMasters, std::move(masters));
  return outer;
}

// --- Reading ------------------------------------------------------------------------------------

// The values of two lists of a group belong together.
static const std::vector<PyValue>& items_of(const PyValue& list, std::size_t count,
                                            const std::string& where) {
  const std::vector<PyValue>& items = list.as_items(where);
  if (items.size() != count) fail(Exit::bad_data, where, ": ", items.size(), ", expected ", count);
  return items;
}

void find_rank_states(const PyValue& optimizer, std::span<RankParam> params,
                      const std::string& where) {
  const std::vector<PyValue>& groups = groups_of(optimizer, where);
  const std::string place = where + ": optimizer.state";
  const auto moments = by_number(inner_of(optimizer).at("state", where), place);
  const PyValue* const masters = optimizer.find(kMasters);
  for (const RankGroup& group : rank_groups(params, groups, where)) {
    const std::size_t count = group.params.size();
    const std::vector<PyValue>& ids =
        items_of(groups[group.group].at("params", where), count, where + ": parameters of a group");
    const std::vector<PyValue>* copies = nullptr;
    if (masters != nullptr)
      copies = &items_of(items_of(*masters, groups.size(), where + ": " + kMasters)[group.group],
                         count, concat(where, ": ", kMasters));
    for (std::size_t i = 0; i < count; ++i) {
      RankParam& param = params[group.params[i]];
      const auto found = moments.find(ids[i].as_integer(place));
      if (found == moments.end()) fail(Exit::bad_data, place, ": nothing of ", param.row->name());
      const std::vector<PyValue>& entries = found->second.entries(place);
      for (std::size_t k = 0; k + 1 < entries.size(); k += 2)
        param.states[entries[k].as_string(place)] = entries[k + 1];
      if (copies != nullptr) param.states["fp32_param"] = (*copies)[i];
    }
  }
}

PyValue common_optimizer(const PyValue& optimizer, bool distributed, const std::string& where) {
  PyValue groups = PyValue::list(), state = PyValue::dict(), inner = PyValue::dict();
  for (const PyValue& group : groups_of(optimizer, where))
    groups.append(without(group, "params", where));
  if (!distributed) {
    const PyValue& numbered = inner_of(optimizer).at("state", where);
    for (const auto& [id, moments] : by_number(numbered, where))
      if (const PyValue* step = moments.find("step")) {  // all have the same
        state.set_item("common_step", *step);
        break;
      }
    inner.set_item("state", std::move(state));
  }
  inner.set_item(kGroups, std::move(groups));
  if (optimizer.find(kInner) == nullptr) return inner;
  PyValue outer = PyValue::dict({{kInner, std::move(inner)}});
  if (const PyValue* scaler = optimizer.find("grad_scaler")) outer.set_item("grad_scaler", *scaler);
  if (distributed) outer.set_item("param_state_sharding_type", "fully_sharded_model_space");
  return outer;
}

// The one buffer of chunk `number` of a rank: {(dtype, dtype): {...}}.
static const PyValue& buffer_of(const PyValue& optimizer, std::size_t number,
                                const std::string& where) {
  if (!optimizer.is(PyValue::Kind::dict))
    fail(Exit::bad_data, where, ": is ", name_of(optimizer.kind()),
         ", expected the dict of one optimizer");
  const std::vector<PyValue>& entries = optimizer.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    if (!(entries[i] == PyValue(number))) continue;
    const std::vector<PyValue>& types = entries[i + 1].entries(where);
    if (types.size() != 2)
      fail(Exit::bad_data, where, ": buffer ", number, ": ", types.size() / 2,
           " pairs of types, expected 1");
    return types[1];
  }
  fail(Exit::bad_data, where, ": has no buffer ", number);
}

std::map<std::string, StoredTensor> buffer_states(const PyValue& optimizer, std::size_t number,
                                                  const TorchReader& tensors, std::int64_t size,
                                                  const std::string& where) {
  const PyValue& own = buffer_of(optimizer, number, where);
  std::map<std::string, StoredTensor> states;
  for (const auto& [name, state] :
       {std::pair("param", "fp32_param"), {"exp_avg", "exp_avg"}, {"exp_avg_sq", "exp_avg_sq"}}) {
    StoredTensor whole = tensors.tensor(own.at(name, where));
    if (whole.shape.rank() != 1 || whole.shape[0] != size || !whole.contiguous())
      fail(Exit::bad_data, where, ": ", name, " is ", whole.shape, ", expected [", size,
           "]: was it written with other buckets than args say?");
    states.emplace(state, std::move(whole));
  }
  return states;
}

}  // namespace mt
