// Positions of an image's tokens, for images of another size than they were learnt for.
#pragma once

#include "tensor/tensor.h"

namespace mt {

struct VisionConfig;

// to: [tokens, hidden_size] f32 of images as `to_images` are, from those of `from_images`; both
// have the same patches.  Those of patches are means of the nearest four, or fewer at the edges,
// weighed by distance: the place of row i is (i + 1/2) from_rows / to_rows - 1/2, not below 0, as
// in PyTorch's bilinear interpolation without aligned corners.  Those of classes are the same, or
// zeroes where there were none (Megatron-LM core_v0.12.1,
// megatron/legacy/model/vision/vit_backbone.py).
void resize_positions(Tensor to, const VisionConfig& to_images, ConstTensor from,
                      const VisionConfig& from_images);

}  // namespace mt
