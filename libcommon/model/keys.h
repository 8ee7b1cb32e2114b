// The keys of a model's rows in a torch_dist checkpoint, and which part of the tensors under them
// each row is: what training and conversion write and read alike.
//
// Equal layers are stacked under one key, their number being an index of an axis in front, and so
// are their experts: decoder.layers.mlp.linear_fc2.weight [layers, ...].  Layers of a hybrid are
// not, and have keys with their numbers; so have states of which some layers, frozen ones, have
// none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/param.h"

namespace mt {

struct ModelConfig;

// Returns how much of a module's name says in which layer it is of a stack that stands in a module
// of a layer, as a Retro's encoder does: all of "cross_attention.encoder.layers.0.".  0: in none.
std::size_t inner_layer(std::string_view module);

// Returns the place that a row has in models of the local specification, without Transformer
// Engine: there the norms in front of linear_qkv and linear_fc1 are modules of their own,
// input_layernorm and pre_mlp_layernorm.
RowPlace local_spec_place(const RowPlace& place);
// Returns the second place of a row that a model has twice: what T5Model's output layer has of its
// own, and its positions, are the model's, too.
std::optional<RowPlace> second_place(const RowPlace& place);

// KeySpelling: how the keys differ that a row may have in a checkpoint.
struct KeySpelling {
  bool of_state = false;     // an optimizer's state has one, the second, where a row has two
  bool numbered = false;     // layers are not stacked, and have their numbers in their keys
  bool dense_norms = false;  // the norm in front of experts is named as if before a dense MLP
};

std::string key_of(const Param& row, const KeySpelling& spelling = {});

// KeyPart: rows [begin, end) of what a rank has of a row are the chunk at `offset` of the tensor of
// shape `whole` under this key.
struct KeyPart {
  std::string key;
  Shape whole, offset, chunk;
  std::int64_t begin = 0, end = 0;
  int stacked = 0;  // axes in front, of layers and experts, of which the chunk has one index each
};
std::vector<KeyPart> key_parts(const Param& row, const KeySpelling& spelling = {});

// --- Optimizers ---------------------------------------------------------------------------------

// Returns what stands in front of a row's key in the key of its state, "exp_avg" say.  The weight
// itself is the state "", and nothing stands in front of its key.
std::string state_prefix(const std::string& state);

// The distributed optimizer of core_v0.12 keeps a state as a grid of blocks, one for each part of a
// row that tensor-parallel ranks cut: an axis for each of the tensor's own, and one of the block's
// elements.  Gate and up are blocks even where no rank cuts them, for Megatron loads no more of a
// block than one part.
//
// Returns where all of a part lies there, of a row that one rank has whole.
KeyPart reformulated(const KeyPart& part, const Param& row);
// Returns where elements [begin, end) lie of what a rank has of a row, block by block.  `begin` and
// `end` of these parts count elements, too.
std::vector<KeyPart> reformulated_parts(const Param& row, std::int64_t begin, std::int64_t end);

// --- Extra states -------------------------------------------------------------------------------

// Returns the keys of the objects that Megatron asks for beside the parameters: Transformer
// Engine's extra states.
std::vector<std::string> extra_states(const ModelConfig& config);
// Returns the key of the one that the linear module of a weight has.
std::string extra_state_key(const Param& weight, const KeySpelling& spelling = {});

}  // namespace mt
