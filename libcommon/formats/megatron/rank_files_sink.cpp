#include <cstring>
#include <deque>
#include <filesystem>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/folder_save.h"
#include "ckpt/megatron_checkpoint.h"
#include "ckpt/te_state.h"
#include "ckpt/torch_types.h"
#include "formats/megatron/legacy_classes.h"
#include "formats/megatron/megatron_common.h"
#include "formats/megatron/rank_files.h"
#include "formats/megatron/rank_optimizer.h"
#include "formats/names/megatron_legacy.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {
namespace {

// Rows of a chunk of a pipeline rank, in the order of their registration.
struct RankChunk {
  ChunkLayers at;
  std::vector<const Param*> rows;
};
using RankChunks = std::vector<RankChunk>;

RankCounts counts_of(const ModelTarget& target) {
  const std::int64_t encoder = target.pipeline.encoder_ranks;
  return {target.tensor_parallel, target.pipeline_parallel + encoder, target.expert_parallel,
          encoder};
}

SpecNames names_of(const ModelTarget& target) {
  return {target.local_spec, target.grouped_experts};
}

RankChunks chunks_of(const ModelTarget& target, const ParamTable& table, std::int64_t stage) {
  RankChunks chunks;
  const std::vector<LayerPlan> layers = layers_of(target.config);
  for (std::int64_t chunk = 0; chunk < target.stages.chunks; ++chunk) {
    const auto number = static_cast<std::size_t>(chunk * counts_of(target).stages + stage);
    const ChunkLayers at =
        ChunkLayers::of(layers, target.stages.ranges[number], target.config.mtp_num_layers > 0);
    chunks.push_back({at, registered_rows(table, at, names_of(target),
                                          !target.config.untie_embeddings_and_output_weights)});
  }
  return chunks;
}

// States of a row that lie beside it in model_optim_rng.pt, and those of a flat buffer.
struct KeptStates {
  explicit KeptStates(const ModelTarget& target) {
    if (!target.with_optimizer) return;
    const RankOptimizer kind(target.source);
    std::vector<std::string>& states = kind.distributed ? in_buffer : beside;
    if (!kind.master.empty()) states.push_back(kind.master);
    states.insert(states.end(), kind.moments.begin(), kind.moments.end());
  }
  std::vector<std::string> beside, in_buffer;
};

}  // namespace

Parts rank_file_parts(const ModelTarget& target, const ParamTable& table) {
  const KeptStates kept(target);
  const std::int64_t stages = counts_of(target).stages;
  Parts parts(static_cast<std::size_t>(stages));
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    auto& part = parts[static_cast<std::size_t>(stage)];
    const RankChunks chunks = chunks_of(target, table, stage);
    for (const RankChunk& chunk : chunks)
      for (const Param* row : chunk.rows) {
        part.push_back({row, ""});
        if (row->is_buffer) continue;
        for (const std::string& state : kept.beside) part.push_back({row, state});
      }
    for (std::size_t optimizer = 0; optimizer < optimizer_count(target.expert_parallel);
         ++optimizer)
      for (const RankChunk& chunk : chunks)
        for (const std::string& state : kept.in_buffer)
          for (auto row = chunk.rows.rbegin(); row != chunk.rows.rend(); ++row)
            if (!(*row)->is_buffer && optimizer_of(**row, target.expert_parallel) == optimizer)
              part.push_back({*row, state});
  }
  return parts;
}

namespace {

class RankFilesSink : public ModelSink {
 public:
  RankFilesSink(const ModelTarget& target, const RowTypes& types)
      : target_(target),
        counts_(counts_of(target)),
        kept_(target),
        iteration_(iteration_of(target.source)),
        save_(folder_to_save(target.path, iteration_), checkpoint_files(), target.replaces),
        types_(types) {
    for (std::int64_t rank = 0; rank < target.tensor_parallel; ++rank)
      parts_.push_back(rank_rows(target.config, rank, target.tensor_parallel));
    allow_open_files(static_cast<std::size_t>(2 * counts_.stages * counts_.of_stage()));
    for (std::int64_t stage = 0; stage < counts_.stages; ++stage)
      for (std::int64_t rank = 0; rank < counts_.of_stage(); ++rank) begin(rank, stage);
  }

