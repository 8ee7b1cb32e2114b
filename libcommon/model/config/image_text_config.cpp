#include "model/config/image_text_config.h"

#include "model/config/model_config.h"

namespace mt {

std::int64_t first_feature(const ModelConfig& joint) {
  if (joint.vision_feature_select_strategy != "default") return 0;
  return joint.is_radio() ? joint.class_tokens() : 1;
}

void take_tower(ModelConfig& c, const ModelConfig& tower) {
  c.family = ModelFamily::llava;
  static_cast<VisionConfig&>(c) = tower;
  c.vision_num_layers = tower.num_layers;
  c.vision_hidden_size = tower.hidden_size;
  c.vision_ffn_hidden_size = tower.ffn();
  c.vision_num_attention_heads = tower.num_attention_heads;
  c.vision_norm_epsilon = tower.norm_epsilon;
  c.vision_activation = tower.swiglu             ? "swiglu"
                        : tower.quick_gelu       ? "quick_gelu"
                        : tower.bias_gelu_fusion ? "gelu_tanh"
                                                 : "gelu";
  c.vision_normalization = tower.normalization;
  c.vision_qk_layernorm = tower.qk_layernorm;
  c.vision_qkv_bias = tower.add_qkv_bias;
}

void make_internvl(ModelConfig& c) {
  c.pixel_shuffle = true;
  c.projector_normalization = "LayerNorm";
  c.projector_norm_epsilon = kProjectorEpsilon;
  c.image_tag_type = "internvl";
}

ModelConfig tower_config(const ModelConfig& joint) {
  ModelConfig c;
  c.family = ModelFamily::vit;
  static_cast<VisionConfig&>(c) = joint;
  c.vision_head = "none";
  c.num_layers = joint.vision_num_layers;
  c.hidden_size = joint.vision_hidden_size;
  c.ffn_hidden_size = joint.vision_ffn_hidden_size;
  c.num_attention_heads = joint.vision_num_attention_heads;
  c.norm_epsilon = joint.vision_norm_epsilon;
  c.quick_gelu = joint.vision_activation == "quick_gelu";
  c.bias_gelu_fusion = joint.vision_activation == "gelu_tanh";
  c.swiglu = joint.vision_activation == "swiglu";
  c.normalization = joint.vision_normalization;
  c.qk_layernorm = c.qk_layernorm_whole = joint.vision_qk_layernorm;
  c.add_qkv_bias = joint.vision_qkv_bias;
  c.init_method_std = joint.init_method_std;
  c.attention_dropout = c.hidden_dropout = 0;
  c.vocab_size = c.padded_vocab_size = c.num_classes;
  c.max_position_embeddings = c.learnt_positions();
  c.complete();
  return c;
}

ModelConfig language_config(const ModelConfig& joint) {
  ModelConfig c = joint;
  c.family = ModelFamily::gpt;
  return c;
}

}  // namespace mt
