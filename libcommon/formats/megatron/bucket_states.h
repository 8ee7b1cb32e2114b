// The distributed optimizer's state in torch_dist checkpoints, where each rank of the model keeps
// its flat buffers as they are (megatron/core/optimizer/distrib_optimizer.py):
//   optimizer.distributed.dp_group_idx_G.optimizer/shard_0_1    object, of rank G: what it has
//       under `optimizer` in model_optim_rng.pt (rank_optimizer.h); tensor ranks count first
//   …dp_group_idx_G.grad_scaler/shard_0_1    object, of fp16, likewise
//   …dp_group_idx_G.gbuf_idx_B.dtype_(…).bucket_idx_K.{param,exp_avg,exp_avg_sq}    1-D: bucket K
//       of the buffer of the rank's chunk B; of dp_reshardable (core_v0.16.1) without its padding,
//       of fully_sharded_bucket_space (core_v0.7.0 to core_v0.10.0) with it
//   …dp_group_idx_G.per_bucket_numel_unpadded/shard_0_1    object beside those, of each chunk
//       {(dtype, dtype): [elements of a bucket without its padding, …]}
//   …dp_group_idx_G.param_state/shard_0_1    object, of dp_zero_gather_scatter (core_v0.12.1): what
//       distrib_optim.pt holds
// Where expert ranks share out experts there are two optimizers, with chained_0. and, of experts,
// chained_1. in front of the keys; G is then that of an expert rank's part of the model.
// Which parameter lies where is not stored with it, but follows from args (rank_layout.h).
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ckpt/dist_checkpoint.h"
#include "formats/megatron/megatron_common.h"
#include "formats/megatron/rank_files.h"
#include "formats/megatron/rank_layout.h"
#include "model/pipeline_stages.h"
#include "tensor/param.h"

namespace mt {

struct ModelConfig;

// The form in which a torch_dist checkpoint's common state says that the distributed optimizer's
// state is stored; empty if it says nothing.
std::string sharding_type(const PyValue& common, const std::string& where);
// Whether BucketStates knows it.
bool is_by_buckets(const std::string& sharding_type);

// Several threads may read at once.
class BucketStates {
 public:
  // The states among `tensors`, to which it keeps a reference.  Exit::bad_data for runs that it
  // does not know.
  BucketStates(const DistReader& tensors, const ModelConfig& config, const PyValue& args,
               const std::string& sharding_type);

  // The common state's, as fully_sharded_model_space has it.
  PyValue common_optimizer(const KeepTensor& keep) const;
  // The type of a row's fp32_param, exp_avg or exp_avg_sq.
  DType dtype_of(const Param& row, const std::string& state) const;
  // Reads such a state as ModelSource::read() does.
  void read(const Param& row, const std::string& state, Tensor out) const;
  // Whether a wrong place of anything would show in this row's fp32 values.
  bool is_telling(const Param& row) const {
    return row.shape.rank() < 2 || telling_.contains(row.index);
  }

 private:
  using BufferStates = std::map<std::string, StoredTensor>;
  // Where a rank's part of a row begins: in a bucket's tensors, or in a buffer that an object has
  // whole.
  struct Place {
    std::string bucket = {};
    const BufferStates* buffer = nullptr;
    std::int64_t start = 0;  // elements
    bool transposed = false;
  };
  using Places = std::map<std::size_t, Place>;  // by the row's number
  // One of the optimizers of a rank: its stage, tensor rank and, of experts, expert rank.
  struct Rank {
    std::int64_t stage, tensor, expert;
    std::size_t optimizer;
  };

  void read_run(const PyValue& args);
  std::string group_key(const Rank& rank) const;
  void find_places(const PyValue& args);
  void find_buffers(const Rank& rank, const PyValue& args);
  std::vector<ParamRows> params_of(const Rank& rank, const ChunkLayers& chunk) const;
  std::vector<std::int64_t> filled_buckets(const std::string& group, std::int64_t number) const;
  std::vector<Place> places_in_buckets(const std::string& group, std::int64_t number,
                                       std::span<const BufferParam> params) const;
  const Place& place_of(const Param& row, std::size_t tensor_rank) const;
  void read_part(const Place& place, const std::string& state, std::int64_t begin,
                 Tensor out) const;

  const DistReader& tensors_;
  const ModelConfig& config_;
  std::string type_, where_;
  RankCounts counts_;
  PipelineStages stages_;
  SpecNames names_;
  bool gemm_ = false;                 // experts are GroupedMLP's
  bool experts_in_front_ = false;     // of the stages, in G of experts
  std::deque<BufferStates> buffers_;  // of each chunk, of dp_zero_gather_scatter
  std::vector<ParamTable> parts_;     // of each tensor rank
  std::vector<Places> places_;        // likewise
  std::set<std::size_t> telling_;     // of experts, by their numbers
};

}  // namespace mt
