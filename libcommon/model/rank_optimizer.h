// The optimizer in files of the torch format (model/rank_files.h), as Megatron-Core 0.12.1 keeps
// it:
//   model_optim_rng.pt: optimizer is, of mixed precision,
//     {optimizer: {state: {ID: {exp_avg, exp_avg_sq[, step]}}, param_groups: [{…, params: [ID]}]},
//      fp32_from_fp16_params: [[tensor, …] of each group][, grad_scaler: {…}]}
//   of fp32, what is under `optimizer` there; of the distributed optimizer
//     {optimizer: {param_groups: [{…}]}[, grad_scaler: {…}]}
//   distrib_optim.pt beside it has the distributed optimizer's state, of each chunk G of the rank
//     {buckets_coalesced: True, G: {(torch.bfloat16, torch.float32): {param, exp_avg, exp_avg_sq:
//      f32 in the order of model/rank_layout.h, numel_unpadded: int}}}
// IDs count a rank's parameters through the groups, which stand in the order of their first ones.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/pickle.h"
#include "ckpt/torch_file.h"
#include "model/model_source.h"

namespace mt {

inline constexpr const char* kBufferFile = "distrib_optim.pt";

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
std::optional<PyValue> common_step(const PyValue& stored, const TorchReader& tensors,
                                   const std::string& where);

// The reverse: fills the states of a rank's parameters, but those of the distributed optimizer.
void find_rank_states(const PyValue& optimizer, std::span<RankParam> params,
                      const std::string& where);
PyValue common_optimizer(const PyValue& optimizer, bool distributed, const std::string& where);

}  // namespace mt
