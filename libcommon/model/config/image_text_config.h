// ImageTextConfig: what a LLaVA (Liu et al.: arXiv:2304.08485) has beside a GPT: a tower that reads
// images, whose hidden states become rows of the language model's, each in the place of a token of
// the text.  What images are, and which kind of tower reads them, VisionConfig says.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

struct ModelConfig;

struct ImageTextConfig {
  std::int64_t vision_num_layers = 24, vision_hidden_size = 1024, vision_ffn_hidden_size = 4096;
  std::int64_t vision_num_attention_heads = 16;
  double vision_norm_epsilon = 1e-5;
  std::string vision_activation = "quick_gelu";  // or gelu, in its erf form, or gelu_tanh
  // Which layer's hidden states are taken: so many layers run, or, below 0, all but so many less
  // one.
  std::int64_t vision_feature_layer = -2;
  // default: all of an image's tokens but the first, which is a CLIP's of classes;  full: all
  std::string vision_feature_select_strategy = "default";
  bool projector_bias = true;
  std::int64_t image_token_index = 32000;  // the token in whose places an image's rows stand

  std::int64_t tower_layers() const {  // that run
    return vision_feature_layer < 0 ? vision_num_layers + 1 + vision_feature_layer
                                    : vision_feature_layer;
  }
  std::int64_t first_feature() const { return vision_feature_select_strategy == "default" ? 1 : 0; }
};

// The settings of a LLaVA's parts, complete: of a ViT, and of a GPT.
ModelConfig tower_config(const ModelConfig& joint);
ModelConfig language_config(const ModelConfig& joint);

}  // namespace mt
