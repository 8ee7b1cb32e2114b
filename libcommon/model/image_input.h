// Images as a model reads them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "image/patches.h"

namespace mt {

struct ModelConfig;
struct VisionConfig;

Normalization normalization_of(const VisionConfig& config);

// to: [image_tokens(), patch_width()]: zeroes of tokens of classes, and the colours of patches
// (image/patches.h), of an image that is brought to the model's size and normalised as its settings
// say.  Behind the last whole patch of a row or a column pixels are passed over.
void make_image_input(const VisionConfig& config, const Image& image, std::span<float> to);

// The tokens of a text that an image of a LLaVA takes.
std::int64_t tokens_of_image(const ModelConfig& llava);

// For each token of a text the row of its images' tokens that stands there, or -1: those of the
// first image, then those of the second, wherever the image's token is.
std::vector<std::int32_t> image_rows(const ModelConfig& llava, std::span<const std::int32_t> ids);

}  // namespace mt
