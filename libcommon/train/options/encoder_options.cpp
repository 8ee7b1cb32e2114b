#include "train/options/encoder_options.h"

#include <utility>

#include "base/command.h"
#include "model/pipeline_options.h"
#include "train/options/parallel_options.h"

namespace mt {

void EncoderOptions::add_to(CommandLine& cl) {
  cl.section("Encoder and decoder (T5)");
  cl.option("--encoder-num-layers", &encoder_num_layers, "N",
            "t5: layers of the encoder, instead of --num-layers", between(1, 1 << 16));
  cl.option("--decoder-num-layers", &decoder_num_layers, "N",
            "t5: layers of the decoder; default as many as the encoder's.  Megatron-LM v0.12 reads "
            "it without effect",
            between(1, 4096));
  cl.option("--relative-attention-num-buckets", &relative_attention_num_buckets, "N",
            "t5: with --position-embedding-type relative, buckets of distances", between(4, 256));
  cl.option("--relative-attention-max-distance", &relative_attention_max_distance, "N",
            "t5: the distance from which on all are in the last bucket", between(1, 1 << 30));
  cl.flag("--relu", &relu, "t5: ReLU instead of GeLU, as in T5 1.0");
}

void EncoderOptions::add_stages_to(CommandLine& cl) {
  cl.option("--encoder-pipeline-model-parallel-size", &encoder_stages, "N",
            "t5: stages of the encoder's layers alone, in front of the "
            "--pipeline-model-parallel-size of the decoder's; 0: one pipeline goes over both",
            at_least(0));
  cl.option("--encoder-tensor-model-parallel-size", &encoder_tensor_ranks, "N",
            "t5: of these stages, --tensor-model-parallel-size or 0, which is the same",
            at_least(0));
  cl.option("--pipeline-model-parallel-split-rank", &split_rank, "N",
            "t5: how many of --pipeline-model-parallel-size are the encoder's", at_least(1));
}

void EncoderOptions::take_stages(ParallelOptions& parallel, PipelineOptions& pipeline) const {
  const int stages = parallel.pipeline_model_parallel_size;
  if (encoder_tensor_ranks != 0 && encoder_tensor_ranks != parallel.tensor_model_parallel_size)
    fail(Exit::bad_config, "--encoder-tensor-model-parallel-size ", encoder_tensor_ranks,
         ": expected --tensor-model-parallel-size ", parallel.tensor_model_parallel_size);
  if (encoder_stages > 0 && split_rank)
    fail(Exit::usage,
         "--encoder-pipeline-model-parallel-size and --pipeline-model-parallel-split-rank exclude "
         "each other");
  if (split_rank && *split_rank >= stages)
    fail(Exit::bad_config, "--pipeline-model-parallel-split-rank ", *split_rank,
         ": expected less than --pipeline-model-parallel-size ", stages);
  pipeline.encoder_ranks = split_rank.value_or(encoder_stages);
  if (pipeline.encoder_ranks == 0) return;
  if (pipeline.layers_per_virtual_stage || pipeline.virtual_stages_per_rank)
    fail(Exit::usage,
         split_rank ? "--pipeline-model-parallel-split-rank"
                    : "--encoder-pipeline-model-parallel-size",
         ": not with virtual stages");
  parallel.encoder_stages = encoder_stages;
}

// Exit::usage where one of them is not what it is by itself, which does nothing in such a run.
static void refuse_relative(const EncoderOptions& o, const std::string& run) {
  const EncoderOptions defaults;
  for (const auto& [says, name] :
       {std::pair{o.relative_attention_num_buckets != defaults.relative_attention_num_buckets,
                  "--relative-attention-num-buckets"},
        std::pair{o.relative_attention_max_distance != defaults.relative_attention_max_distance,
                  "--relative-attention-max-distance"}})
    if (says) fail(Exit::usage, name, ": has no effect with ", run);
}

void EncoderOptions::make_t5(ModelConfig& model) const {
  if (encoder_num_layers && model.num_layers != 0)
    fail(Exit::usage, "--encoder-num-layers: excludes --num-layers");
  if (!encoder_num_layers && model.num_layers == 0)
    fail(Exit::usage, "--num-layers: required, or --encoder-num-layers");
  if (model.position_embedding_type != "relative")
    refuse_relative(*this, "--position-embedding-type " + model.position_embedding_type);
  model.family = ModelFamily::t5;
  model.encoder_num_layers = encoder_num_layers.value_or(model.num_layers);
  model.num_layers = decoder_num_layers.value_or(model.encoder_num_layers);
  model.relative_attention_num_buckets = relative_attention_num_buckets;
  model.relative_attention_max_distance = relative_attention_max_distance;
  model.relu = relu;
}

void EncoderOptions::check_unused(const std::string& type_option) const {
  for (const auto& [says, name] :
       {std::pair{encoder_num_layers.has_value(), "--encoder-num-layers"},
        std::pair{decoder_num_layers.has_value(), "--decoder-num-layers"},
        std::pair{relu, "--relu"},
        std::pair{encoder_stages > 0, "--encoder-pipeline-model-parallel-size"},
        std::pair{encoder_tensor_ranks > 0, "--encoder-tensor-model-parallel-size"},
        std::pair{split_rank.has_value(), "--pipeline-model-parallel-split-rank"}})
    if (says) fail(Exit::usage, name, ": has no effect with ", type_option);
  refuse_relative(*this, type_option);
}

}  // namespace mt
