// EncoderOptions: what a T5 has beside a GPT, in the words of pretrain_t5.py.  The decoder's layers
// are as many as the encoder's unless said otherwise, which Megatron-LM v0.12 reads without effect.
// Its MLPs may be those of the T5s that were published, for which Megatron-LM has no flags.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config/model_config.h"

namespace mt {

class CommandLine;
struct ParallelOptions;
struct PipelineOptions;

struct EncoderOptions {
  std::optional<std::int64_t> encoder_num_layers, decoder_num_layers;
  std::int64_t relative_attention_num_buckets = EncoderConfig().relative_attention_num_buckets,
               relative_attention_max_distance = EncoderConfig().relative_attention_max_distance;
  bool relu = false;
  int encoder_stages = 0, encoder_tensor_ranks = 0;  // 0: no stages of its own; as the decoder
  std::optional<int> split_rank = {};                // the encoder's stages, of all

  void add_to(CommandLine& cl);
  // Declares those of an encoder's own stages.
  void add_stages_to(CommandLine& cl);
  // Exit::usage or bad_config where an encoder cannot have such stages.
  void take_stages(ParallelOptions& parallel, PipelineOptions& pipeline) const;
  // Makes the model a T5 with these layers; --num-layers says how many where nothing else does.
  void make_t5(ModelConfig& model) const;
  // Exit::usage where one says something that a model of this type has no use for.
  void check_unused(const std::string& type_option) const;
};

}  // namespace mt
