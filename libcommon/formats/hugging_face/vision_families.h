// preprocessor_config.json of Hugging Face's: what becomes of an image before a Vision Transformer
// reads it.  In the settings of ours it is image_filter, pixel_mean and pixel_std; what has no
// setting, or takes another course than ours, is refused by name.
#pragma once

#include <string>

namespace mt {

struct ModelConfig;

inline constexpr const char* kImageProcessor = "preprocessor_config.json";

// Sets them by the file in a folder, which is to be there (Exit::no_input).
void read_image_processor(const std::string& folder, ModelConfig& model);

// The file that says them.
std::string image_processor(const ModelConfig& model);

}  // namespace mt
