// ImageTextConfig: what a LLaVA (Liu et al.: arXiv:2304.08485) has beside a GPT: a tower that reads
// images, whose hidden states become rows of the language model's, each in the place of a token of
// the text.  What images are, and which kind of tower reads them, VisionConfig says.  An InternVL
// (Chen et al.: arXiv:2404.16821) is one whose images are cut into tiles, which the tower reads one
// by one, and of which four neighbours' hidden states become one row.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

struct ModelConfig;

inline constexpr std::int64_t kMostTiles = 128;  // that an image may become, beside a thumbnail
inline constexpr std::int64_t kMostTaggedTiles = 12;  // likewise, where each has a word

struct ImageTextConfig {
  std::int64_t vision_num_layers = 24, vision_hidden_size = 1024, vision_ffn_hidden_size = 4096;
  std::int64_t vision_num_attention_heads = 16;
  double vision_norm_epsilon = 1e-5;
  std::string vision_activation = "quick_gelu";  // gelu, in its erf form, gelu_tanh, or swiglu
  // These are an internvit's: its norms, or RMSNorm, norms of whole queries and keys, and biases of
  // queries, keys and values.
  std::string vision_normalization = "LayerNorm";
  bool vision_qk_layernorm = false, vision_qkv_bias = false;
  // Which layer's hidden states are taken: so many layers run, or, below 0, all but so many less
  // one.
  std::int64_t vision_feature_layer = -2;
  // default: all of an image's tokens but the first, which is a CLIP's of classes, or but those of
  // classes that a RADIO has;  full: all
  std::string vision_feature_select_strategy = "default";
  // What the projector reads is the hidden states of two by two neighbours, side by side: those of
  // the upper row, left and right, and those of the lower one.
  bool pixel_shuffle = false;
  std::string projector_normalization = "none";  // of what the projector reads: LayerNorm, RMSNorm
  double projector_norm_epsilon = 1e-5;          // kProjectorEpsilon
  bool projector_bias = true;
  std::int64_t image_token_index = 32000;  // the token in whose places an image's rows stand
  // With tiles an image becomes as many of the tower's as fit its sides' ratio best, at most
  // max_num_tiles, side by side and one below the other, and with a thumbnail, where they are more
  // than one, the whole of it (model/image_tiles.h).
  bool use_tiling = false, use_thumbnail = false, use_area_weighted_aspect_ratio = false;
  std::int64_t max_num_tiles = 1;
  // In front of each tile's tokens stand those of a word that says which it is (ImageWords).
  bool use_tile_tags = false;
  // What stands around an image's tokens in a text: none, internvl: <img> and </img>, or nvlm:
  // <Image> and </Image>.
  std::string image_tag_type = "none";

  std::int64_t tower_layers() const {  // that run
    return vision_feature_layer < 0 ? vision_num_layers + 1 + vision_feature_layer
                                    : vision_feature_layer;
  }
  bool cuts_images() const { return use_tiling && max_num_tiles > 1; }
};

// The first of an image's tokens whose hidden states are taken.
std::int64_t first_feature(const ModelConfig& joint);

inline constexpr double kProjectorEpsilon = 1e-5;  // torch's own

// Makes the settings of a GPT, complete, those of a LLaVA with this tower, and of one whose tower
// is an InternViT those of an InternVL, but for how images are cut.
void take_tower(ModelConfig& language, const ModelConfig& tower);
void make_internvl(ModelConfig& joint);

// The settings of a LLaVA's parts, complete: of a ViT, and of a GPT.
ModelConfig tower_config(const ModelConfig& joint);
ModelConfig language_config(const ModelConfig& joint);

}  // namespace mt
