// RetroOptions: what a Retro has beside a GPT, in the words of pretrain_retro.py, and the project
// that its neighbours are in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/samples/retro_samples.h"
#include "model/config/model_config.h"

namespace mt {

class CommandLine;

struct RetroOptions {
  std::string project_dir;
  bool add_retriever = false;
  std::int64_t encoder_layers = RetroConfig().retro_encoder_num_layers;
  double encoder_hidden_dropout = RetroConfig().retro_encoder_hidden_dropout,
         encoder_attention_dropout = RetroConfig().retro_encoder_attention_dropout;
  std::int64_t num_neighbors = RetroConfig().retro_num_neighbors,
               num_retrieved_chunks = RetroConfig().retro_num_retrieved_chunks;
  bool final_layernorm = false, zero_init = false, verify_neighbor_count = true;
  std::int64_t chunk_length = 0;  // the project's

  void add_to(CommandLine& cl);
  // Makes a GPT a Retro, if it is to be one, whose samples have neighbours.
  void make_retro(ModelConfig& model, std::optional<RetroSampleOptions>& samples) const;
  // Exit::usage where one says something that a model without neighbours has no use for.
  void check_unused(const std::string& run) const;
};

}  // namespace mt
