// The tables of all families that are converted: the parameters' Megatron-Core names and keys, and
// their names and shapes in Hugging Face's models.  A family that has a model here has its table.
#pragma once

#include <string>
#include <vector>

#include "ckpt/dist_checkpoint.h"
#include "model/config/model_config.h"
#include "model/families/gpt.h"

namespace mt {

inline constexpr const char* kHuggingFaceFormat = "hf";  // of ForeignName
// Instead of a name: their model has no such tensor, and computes as if it were zero.
inline constexpr const char* kZerosThere = "";

// All rows of the model, as one of so many tensor-parallel ranks has them.
ParamTable model_rows(const ModelConfig& config, const TensorPart& part = {});

// The number in a name such as decoder.layers.3.…; -1 if it has none.
std::int64_t layer_in(const std::string& name);
// The name with another number there.
std::string with_layer(const std::string& name, std::int64_t layer);

// Whether it is of a T5's relative positions, which all layers of a stack have.
bool is_relative_position(const Param& row);

// The number of the expert that a row belongs to; -1 of others.
std::int64_t expert_in(const std::string& name);
std::string with_expert(const std::string& name, std::int64_t expert);

// What of a row lies under a key of a torch_dist checkpoint: rows [begin, end) of its first axis,
// as a chunk at `offset` of a tensor of shape `whole`.  An expert of Mixtral is a part of a tensor
// of all experts of all layers; Mamba's in_proj and conv1d have a key for each of their segments.
struct KeyPart {
  std::string key;
  Shape whole, offset;
  std::int64_t begin, end;
  int stacked = 0;  // axes in front, of layers and experts

  Shape chunk() const;
};
// Of an optimizer's states T5's output layer has one, of its weights two with the same elements.
std::vector<KeyPart> key_parts(const Param& row, const ModelConfig& config,
                               const std::string& state = {});
// The same of a distributed optimizer's state, in Megatron's shape of one that a single rank has:
// the axes of layers and experts, one for each of the row's own, and one of elements.  Those have
// extent 1; only gate and up are cut from each other, for Megatron loads no more than one part of a
// cut.
KeyPart reformulated(const KeyPart& part, const Param& row);

// The empty objects that Megatron asks for beside the parameters, of any family.
void write_model_extra_states(DistWriter& writer, const ModelConfig& config);

}  // namespace mt
