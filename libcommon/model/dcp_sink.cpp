// A plain distributed checkpoint of PyTorch as Megatron-LM writes it with --ckpt-format torch_dcp:
// the state {"model": state_dict(), "args": ..., "iteration": ...} flattened, so that each tensor
// and each leaf of another kind is an item whose key is its path.
#include <deque>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/dist_checkpoint.h"
#include "ckpt/megatron_checkpoint.h"
#include "model/dcp_source.h"
#include "model/megatron_common.h"
#include "model/model_sink.h"

namespace mt {
namespace {

constexpr const char* kModel = "model";

class DcpSink : public ModelSink {
 public:
  DcpSink(const ModelTarget& target, const ParamTable& table, std::size_t parts)
      : target_(target),
        iteration_(iteration_of(target.source)),
        save_(folder_to_save(target.path, iteration_)),
        common_(make_common(target, "torch_dcp",
                            [this](ConstTensor tensor) { return tensors_.tensor(tensor); })) {
    for (std::size_t part = 0; part < parts; ++part)
      writers_.emplace_back(save_.folder(), 0, static_cast<int>(part));
    add_objects({}, common_);
    for (const Param& row : table.rows()) {
      for (const std::string& name : state_dict_names(row, target_.local_spec))
        note_path({kModel, name});
      add_extra_state(row);
    }
    add_object({kModel, "output_layer._extra_state"}, PyValue());
    if (target_.config.family == ModelFamily::t5)
      add_object({kModel, "lm_head.output_layer._extra_state"}, PyValue());
  }

  void write(std::size_t part, const Param& row, const std::string&, ConstTensor value) override {
    for (const std::string& name : state_dict_names(row, target_.local_spec))
      writers_[part].add(concat(kModel, ".", name), value);
  }

  void publish() override {
    CheckpointManifest manifest{iteration_, write_companions(target_.source, save_.folder()),
                                manifest_extra_of(target_.source, save_.folder())};
    std::vector<WrittenFile> files;
    for (DistWriter& writer : writers_) files.push_back(writer.close());
    manifest.files.insert(manifest.files.end(), files.begin(), files.end());
    manifest.files.push_back(write_dist_metadata(
        save_.folder(), files, {.mcore_data = {}, .planner_data = planner_data_}));
    write_file_atomically(save_.folder() + "/" + kManifestName,
                          encode_checkpoint_manifest(manifest), false);
    save_.publish();
    write_tracker(target_.path, iteration_);
  }

 private:
  using Path = std::vector<std::string>;

  std::string note_path(const Path& path) {
    std::string key;
    for (const std::string& part : path) key += key.empty() ? part : "." + part;
    planner_data_.set_item(key, PyValue::tuple({path.begin(), path.end()}));
    return key;
  }

  void add_object(const Path& path, const PyValue& value) {
    writers_.front().add_object(note_path(path), value, tensors_);
  }

  void add_objects(const Path& path, const PyValue& dict) {
    const std::vector<PyValue>& entries = dict.entries("common state");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
      Path below = path;
      below.push_back(entries[i].as_string("common state"));
      if (entries[i + 1].is(PyValue::Kind::dict))
        add_objects(below, entries[i + 1]);
      else
        add_object(below, entries[i + 1]);
    }
  }

  // Every parallel linear asks for its extra state, which may be None.
  void add_extra_state(const Param& row) {
    const std::string module = row.name.substr(0, row.name.rfind('.'));
    const bool linear = module.find(".linear_") != std::string::npos || module.ends_with("_proj");
    if (linear && row.name.ends_with(".weight"))
      add_object({kModel, module + "._extra_state"}, PyValue());
  }

  ModelTarget target_;
  std::int64_t iteration_;
  FolderSave save_;
  TorchWriter tensors_;  // of the common state
  PyValue common_, planner_data_ = PyValue::dict();
  std::deque<DistWriter> writers_;
};

}  // namespace

std::unique_ptr<ModelSink> make_dcp_sink(const ModelTarget& target, const ParamTable& table,
                                         std::size_t parts) {
  return std::make_unique<DcpSink>(target, table, parts);
}

}  // namespace mt
