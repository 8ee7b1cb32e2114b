// Other sizes of images, parts of them, and mirrors.
#pragma once

#include "image/image.h"

namespace mt {

enum class Filter : std::uint8_t { bilinear, bicubic };

// The image in another size, with antialias, to Pillow's bits (Image.resize, 13.0): columns and
// then rows are weighed means of those around, or rows and then columns where more than twice as
// many rows as columns go,
//   y[i] = sum_j w_ij x[j],   w_ij = f((j + 1/2 - c_i) / max(1, s)) / their sum over j,
// where s = sizes' ratio and c_i = (i + 1/2) s; f(t) is 1 - |t| within 1, or the cubic with
// a = -1/2 within 2 (Keys, IEEE Trans. ASSP 29(6), 1981).  Weights are rounded to 22 bits behind
// the point, and what a pass makes to 8 bits.  Exit::bad_data for a size of none or of more than
// 2^26 pixels.
Image resize(const Image& image, std::int64_t width, std::int64_t height, Filter filter);

struct Box {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
};
// The part of an image in a box, which lies in it.
Image crop(const Image& image, const Box& box);
// The middle of an image: what it lacks is black (torchvision's CenterCrop).
Image center_crop(const Image& image, std::int64_t width, std::int64_t height);
// The middle of an image that has as many rows and columns, or more; of an odd number that it has
// more the larger half is behind (transformers' center_crop).
Image middle_of(const Image& image, std::int64_t width, std::int64_t height);
// The image whose shorter side has this length, the longer one rounded down (torchvision's Resize).
Image resize_short_side(const Image& image, std::int64_t side, Filter filter);
// The image with left and right exchanged.
Image mirror(const Image& image);

}  // namespace mt
