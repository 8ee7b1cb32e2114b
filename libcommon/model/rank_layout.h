// What Megatron-Core's ranks know of their parameters beside the values: the order in which a
// chunk's modules register them, and where the distributed optimizer keeps their state in a flat
// buffer (megatron/core/distributed/param_and_grad_buffer.py).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/pickle.h"
#include "model/gpt.h"
#include "optim/buffer_layout.h"

namespace mt {

// The name that a row has in models of the local specification, without Transformer Engine: there
// the norms in front of linear_qkv and linear_fc1 are input_layernorm and pre_mlp_layernorm.
std::string local_spec_name(const std::string& name);

// The names under which a model's state_dict() has a row: T5Model's output layer is there twice.
std::vector<std::string> state_dict_names(const std::string& name, bool local_spec);

// A chunk's rows in the order of their registration: an attention's linear_proj comes before its
// linear_qkv.  The last of several stages has a copy of tied embeddings, the row of the words, in
// front of the output layer's bias or at the end.
std::vector<const Param*> registered_rows(const ParamTable& table, const StageRange& chunk,
                                          bool local_spec, bool tied);

// --- Flat buffers -------------------------------------------------------------------------------

struct BufferParam {
  std::int64_t elements = 0;
  bool shared = false;  // tied embeddings of a pipeline's ends: they have a bucket of their own
};

// Of a rank's rows, in a pipeline of so many ranks.
std::vector<BufferParam> buffer_params(std::span<const Param* const> rows, const GptConfig& config,
                                       std::int64_t stages);

struct BufferRules {
  int ranks = 1;                            // that share a bucket
  std::optional<std::int64_t> bucket = {};  // elements that fill one; else there is no limit
  bool pads_for_nccl = false;
};

// Of chunk `chunk` of stage `stage`, in a run with these settings.  Exit::bad_data for settings
// that cannot be.
BufferRules buffer_rules(const PyValue& args, std::int64_t stage, std::int64_t chunk,
                         const std::string& where);

UnpaddedLayout rank_buffer(std::span<const BufferParam> params, const BufferRules& rules);

}  // namespace mt
