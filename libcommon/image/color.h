// What is done to the colours of an image's pixels, to Pillow's bits (ImageEnhance, ImageOps,
// torchvision's adjust_hue).
#pragma once

#include "image/image.h"

namespace mt {

// Each makes of an image d + factor (image - d), cut to 8 bits: of factor 1 the image, of 0 what is
//   brightness  black
//   contrast    the mean of its grey
//   saturation  its grey
//   sharpness   each pixel five times and its eight neighbours once, in equal parts
void adjust_brightness(Image& image, float factor);
void adjust_contrast(Image& image, float factor);
void adjust_saturation(Image& image, float factor);
void adjust_sharpness(Image& image, float factor);
// Turns hues by a share of a whole turn, -1/2 to 1/2.
void adjust_hue(Image& image, double by);

void posterize(Image& image, int bits);      // keeps the highest bits, 1 to 8 of them
void solarize(Image& image, int threshold);  // inverts what is not below it
void invert(Image& image);
void stretch_contrast(Image& image);  // each colour's least becomes 0, its greatest 255
void equalize(Image& image);          // each colour's values become about as frequent

// Red, green and blue as grey: (19595 r + 38470 g + 7471 b) / 2^16, rounded (ITU-R 601-2).
inline std::uint8_t grey_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >>
                                   16);
}

}  // namespace mt
