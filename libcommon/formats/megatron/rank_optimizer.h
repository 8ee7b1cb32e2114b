// The optimizer in files of the torch format (formats/megatron/rank_files.h), as Megatron-Core
// 0.12.1 keeps it:
//   model_optim_rng.pt: optimizer is, of mixed precision,
//     {optimizer: {state: {ID: {exp_avg, exp_avg_sq[, step]}}, param_groups: [{…, params: [ID]}]},
//      fp32_from_fp16_params: [[tensor, …] of each group][, grad_scaler: {…}]}
//   of fp32, what is under `optimizer` there; of the distributed optimizer
//     {optimizer: {param_groups: [{…}]}[, grad_scaler: {…}]}
//   distrib_optim.pt beside it has the distributed optimizer's state, of each chunk G of the rank
//     {buckets_coalesced: True, G: {(torch.bfloat16, torch.float32): {param, exp_avg, exp_avg_sq:
//      f32 in the order of formats/megatron/rank_layout.h, numel_unpadded: int}}}
// IDs count a rank's parameters through the groups, which stand in the order of their first ones.
//
// Where experts are shared out among ranks there are two optimizers, of what all of these ranks
// have and of their experts, and both files have a list of two; in distrib_optim.pt of all expert
// ranks but the first, None stands for the former.  A torch_dist checkpoint has {0: ..., 1: ...} in
// its common state then, and chained_0. or chained_1. before the keys.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/pickle.h"
#include "ckpt/torch_file.h"
#include "formats/model_source.h"
#include "tensor/param.h"

namespace mt {

inline constexpr const char* kBufferFile = "distrib_optim.pt";

// How many optimizers so many expert ranks have, and which of them has a row.
inline std::size_t optimizer_count(std::int64_t expert_ranks) { return expert_ranks > 1 ? 2 : 1; }
inline std::size_t optimizer_of(const Param& row, std::int64_t expert_ranks) {
  return expert_ranks > 1 && row.copies == Copies::experts ? 1 : 0;
}

// The optimizers that `stored` consists of, one or two.  Exit::bad_data for others.
std::vector<PyValue> chained_optimizers(const PyValue& stored, const std::string& where);
// The optimizers of a torch_dist checkpoint's common state, as so many expert ranks have them:
// groups of experts are those of other parameters, or part with them.  Exit::bad_config where
// experts have settings of their own and are no longer to be shared out.
std::vector<PyValue> optimizers_for(const PyValue& stored, std::int64_t expert_ranks,
                                    const ParamTable& table, const std::string& where);
// The common state's of one or two.
PyValue as_chain(const std::vector<PyValue>& optimizers);

// How a source's optimizer is kept on ranks.
struct RankOptimizer {
  explicit RankOptimizer(const ModelSource& source);

  bool distributed = false;
  std::string master;                // the state that has fp32 copies of the weights; may be empty
  std::vector<std::string> moments;  // the others
};

// A parameter of a rank with the values that stand for its states.
struct RankParam {
  const Param* row;
  std::map<std::string, PyValue> states = {};
};

// `optimizer` of a rank with these parameters, in the order of their registration.  `stored` is
// that of the common state of a torch_dist checkpoint, with tensors that the rank's file can refer
// to; `step` what each parameter of PyTorch's optimizers counts, or null.  Exit::bad_data if a
// parameter has no group there.
PyValue make_rank_optimizer(const PyValue& stored, const PyValue* step, const RankOptimizer& kind,
                            std::span<const RankParam> params, const std::string& where);

// The steps that all parameters have counted, as a number; nothing if the groups count.
// Exit::bad_data if experts' optimizer has counted others than that of all else.
std::optional<PyValue> common_step(const PyValue& stored, const TorchReader& tensors,
                                   const std::string& where);

// The reverse: fills the states of a rank's parameters, but those of the distributed optimizer.
void find_rank_states(const PyValue& optimizer, std::span<RankParam> params,
                      const std::string& where);
PyValue common_optimizer(const PyValue& optimizer, bool distributed, const std::string& where);

// The flat buffers of chunk `number` of one optimizer in distrib_optim.pt: fp32_param, exp_avg and
// exp_avg_sq.  Exit::bad_data unless each has so many elements.
std::map<std::string, StoredTensor> buffer_states(const PyValue& optimizer, std::size_t number,
                                                  const TorchReader& tensors, std::int64_t size,
                                                  const std::string& where);

}  // namespace mt
