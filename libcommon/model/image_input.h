// Images as a model reads them.
#pragma once

#include <span>

#include "image/patches.h"
#include "image/resize.h"

namespace mt {

struct VisionConfig;

Normalization normalization_of(const VisionConfig& config);
Filter filter_of(const VisionConfig& config);

// to: [image_tokens(), patch_width()]: zeroes of tokens of classes, and the colours of patches
// (image/patches.h), of an image that is brought to the model's size and normalised as its settings
// say.  Behind the last whole patch of a row or a column pixels are passed over.
void make_image_input(const VisionConfig& config, const Image& image, std::span<float> to);

}  // namespace mt