  void write(std::size_t stage, const Param& row, const std::string& state,
             ConstTensor value) override {
    for (std::int64_t rank = 0; rank < counts_.of_stage(); ++rank) {
      const bool in_buffer = !state.empty() && !kept_.in_buffer.empty();
      if (!has(rank, row) || (in_buffer && !buffers(rank, optimizer_of(row, counts_.expert))))
        continue;
      const std::size_t number =
          stage * static_cast<std::size_t>(counts_.of_stage()) + static_cast<std::size_t>(rank);
      if (in_buffer) buffers_[number].append_gap();
      append(in_buffer ? buffers_[number].stream : files_[number].stream, part_of(row, rank),
             value);
    }
  }

  // A grouped module has one state of all its experts, which is not put together.
  std::vector<std::string> warnings() const override {
    if (!target_.grouped_experts) return {};
    for (const Param& row : parts_[0].rows())
      if (row.place.expert && is_parallel_linear(row) && !target_.source.extra_state(row).empty())
        return {concat("--moe-grouped-gemm: ", target_.source.path(),
                       ": what experts remember of "
                       "scales is left behind")};
    return {};
  }

  std::string finish() override {
    CheckpointManifest manifest{iteration_, write_companions(target_.source, save_.folder()),
                                manifest_extra_of(target_.source, save_.folder())};
    for (std::size_t i = 0; i < files_.size(); ++i) {
      files_[i].stream.finish();
      manifest.files.push_back(files_[i].file.close());
      if (!buffers_.empty()) {
        buffers_[i].stream.finish();
        manifest.files.push_back(buffers_[i].file.close());
      }
      sync_directory(parent_directory(save_.folder() + "/" + manifest.files.back().name));
    }
    write_file_atomically(save_.folder() + "/" + kManifestName,
                          encode_checkpoint_manifest(manifest), false);
    return save_.folder();
  }

  void publish() override {
    save_.publish([&] { write_tracker(target_.path, iteration_); });
  }

 private:
  struct RankFile {
    RankFile(const std::string& folder, const std::string& name, std::size_t gathered)
        : file(folder, name, gathered) {}
    HashedFile file;
    TorchStream stream;
  };
  struct BufferFile : RankFile {
    using RankFile::RankFile;
    std::vector<std::int64_t> gaps;  // elements in front of each row's part, in its order
    std::size_t appended = 0;

    void append_gap() {
      const std::string zeros(static_cast<std::size_t>(gaps[appended++]) * sizeof(float), '\0');
      stream.append(as_bytes(zeros));
    }
  };

  // What a rank has of a row.
  static void append(TorchStream& stream, const Param& cut, ConstTensor row) {
    const std::size_t size = size_of(row.dtype());
    const auto* const elements = static_cast<const std::byte*>(row.data());
    for (const ElementRun& run : cut.runs())
      stream.append({elements + static_cast<std::size_t>(run.global) * size,
                     static_cast<std::size_t>(run.count) * size});
  }

  std::string chunk_key(std::size_t chunk) const {
    return target_.stages.chunks == 1 ? "model" : concat("model", chunk);
  }

  const Param& part_of(const Param& row, std::int64_t rank) const {
    return parts_[static_cast<std::size_t>(rank % counts_.tensor)].rows()[row.index];
  }

  bool has(std::int64_t rank, const Param& row) const {
    return expert_rank_of(row, target_.config, counts_).value_or(rank / counts_.tensor) ==
           rank / counts_.tensor;
  }

  // Whether a rank has an optimizer's buffers: the first one has them of what all expert ranks
  // have.
  bool buffers(std::int64_t rank, std::size_t optimizer) const {
    return optimizer > 0 || rank < counts_.tensor;
  }

  // Bytes of small writes that each file may gather: 64 MiB of all together.
  std::size_t gathered() const {
    constexpr std::size_t kAll = 64 << 20, kMost = 256 << 10;
    return std::min(kMost,
                    kAll / static_cast<std::size_t>(2 * counts_.stages * counts_.of_stage()));
  }

