// A plain distributed checkpoint of PyTorch as Megatron-LM writes it with --ckpt-format torch_dcp:
// the state {"model": state_dict(), "args": ..., "iteration": ..., "optimizer": ...} flattened, so
// that each tensor and each leaf of another kind is an item whose key is its path.  The optimizer
// is that of a single rank in the torch format (formats/megatron/rank_optimizer.h).
#include <algorithm>
#include <deque>
#include <map>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/dist_checkpoint.h"
#include "ckpt/megatron_checkpoint.h"
#include "ckpt/te_state.h"
#include "formats/megatron/dcp_source.h"
#include "formats/megatron/megatron_common.h"
#include "formats/megatron/rank_layout.h"
#include "formats/megatron/rank_optimizer.h"
#include "formats/model_sink.h"
#include "model/config/model_config.h"
#include "model/keys.h"

namespace mt {
namespace {

constexpr const char* kModel = "model";

class DcpSink : public ModelSink {
 public:
  DcpSink(const ModelTarget& target, const ParamTable& table, std::size_t parts)
      : target_(target),
        iteration_(iteration_of(target.source)),
        save_(folder_to_save(target.path, iteration_), checkpoint_files(), target.replaces),
        common_(make_common(target, "torch_dcp",
                            [this](ConstTensor tensor) { return tensors_.tensor(tensor); })) {
    for (std::size_t part = 0; part < parts; ++part)
      writers_.emplace_back(save_.folder(), 0, static_cast<int>(part));
    add_items({}, common_);
    for (const Param& row : table.rows()) {
      for (const std::string& name : state_dict_names(row.place, {target_.local_spec}))
        note_path({kModel, name});
      add_extra_state(row);
    }
    add_object({kModel, "output_layer._extra_state"}, PyValue());
    if (target_.config.family == ModelFamily::t5)
      add_object({kModel, "lm_head.output_layer._extra_state"}, PyValue());
    if (target_.with_optimizer) add_optimizer(table);
  }

  void write(std::size_t part, const Param& row, const std::string& state,
             ConstTensor value) override {
    if (!state.empty()) return writers_[part].add(state_keys_.at({row.index, state}), value);
    for (const std::string& name : state_dict_names(row.place, {target_.local_spec}))
      writers_[part].add(concat(kModel, ".", name), value);
  }

  std::string finish() override {
    CheckpointManifest manifest{iteration_, write_companions(target_.source, save_.folder()),
                                manifest_extra_of(target_.source, save_.folder())};
    std::vector<WrittenFile> files;
    for (DistWriter& writer : writers_) files.push_back(writer.close());
    manifest.files.insert(manifest.files.end(), files.begin(), files.end());
    manifest.files.push_back(write_dist_metadata(
        save_.folder(), files, {.mcore_data = {}, .planner_data = planner_data_}));
    write_file_atomically(save_.folder() + "/" + kManifestName,
                          encode_checkpoint_manifest(manifest), false);
    return save_.folder();
  }

  void publish() override {
    save_.publish([&] { write_tracker(target_.path, iteration_); });
  }

 private:
  using Path = std::vector<PyValue>;  // keys of dicts, and places in lists

  std::string note_path(const Path& path) {
    std::string key;
    for (const PyValue& part : path)
      key += (key.empty() ? "" : ".") + (part.is(PyValue::Kind::string)
                                             ? part.as_string("")
                                             : std::to_string(part.as_integer("")));
    planner_data_.set_item(key, PyValue::tuple(path));
    return key;
  }

  void add_object(const Path& path, const PyValue& value) {
    writers_.front().add_object(note_path(path), value, tensors_);
  }

  // Whether a list is gone through, which one of plain values is not.
  static bool is_nested(const PyValue& list) {
    const std::vector<PyValue>& items = list.as_items("");
    return std::ranges::any_of(items, [](const PyValue& item) {
      return item.is(PyValue::Kind::dict) || item.is(PyValue::Kind::persistent) ||
             (item.is(PyValue::Kind::list) && is_nested(item));
    });
  }

  // What is below a path; a persistent value stands for a row's state.
  void add_items(const Path& path, const PyValue& value) {
    const auto add_below = [&](const PyValue& place, const PyValue& item) {
      Path below = path;
      below.push_back(place);
      add_items(below, item);
    };
    if (value.is(PyValue::Kind::dict)) {
      const std::vector<PyValue>& entries = value.entries("");
      for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
        add_below(entries[i].is(PyValue::Kind::integer)
                      ? PyValue(std::to_string(entries[i].as_integer("")))
                      : entries[i],
                  entries[i + 1]);
    } else if (value.is(PyValue::Kind::list) && is_nested(value)) {
      const std::vector<PyValue>& items = value.as_items("");
      for (std::size_t i = 0; i < items.size(); ++i) add_below(i, items[i]);
    } else if (value.is(PyValue::Kind::persistent)) {
      const std::vector<PyValue>& id = value.persistent_id().as_items("");
      state_keys_[{static_cast<std::size_t>(id[0].as_integer("")), id[1].as_string("")}] =
          note_path(path);
    } else {
      add_object(path, value);
    }
  }

  void add_optimizer(const ParamTable& table) {
    const RankOptimizer kind(target_.source);
    const std::string& where = target_.source.path();
    const PyValue stored = target_.source.common().at("optimizer", where);
    const PyValue optimizer = optimizers_for(stored, 1, table, where)[0];
    if (kind.distributed)
      fail(Exit::bad_config,
           "--ckpt-format torch_dcp: has no place for a distributed optimizer's state");
    if (optimizer.find("grad_scaler") != nullptr)
      fail(Exit::bad_config, "--ckpt-format torch_dcp: is not written with a grad_scaler");
    const auto step = common_step(stored, *target_.source.common_tensors(), where);
    std::vector<RankParam> params;
    const ChunkLayers all = ChunkLayers::all(target_.config);
    for (const Param* row : registered_rows(table, all, {target_.local_spec}, false)) {
      if (row->is_buffer) continue;
      if (!target_.source.has_states(*row))
        fail(Exit::bad_config, "--ckpt-format torch_dcp: ", where, ": ", row->name(),
             " was frozen, and has no state of the optimizer");
      RankParam& param = params.emplace_back(RankParam{row});
      for (const std::string& state : target_.source.states())
        if (!state.empty())
          param.states[state] = PyValue::persistent(PyValue::tuple({row->index, state}));
    }
    add_items({"optimizer"},
              make_rank_optimizer(optimizer, step ? &*step : nullptr, kind, params, where));
  }

  // Every parallel linear asks for its extra state, which may be None.
  void add_extra_state(const Param& row) {
    if (!is_parallel_linear(row)) return;
    TorchWriter tensors;
    const PyValue value = te_state_value(target_.source.extra_state(row), [&](ConstTensor tensor) {
      return tensors.tensor(tensor);
    });
    const Path path = {kModel, SpecNames().module(row.place) + "._extra_state"};
    writers_.front().add_object(note_path(path), value, tensors);
  }

  ModelTarget target_;
  std::int64_t iteration_;
  FolderSave save_;
  TorchWriter tensors_;  // of the common state
  PyValue common_, planner_data_ = PyValue::dict();
  std::map<std::pair<std::size_t, std::string>, std::string> state_keys_;  // by the row's number
  std::deque<DistWriter> writers_;
};

}  // namespace

std::unique_ptr<ModelSink> make_dcp_sink(const ModelTarget& target, const ParamTable& table,
                                         std::size_t parts) {
  return std::make_unique<DcpSink>(target, table, parts);
}

}  // namespace mt
