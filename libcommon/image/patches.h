// Images as the numbers that a model reads: patches, row by row, of pixels, row by row, whose
// colours follow each other (Megatron-LM core_v0.12.1: b c (h p1) (w p2) -> b (h w) (p1 p2 c)).
#pragma once

#include <array>

#include "image/image.h"

namespace mt {

// What is taken from colours between 0 and 1, and what the rest is divided by.
struct Normalization {
  std::array<float, 3> mean = {0, 0, 0}, std = {1, 1, 1};
};
inline constexpr Normalization kImageNet = {.mean = {0.485F, 0.456F, 0.406F},
                                            .std = {0.229F, 0.224F, 0.225F}};

// to: [(height / patch) (width / patch), patch patch 3], of an image that patches divide.
void make_patches(const Image& image, std::int64_t patch, const Normalization& normalization,
                  std::span<float> to);

}  // namespace mt
