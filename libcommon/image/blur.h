// Blurred images, to Pillow's bits.
#pragma once

#include "image/image.h"

namespace mt {

// The image whose pixels are means of those around, about as a Gaussian of this standard deviation
// weighs them (ImageFilter.GaussianBlur, 13.0): along rows and then along columns three times a box
// of 2 l + 1 whole pixels and a part of one more at either end (Gwosdek et al., SSVM 2011, eq. 7,
// 11 and 14),
//   L = sqrt(12 s^2 / 3 + 1),  l = floor((L - 1) / 2)
// What lies outside is as the pixel at the edge.
Image gaussian_blur(const Image& image, float radius);

}  // namespace mt
