#include <cstring>
#include <deque>
#include <filesystem>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/folder_save.h"
#include "ckpt/megatron_checkpoint.h"
#include "model/megatron_common.h"
#include "model/rank_files.h"

namespace mt {

std::int64_t stage_of(const Param& row, const GptConfig& config, std::int64_t stages) {
  if (config.num_layers % stages != 0)
    fail(Exit::bad_config, "--target-pipeline-parallel-size ", stages, ": does not divide ",
         config.num_layers, " layers");
  if (row.layer) return *row.layer / (config.num_layers / stages);
  return row.name.starts_with("embedding.") ? 0 : stages - 1;
}

namespace {

class RankFilesSink : public ModelSink {
 public:
  RankFilesSink(const ModelTarget& target, const RowTypes& types, bool local_spec)
      : target_(target),
        iteration_(iteration_of(target.source)),
        save_(folder_to_save(target.path, iteration_)),
        types_(types),
        local_spec_(local_spec) {
    for (std::int64_t rank = 0; rank < target.tensor_parallel; ++rank)
      parts_.push_back(std::make_unique<Gpt>(
          target.config, StageRanges{{0, target.config.num_layers, true, true}},
          TensorPart{.rank = static_cast<int>(rank),
                     .ranks = static_cast<int>(target.tensor_parallel)}));
    for (std::int64_t stage = 0; stage < target.pipeline_parallel; ++stage)
      for (std::int64_t rank = 0; rank < target.tensor_parallel; ++rank) begin(rank, stage);
  }

  void write(std::size_t stage, const Param& row, const std::string&, ConstTensor value) override {
    const std::size_t size = size_of(value.dtype());
    for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
      const Param& cut = parts_[rank]->table().rows()[row.index];
      const Buffer buffer(Device::cpu, static_cast<std::size_t>(cut.local.numel()) * size);
      const Tensor local = buffer.tensor(value.dtype(), cut.local);
      for (const ElementRun& run : cut.runs())
        std::memcpy(
            static_cast<std::byte*>(local.data()) + static_cast<std::size_t>(run.local) * size,
            static_cast<const std::byte*>(value.data()) +
                static_cast<std::size_t>(run.global) * size,
            static_cast<std::size_t>(run.count) * size);
      files_[stage * parts_.size() + rank].stream.add(local);
    }
  }

  void publish() override {
    CheckpointManifest manifest{iteration_, write_companions(target_.source, save_.folder()),
                                target_.source.manifest_extra()};
    for (RankFile& file : files_) {
      file.stream.finish();
      manifest.files.push_back(file.file.close());
      sync_directory(parent_directory(save_.folder() + "/" + manifest.files.back().name));
    }
    write_file_atomically(save_.folder() + "/" + kManifestName,
                          encode_checkpoint_manifest(manifest), false);
    save_.publish();
    write_tracker(target_.path, iteration_);
  }

 private:
  struct RankFile {
    RankFile(const std::string& folder, const std::string& name) : file(folder, name) {}
    HashedFile file;
    TorchStream stream;
  };

  bool has_tied_copy(std::int64_t stage) const {
    return stage > 0 && stage == target_.pipeline_parallel - 1 &&
           !target_.config.untie_embeddings_and_output_weights;
  }

  // Announces the tensors of a file, in the order of the table.
  void begin(std::int64_t rank, std::int64_t stage) {
    const std::string name = rank_folder(rank, stage, target_.pipeline_parallel);
    std::filesystem::create_directory(save_.folder() + "/" + name);
    RankFile& file = files_.emplace_back(save_.folder(), concat(name, "/", kRankFile));
    PyValue model = PyValue::call(PyValue::global("collections", "OrderedDict"), {});
    const std::int64_t per_stage = target_.config.num_layers / target_.pipeline_parallel;
    const auto& rows = parts_[static_cast<std::size_t>(rank)]->table().rows();
    const Param* words = nullptr;
    for (const Param& row : rows) {
      if (row.name == "embedding.word_embeddings.weight") words = &row;
      if (stage_of(row, target_.config, target_.pipeline_parallel) != stage) continue;
      const std::string own = chunk_name(row, row.layer.value_or(0) % per_stage);
      model.set_item(local_spec_ ? local_spec_name(own) : own,
                     file.stream.declare(types_(row), row.local));
      // Every parallel linear asks for its extra state, which may be None.
      if (row.layer && own.find(".linear_") != std::string::npos && own.ends_with(".weight"))
        model.set_item(own.substr(0, own.rfind('.')) + "._extra_state", PyValue());
    }
    if (has_tied_copy(stage))
      model.set_item("output_layer.weight", file.stream.declare(types_(*words), words->local));
    TorchWriter tensors;
    PyValue state = make_common(target_, "torch", tensors);
    state.set_item("model", std::move(model));
    file.stream.begin(state, "model_optim_rng", [&file](Bytes bytes) { file.file.write(bytes); });
  }

  ModelTarget target_;
  std::int64_t iteration_;
  FolderSave save_;
  RowTypes types_;
  bool local_spec_;
  std::vector<std::unique_ptr<Gpt>> parts_;  // tables of each tensor rank, all layers
  std::deque<RankFile> files_;               // by stage, then tensor rank
};

}  // namespace

std::unique_ptr<ModelSink> make_rank_files_sink(const ModelTarget& target, const RowTypes& types,
                                                bool local_spec) {
  return std::make_unique<RankFilesSink>(target, types, local_spec);
}

}  // namespace mt
