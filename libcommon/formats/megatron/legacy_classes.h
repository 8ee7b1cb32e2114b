// Megatron-LM's models from before Megatron-Core (megatron/legacy), as files of the torch format
// have them (formats/megatron/rank_files.h): in nested dicts,
//   model: {language_model: {embedding: {word_embeddings: {weight}, position_embeddings: {weight},
//             tokentype_embeddings: {weight}},
//           encoder: {layers.0.input_norm.weight, ..., final_norm.weight},
//           pooler: {dense.weight, dense.bias}, output_layer: {weight}},
//           word_embeddings_for_head: {weight},     on the last of several stages: tied embeddings
//           lm_head: {dense.weight, ..., bias}, binary_head: {weight, bias}}     of a BERT
// A model of two towers has such a dict for each, under query_model, context_model or shared_model,
// and in it projection_enc: {weight, bias} beside language_model.
// They are written like that, too, with checkpoint_version 3.  Older ones have other names
// (formats/names/megatron_legacy.h) and no language_model, or its dicts are flat.
//
// checkpoint_version, 0 where there is none, says how the rows of a rank's query_key_value are
// ordered: 0: [3, heads, D]; 1: [heads, D, 3]; from 2 on as Megatron-Core's, [heads, 3, D].
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ckpt/pickle.h"
#include "tensor/transform.h"

namespace mt {

struct ModelConfig;

// Whether a chunk's dict is of these classes.
bool is_legacy(const PyValue& model);

// Its tensors, in the file's order, by their plain_legacy_name().  Exit::bad_data for experts
// (SwitchMLP), layers of Transformer Engine's and a T5's decoder.
std::vector<std::pair<std::string, PyValue>> legacy_tensors(const PyValue& model,
                                                            const std::string& where);

// The reverse: a chunk's dict of values by megatron_legacy_name(), which say how it is nested.
PyValue legacy_model(const std::vector<std::pair<std::string, PyValue>>& named);

// Exit::bad_config for a model that these classes have not, or not by convert.py's legacy saver.
void check_legacy(const ModelConfig& config);

// `args` with the names that they have today, and without what only these classes know.
// Exit::bad_data for what Megatron-Core does not compute.
PyValue legacy_args(const PyValue& args, const std::string& where);

// What makes a rank's part of a linear_qkv of checkpoint_version `version` Megatron-Core's.
// Exit::bad_data for query groups in versions that knew none.
Transform legacy_qkv(double version, const ModelConfig& config, std::int64_t tensor_ranks,
                     const std::string& where);

}  // namespace mt
