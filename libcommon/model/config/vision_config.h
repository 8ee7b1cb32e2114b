// VisionConfig: the images that a Vision Transformer reads, and what it learns from them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace mt {

// Megatron's tokens in front of an image's patches; a head that tells classes reads the first
// (Megatron-LM core_v0.12.1, megatron/legacy/model/vision/vit_backbone.py).
inline constexpr std::int64_t kClassTokens = 8;

struct VisionConfig {
  std::int64_t img_h = 224, img_w = 224, num_channels = 3;
  std::int64_t patch_dim = 16;  // the side of a patch, which divides the image's
  std::int64_t num_classes = 1000;
  // classify: to tell them apart;  inpaint: to paint patches that it does not see, which takes no
  // tokens of classes;  dino: to say of parts of an image what a teacher says of others
  std::string vision_pretraining_type = "classify";
  std::int64_t class_token_len = kClassTokens;
  std::int64_t num_registers = 0;  // a radio's tokens of classes that nothing but layers read
  // What tells classes by the first token: mlp, Megatron's;  linear, transformers';  none: there is
  // no head, and the model makes hidden states.
  std::string vision_head = "mlp";
  // clip: a norm behind the embedding of patches, which has no bias, and none behind the layers;
  // siglip: no token of classes;  internvit: none behind the layers, what each branch adds is
  // multiplied by a number for each channel that is learnt, and queries, keys and values have no
  // bias unless --add-qkv-bias says so;  radio: none behind the layers, no bias of patches, and any
  // number of tokens of classes, which have no positions.  Towers of these kinds make hidden
  // states.
  std::string vision_model_type = "vit";
  bool vision_use_head = false;  // a siglip carries transformers' pooling head, which nothing reads
  // The side of the square image whose patches a radio knows positions of, which are resized to
  // another image's (model/image_positions.h); 0: the model's own.
  std::int64_t max_img_size = 0;
  // A model that tells classes reads red, green and blue, from 0 to 1, less pixel_mean and divided
  // by pixel_std; image_filter says how pixels are weighed where an image becomes larger or
  // smaller, bilinear or bicubic.
  std::string pixel_mean = "0.485,0.456,0.406", pixel_std = "0.229,0.224,0.225";
  std::string image_filter = "bilinear";
  // These are DINO's: the layers of the head (nn/dino_head.h), whether its last one's rows keep
  // their length of 1, the smaller parts of images: squares of so many pixels, of each image so
  // many; and how often the student passes over the branches of its last layer, and of those before
  // it in proportion to their number, the first never (nn/branch.h).
  std::int64_t dino_head_hidden_size = 2048, dino_bottleneck_size = 256, dino_out_dim = 65536;
  bool dino_norm_last_layer = false;
  std::int64_t dino_local_img_size = 96, dino_local_crops_number = 10;
  double dino_drop_path = 0.1;
  // 0: an image is stretched to the model's size; else its shorter side becomes so long, and its
  // middle is the model's.
  std::int64_t image_short_side = 0;

  std::int64_t patch_width() const { return patch_dim * patch_dim * num_channels; }
  std::int64_t patches() const { return (img_h / patch_dim) * (img_w / patch_dim); }
  bool is_dino() const { return vision_pretraining_type == "dino"; }
  bool inpaints() const { return vision_pretraining_type == "inpaint"; }
  bool is_tower() const { return vision_model_type != "vit"; }
  bool is_clip() const { return vision_model_type == "clip"; }
  bool is_internvit() const { return vision_model_type == "internvit"; }
  bool is_radio() const { return vision_model_type == "radio"; }
  bool ends_in_norm() const { return !is_internvit() && !is_radio(); }  // behind the layers
  bool knows_own_positions() const { return max_img_size == 0 || max_img_size == img_h; }
  // How many positions there are to learn.
  std::int64_t learnt_positions() const {
    const std::int64_t side = max_img_size / patch_dim;
    return !is_radio() ? image_tokens() : max_img_size == 0 ? patches() : side * side;
  }
  std::int64_t class_tokens() const { return inpaints() ? 0 : class_token_len; }
  std::int64_t image_tokens() const { return class_tokens() + patches(); }
};

// The three numbers of a list, as in "0.5,0.5,0.5", each within what a float holds.
// Exit::bad_config, with the flag, for another.
std::array<double, 3> color_numbers(const char* flag, const std::string& list);

}  // namespace mt