  // Announces the tensors of a rank's files, in the order of its part.
  void begin(std::int64_t rank, std::int64_t stage) {
    const std::string folder = rank_folder(rank, stage, counts_);
    std::filesystem::create_directory(save_.folder() + "/" + folder);
    RankFile& file =
        files_.emplace_back(save_.folder(), concat(folder, "/", kRankFile), gathered());
    std::vector<std::pair<Buffer, Tensor>> kept;  // the common state's stand before all others
    const KeepTensor keep = [&](ConstTensor tensor) {
      Buffer copy(Device::cpu, tensor.bytes());
      std::memcpy(copy.data(), tensor.data(), tensor.bytes());
      const Tensor view = copy.tensor(tensor.dtype(), tensor.shape());
      kept.emplace_back(std::move(copy), view);
      return file.stream.declare(tensor.dtype(), tensor.shape());
    };
    PyValue state = make_common(target_, "torch", keep);
    const PyValue optimizer =
        target_.with_optimizer ? copied_optimizer(target_.source, keep) : PyValue();
    std::vector<std::vector<RankParam>> params(optimizer_count(counts_.expert));  // of each
    const RankChunks chunks = chunks_of(target_, parts_[0], stage);
    const ExtraStates remembered = extra_states(chunks, keep);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      state.set_item(chunk_key(i), declare(file.stream, chunks[i], rank, remembered, params));
    if (target_.with_optimizer) state.set_item("optimizer", rank_optimizer(optimizer, params));
    file.stream.begin(state, "model_optim_rng", [&file](Bytes bytes) { file.file.write(bytes); });
    for (const auto& [copy, tensor] : kept) file.stream.add(tensor);
    if (!kept_.in_buffer.empty()) begin_buffers(chunks, rank, stage, state);
  }

  // `optimizer` is the source's, kept in the rank's file.
  PyValue rank_optimizer(const PyValue& optimizer,
                         std::span<const std::vector<RankParam>> params) const {
    const std::string& where = target_.source.path();
    const PyValue stored = target_.source.common().at("optimizer", where);
    const auto step = common_step(stored, *target_.source.common_tensors(), where);
    const std::vector<PyValue> kept = optimizers_for(optimizer, counts_.expert, parts_[0], where);
    PyValue own = PyValue::list();
    for (std::size_t i = 0; i < kept.size(); ++i)
      own.append(make_rank_optimizer(kept[i], step ? &*step : nullptr,
                                     RankOptimizer(target_.source), params[i], where));
    return one_or_all(own);
  }

  // What a rank's files have of its optimizers.
  static PyValue one_or_all(const PyValue& list) {
    const std::vector<PyValue>& items = list.as_items("");
    return items.size() == 1 ? items[0] : list;
  }

  using Named = std::vector<std::pair<std::string, PyValue>>;

  std::vector<std::string> names_at(const RowPlace& place) const {
    if (target_.legacy) return {megatron_legacy_name(target_.config, place)};
    return state_dict_names(place, names_of(target_));
  }

  // Every parallel linear asks for its extra state, which may be None; the experts of a grouped
  // module share one.
  bool has_extra_state(const Param& row, const RowPlace& place) const {
    if (is_parallel_linear(row))
      return !place.expert || !target_.grouped_experts || *place.expert == 0;
    return target_.legacy && row.place.stack == "output_layer" && row.place.param == "weight";
  }

  std::string extra_state_at(RowPlace place) const {
    place.param = "_extra_state";
    if (target_.legacy) return megatron_legacy_name(target_.config, place);
    return concat(names_of(target_).module(place), ".", place.param);
  }

  // What linear modules remember, by their weights: the same on all tensor ranks.
  using ExtraStates = std::map<std::size_t, PyValue>;

  ExtraStates extra_states(const RankChunks& chunks, const KeepTensor& keep) const {
    ExtraStates states;
    if (target_.legacy) return states;
    for (const RankChunk& chunk : chunks)
      for (const Param* row : chunk.rows)
        if (is_parallel_linear(*row) && !(row->place.expert && target_.grouped_experts))
          states[row->index] = te_state_value(target_.source.extra_state(*row), keep);
    return states;
  }

  // What the model's dict of a chunk holds, its rows to the `params` of their optimizer.
  PyValue declare(TorchStream& stream, const RankChunk& chunk, std::int64_t rank,
                  const ExtraStates& remembered, std::span<std::vector<RankParam>> params) const {
    Named named, aliases;                    // which come last
    bool words = chunk.at.has_words_copy();  // come next, those of the embedding
    for (const Param* whole : chunk.rows) {
      if (!has(rank, *whole)) continue;
      const Param& row = part_of(*whole, rank);
      const bool copy = is_words(row) && !chunk.at.range.first && !std::exchange(words, false);
      const RowPlace place =
          copy ? tied_copy(target_.config) : place_in_chunk(row, chunk.at, target_.config, counts_);
      const std::vector<std::string> names = names_at(place);
      const PyValue tensor = stream.declare(types_(*whole, ""), row.local);
      named.emplace_back(names[0], tensor);
      for (std::size_t i = 1; i < names.size(); ++i) aliases.emplace_back(names[i], tensor);
      if (!row.is_buffer) {
        RankParam& param = params[optimizer_of(row, counts_.expert)].emplace_back(RankParam{&row});
        for (const std::string& state : kept_.beside)
          param.states[state] = stream.declare(types_(*whole, state), row.local);
      }
      if (!has_extra_state(row, place)) continue;
      const auto state = remembered.find(row.index);
      named.emplace_back(extra_state_at(place),
                         state == remembered.end() ? PyValue() : state->second);
    }
    if (target_.legacy) return legacy_model(named);
    PyValue model = PyValue::call(PyValue::global("collections", "OrderedDict"), {});
    for (const Named* values : {&named, &aliases})
      for (const auto& [name, value] : *values) model.set_item(name, value);
    return model;
  }

