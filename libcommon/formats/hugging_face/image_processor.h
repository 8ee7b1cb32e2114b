// preprocessor_config.json of Hugging Face's, or the part of a processor_config.json that says the
// same: what becomes of an image before a Vision Transformer reads it.  In the settings of ours it
// is image_short_side, image_filter, pixel_mean and pixel_std; what has no setting, or takes
// another course than ours, is refused by name.
#pragma once

#include <string>
#include <string_view>

namespace mt {

struct ModelConfig;

inline constexpr const char *kImageProcessor = "preprocessor_config.json",
                            *kProcessor = "processor_config.json";
// How transformers cuts videos for an InternVL, which no program here reads: it travels along.
inline constexpr const char* kVideoProcessor = "video_preprocessor_config.json";

// Whether a model has such a file; one that is a ViT has no words.
bool reads_images(const ModelConfig& model);

// Sets them by the file in a folder, of which one is to be there (Exit::no_input): where both are,
// what processor_config.json says of images goes before the other, as in transformers 5.
void read_image_processor(const std::string& folder, ModelConfig& model);

// What processor_config.json in a folder says of videos; empty: nothing.
std::string video_processor_in(const std::string& folder);

// The file that says them; and that which says how a LLaVA's images become tokens, too, which a
// tokenizer calls so.
std::string image_processor(const ModelConfig& model);
std::string joint_processor(const ModelConfig& model, std::string_view image_token);

}  // namespace mt
