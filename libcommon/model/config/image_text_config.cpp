#include "model/config/image_text_config.h"

#include "model/config/model_config.h"

namespace mt {

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
  c.normalization = joint.vision_normalization;
  c.qk_layernorm = c.qk_layernorm_whole = joint.vision_qk_layernorm;
  c.add_qkv_bias = joint.vision_qkv_bias;
  c.init_method_std = joint.init_method_std;
  c.attention_dropout = c.hidden_dropout = 0;
  c.vocab_size = c.padded_vocab_size = c.num_classes;
  c.max_position_embeddings = c.image_tokens();
  c.complete();
  return c;
}

ModelConfig language_config(const ModelConfig& joint) {
  ModelConfig c = joint;
  c.family = ModelFamily::gpt;
  return c;
}

}  // namespace mt
