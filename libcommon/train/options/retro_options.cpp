#include "train/options/retro_options.h"

#include <utility>

#include "base/command.h"

namespace mt {

void RetroOptions::add_to(CommandLine& cl) {
  cl.section("Neighbours (Retro)");
  cl.option(
      "--retro-project-dir", &project_dir, "DIR",
      "a project of mt-retro-index, or of Megatron-LM's tools: the run reads its token files, "
      "as its config.json says");
  cl.flag("--retro-add-retriever", &add_retriever,
          "layers 6, 9, 12, ... of a GPT, or 9, 12, ... of one with more than 15, attend to the "
          "project's neighbours");
  cl.option("--retro-num-neighbors", &num_neighbors, "N", "neighbours of a chunk", at_least(1));
  cl.option("--retro-num-retrieved-chunks", &num_retrieved_chunks, "N",
            "chunks that a neighbour is of: the one that was found, and those behind it",
            at_least(1));
  cl.option("--retro-encoder-layers", &encoder_layers, "N",
            "layers of the neighbours' encoder.  Megatron-LM v0.12 reads it without effect",
            between(1, 4096));
  cl.option("--retro-encoder-hidden-dropout", &encoder_hidden_dropout, "P",
            "dropout of the encoder's residual branches", between(0, 0.99));
  cl.option("--retro-encoder-attention-dropout", &encoder_attention_dropout, "P",
            "dropout of its attention probabilities", between(0, 0.99));
  cl.flag("--retro-final-layernorm", &final_layernorm,
          "a norm behind the last layer, as a GPT has it, and Megatron-LM's Retro has not");
  cl.flag("--retro-zero-init", &zero_init,
          "what attention to neighbours adds begins at 0, so that the model begins as a GPT");
  cl.off_switch("--retro-no-verify-neighbor-count", &verify_neighbor_count,
                "neighbours may be known for another number of chunks than the run asks for");
}

void RetroOptions::make_retro(ModelConfig& model,
                              std::optional<RetroSampleOptions>& samples) const {
  if (!add_retriever) return;
  if (project_dir.empty()) fail(Exit::usage, "--retro-add-retriever: needs --retro-project-dir");
  model.family = ModelFamily::retro;
  model.retro_encoder_num_layers = encoder_layers;
  model.retro_encoder_hidden_dropout = encoder_hidden_dropout;
  model.retro_encoder_attention_dropout = encoder_attention_dropout;
  model.retro_num_neighbors = num_neighbors;
  model.retro_num_retrieved_chunks = num_retrieved_chunks;
  model.retro_chunk_length = chunk_length;
  model.retro_final_layernorm = final_layernorm;
  model.retro_zero_init = zero_init;
  samples = {.chunk_length = chunk_length,
             .neighbors = num_neighbors,
             .retrieved_chunks = num_retrieved_chunks,
             .verify_count = verify_neighbor_count};
}

void RetroOptions::check_unused(const std::string& run) const {
  const RetroOptions defaults;
  for (const auto& [says, name] :
       {std::pair{add_retriever, "--retro-add-retriever"},
        std::pair{num_neighbors != defaults.num_neighbors, "--retro-num-neighbors"},
        std::pair{num_retrieved_chunks != defaults.num_retrieved_chunks,
                  "--retro-num-retrieved-chunks"},
        std::pair{encoder_layers != defaults.encoder_layers, "--retro-encoder-layers"},
        std::pair{encoder_hidden_dropout != defaults.encoder_hidden_dropout,
                  "--retro-encoder-hidden-dropout"},
        std::pair{encoder_attention_dropout != defaults.encoder_attention_dropout,
                  "--retro-encoder-attention-dropout"},
        std::pair{final_layernorm, "--retro-final-layernorm"},
        std::pair{zero_init, "--retro-zero-init"},
        std::pair{!verify_neighbor_count, "--retro-no-verify-neighbor-count"}})
    if (says) fail(Exit::usage, name, ": has no effect with ", run);
}

}  // namespace mt
