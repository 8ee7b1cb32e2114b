#include "train/options/encoder_options.h"

#include <utility>

#include "base/command.h"

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
        std::pair{relu, "--relu"}})
    if (says) fail(Exit::usage, name, ": has no effect with ", type_option);
  refuse_relative(*this, type_option);
}

}  // namespace mt
