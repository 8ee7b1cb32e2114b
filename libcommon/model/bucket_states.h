// The distributed optimizer's state in torch_dist checkpoints, where each rank of the model keeps
// its flat buffers as they are (megatron/core/optimizer/distrib_optimizer.py):
//   optimizer.distributed.dp_group_idx_G.optimizer/shard_0_1    object, of rank G: what it has
//   under
//       `optimizer` in model_optim_rng.pt (model/rank_optimizer.h); tensor ranks count first
//   …dp_group_idx_G.gbuf_idx_B.dtype_(…).bucket_idx_K.{param,exp_avg,exp_avg_sq}    1-D, of
//       dp_reshardable (core_v0.16.1): bucket K of the buffer of chunk B, without its padding
//   …dp_group_idx_G.param_state/shard_0_1    object, of dp_zero_gather_scatter (core_v0.12.1): what
//       distrib_optim.pt holds
// What lies where is not stored with it, but follows from args (model/rank_layout.h).
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ckpt/dist_checkpoint.h"
#include "model/model_config.h"
#include "model/rank_layout.h"
#include "tensor/param.h"

namespace mt {

// The form in which a torch_dist checkpoint's common state says that the distributed optimizer's
// state is stored; empty if it says nothing.
std::string sharding_type(const PyValue& common, const std::string& where);
// Whether BucketStates knows it.
bool is_by_buckets(const std::string& sharding_type);

// Several threads may read at once.
class BucketStates {
 public:
  // Of `tensors`, which it keeps a reference to.  Exit::bad_data for runs that it does not know.
  BucketStates(const DistReader& tensors, const ModelConfig& config, const PyValue& args,
               const std::string& sharding_type);

  // The common state's, as fully_sharded_model_space has it.
  PyValue common_optimizer() const;
  // Of a row and fp32_param, exp_avg or exp_avg_sq.
  DType dtype_of(const Param& row, const std::string& state) const;
  // As ModelSource::read().
  void read(const Param& row, const std::string& state, Tensor out) const;

 private:
  using BufferStates = std::map<std::string, StoredTensor>;
  // Where a parameter begins: in a bucket's tensors, or in a buffer that an object has whole.
  struct Place {
    std::string bucket = {};
    const BufferStates* buffer = nullptr;
    std::int64_t start = 0;  // elements
  };
  using Places = std::map<std::size_t, Place>;  // by the row's number

  void check_run(const PyValue& args) const;
  void find_places(const PyValue& args);
  void find_buckets(const BufferLayout& layout, std::span<const ParamRows> params,
                    const std::string& buffer, Places& places) const;
  const Place& place_of(const Param& row, std::size_t tensor_rank) const;
  void read_part(const Place& place, const std::string& state, std::int64_t begin,
                 Tensor out) const;

  const DistReader& tensors_;
  const ModelConfig& config_;
  std::string where_;
  bool gathered_;                     // dp_zero_gather_scatter
  std::deque<BufferStates> buffers_;  // of each chunk, there
  std::vector<ParamTable> parts_;     // of each tensor rank
  std::vector<Places> places_;        // likewise
};

}  // namespace mt