  void begin_buffers(const RankChunks& chunks, std::int64_t rank, std::int64_t stage,
                     const PyValue& common) {
    const std::string folder = rank_folder(rank, stage, counts_);
    BufferFile& file =
        buffers_.emplace_back(save_.folder(), concat(folder, "/", kBufferFile), gathered());
    const PyValue& args = common.at("args", target_.source.path());
    PyValue all = PyValue::list();
    for (std::size_t optimizer = 0; optimizer < optimizer_count(counts_.expert); ++optimizer)
      all.append(buffers(rank, optimizer)
                     ? declare_buffers(file, chunks, optimizer, rank, stage, args)
                     : PyValue());
    file.stream.begin(one_or_all(all), "distrib_optim",
                      [&file](Bytes bytes) { file.file.write(bytes); });
  }

  // Declares the buffers of one of a rank's optimizers.
  PyValue declare_buffers(BufferFile& file, const RankChunks& chunks, std::size_t optimizer,
                          std::int64_t rank, std::int64_t stage, const PyValue& args) const {
    const std::string& where = target_.source.path();
    PyValue all = PyValue::dict({{"buckets_coalesced", true}});
    std::int64_t number = 0;
    for (const RankChunk& chunk : chunks) {
      std::vector<ParamRows> rows;
      for (const Param* whole : chunk.rows)
        if (has(rank, *whole) && !whole->is_buffer &&
            optimizer_of(*whole, counts_.expert) == optimizer)
          rows.push_back({{&part_of(*whole, rank)}});
      if (rows.empty()) continue;
      const UnpaddedLayout layout =
          rank_buffer(buffer_params(rows, target_.config, chunk.at, counts_.stages),
                      buffer_rules(args, stage, number, where));
      PyValue states = PyValue::dict();
      for (const std::string& state : kept_.in_buffer) {
        const DType dtype = types_(rows[0].first(), state);
        if (dtype != DType::f32)
          fail(Exit::bad_config, where, ": ", state, " is ", name_of(dtype), "; ", kBufferFile,
               " holds float32");
        states.set_item(&state == &kept_.in_buffer.front() ? "param" : state,
                        file.stream.declare(DType::f32, {layout.size}));
        std::int64_t at = 0;
        for (std::size_t i = rows.size(); i-- > 0; at = layout.starts[i] + rows[i].elements())
          file.gaps.push_back(layout.starts[i] - at);
      }
      states.set_item("numel_unpadded", layout.size);
      all.set_item(number++, PyValue::dict({{types_of(rows[0].first(), args), states}}));
    }
    return all;
  }

  // The types of a buffer's weights and gradients.
  PyValue types_of(const Param& row, const PyValue& args) const {
    const DType weights = types_(row, "");
    const PyValue* const in_fp32 = args.find("accumulate_allreduce_grads_in_fp32");
    const bool half = in_fp32 != nullptr && !in_fp32->is_none() ? *in_fp32 == PyValue(false)
                                                                : weights == DType::f16;
    return PyValue::tuple({torch_dtype(weights), torch_dtype(half ? weights : DType::f32)});
  }

  ModelTarget target_;
  RankCounts counts_;
  KeptStates kept_;
  std::int64_t iteration_;
  FolderSave save_;
  RowTypes types_;
  std::vector<ParamTable> parts_;   // of each tensor rank, all layers
  std::deque<RankFile> files_;      // by stage, then rank of it
  std::deque<BufferFile> buffers_;  // likewise; none without distributed optimizer
};

}  // namespace

std::unique_ptr<ModelSink> make_rank_files_sink(const ModelTarget& target, const RowTypes& types) {
  return std::make_unique<RankFilesSink>(target, types);
}

}  // namespace mt
