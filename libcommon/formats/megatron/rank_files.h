// A model in Megatron's `torch` format: a file of torch.save for each rank of a model,
//   ITERATION/mp_rank_TT/model_optim_rng.pt         tensor rank TT, of one pipeline stage
//   ITERATION/mp_rank_TT_PPP/model_optim_rng.pt     of stage PPP
//   ITERATION/mp_rank_TT[_PPP]_EEE/model_optim_rng.pt   with the experts of expert rank EEE
// A T5's encoder may have the first stages, its decoder the others (ChunkLayers).
// a dict: the common state (args, checkpoint_version 3.0, iteration, ...) and `model`, or `model0`,
// `model1`, ... where a stage has several chunks: {NAME: that rank's part of a row}.  Layers count
// from 0 in each chunk.  NAME is the row's, or, of the norms in front of linear_qkv and linear_fc1,
// what models without Transformer Engine call them, input_layernorm and pre_mlp_layernorm, and of
// grouped experts what their modules do (RowTensor).  They stand in the order in which the model
// registers them (formats/megatron/rank_layout.h).  The last of several stages has a copy of tied
// embeddings, output_layer.weight.  The optimizer is described in
// formats/megatron/rank_optimizer.h.
//
// Files of older classes than Megatron-Core's nest their dicts (formats/megatron/legacy_classes.h).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/torch_file.h"
#include "formats/megatron/rank_layout.h"
#include "formats/model_sink.h"
#include "formats/model_source.h"
#include "model/stage_range.h"
#include "tensor/transform.h"

namespace mt {

struct ModelConfig;

inline constexpr const char* kLegacyFormat = "legacy";  // of older classes: legacy_classes.h
inline constexpr const char* kRankFile = "model_optim_rng.pt";

// How many ranks a model has of each kind.  The ranks of a stage are counted with the tensor ranks
// of an expert rank next to each other.
struct RankCounts {
  std::int64_t tensor = 1, stages = 1, expert = 1;
  std::int64_t encoder = 0;  // of the stages, those of a T5's encoder, which come first
  std::int64_t of_stage() const { return tensor * expert; }
};

// mp_rank_TT, with several stages mp_rank_TT_PPP, with several expert ranks mp_rank_TT_EEE or
// mp_rank_TT_PPP_EEE.
std::string rank_folder(std::int64_t rank, std::int64_t stage, const RankCounts& counts);

// Where a chunk has its copy of tied embeddings.
RowPlace tied_copy(const ModelConfig& config);

// Which expert rank has a row; nothing for one that all have.
std::optional<std::int64_t> expert_rank_of(const Param& row, const ModelConfig& config,
                                           const RankCounts& counts);

// A row's place in a chunk: layers count from 0 in it, and experts on each rank.
RowPlace place_in_chunk(const Param& row, const ChunkLayers& chunk, const ModelConfig& config,
                        const RankCounts& counts);

class RankFilesSource : public ModelSource {
 public:
  RankFilesSource(const std::string& folder, const ModelSourceOptions& options);

  PyValue common() const override { return common_; }
  std::vector<std::string> states() const override { return states_; }
  bool is_reformulated() const override { return !buffers_.empty(); }
  const TorchReader* common_tensors() const override { return &files_[0].reader; }
  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::string extra_state(const Param& weight) const override;
  void check_all_used(const ParamTable& table) const override;

 private:
  struct RankFile {
    explicit RankFile(const std::string& path) : mapped(path), reader(mapped.bytes(), path) {}
    MappedFile mapped;
    TorchReader reader;
  };
  // Layers that follow one another, of one stage, on all tensor ranks.
  struct Chunk {
    std::string key;  // of the dicts
    std::int64_t stage;
    ChunkLayers at = {};
    std::vector<std::map<std::string, PyValue>> tensors = {};  // of each rank of the stage
    std::vector<std::string> names = {};  // in the file's order, of the first one
  };
  // States by the row's number.
  using States = std::map<std::pair<std::size_t, std::string>, StoredTensor>;
  std::size_t number(std::int64_t rank, std::int64_t stage) const {
    return static_cast<std::size_t>(stage * counts_.of_stage() + rank);
  }
  const RankFile& file(std::int64_t rank, std::int64_t stage) const {
    return files_[number(rank, stage)];
  }
  // Which of the stage's ranks has a row's part for a tensor rank.
  std::int64_t rank_of(const Param& row, std::int64_t tensor_rank) const {
    return expert_rank_of(row, *config_, counts_).value_or(0) * counts_.tensor + tensor_rank;
  }
  void read_sizes(const std::string& folder, const ModelSourceOptions& options);
  void open_files(const std::string& folder);
  void find_chunks();
  void read_chunk(Chunk& chunk) const;
  // How many layers it has of a stack.
  std::int64_t layers_in(const Chunk& chunk, std::string_view stack) const;
  void check_layers(std::int64_t found, std::int64_t expected, const char* what) const;
  // A chunk's dict, in the file's order.
  std::vector<std::pair<std::string, PyValue>> named_tensors(const PyValue& model,
                                                             const std::string& where) const;
  // The tensors in which a chunk may have a row.
  std::vector<RowTensor> tensors_of(const RowPlace& in_chunk) const;
  RowPlace place_in(const Chunk& chunk, const Param& row) const {
    return place_in_chunk(row, chunk.at, *config_, counts_);
  }
  void check_positions() const;
  void note_states_of_experts();
  void take_common();
  const Chunk& chunk_of(const Param& row) const;
  StoredTensor part(const Param& row, const std::string& state, std::int64_t tensor_rank) const;
  StoredTensor weight(const Param& row, std::int64_t tensor_rank) const;
  const MappedFile& file_of(const Param& row, const std::string& state,
                            std::int64_t tensor_rank) const;

  // These are in rank_states.cpp.
  void find_states(const std::string& folder);
  std::vector<ParamRows> rows_in(const Chunk& chunk, std::int64_t rank,
                                 std::size_t optimizer) const;
  void find_buffers(std::int64_t rank, std::int64_t stage);
  void find_buffers(const PyValue& stored, std::size_t optimizer, std::int64_t rank,
                    std::int64_t stage);
  void find_moments(std::int64_t rank, std::int64_t stage);

  RankCounts counts_;
  std::deque<RankFile> files_;    // by stage, then rank of it
  std::deque<RankFile> buffers_;  // distrib_optim.pt, likewise; none without distributed optimizer
  std::vector<States> rank_states_;  // likewise
  std::vector<std::string> states_ = {""};
  PyValue common_;
  std::vector<Chunk> chunks_;      // in the order of their layers
  std::vector<ParamTable> parts_;  // of each tensor rank, all layers
  Transform qkv_;                  // makes each rank's part of a linear_qkv what it is today
};

// A part of make_rank_files_sink() is a pipeline rank, all tensor ranks of it.
Parts rank_file_parts(const ModelTarget& target, const ParamTable& table);
std::unique_ptr<ModelSink> make_rank_files_sink(const ModelTarget& target, const RowTypes& types);

}  // namespace mt
