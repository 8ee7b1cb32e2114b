// What an image may become each time that it is learnt from, at random, in torchvision's terms.
#pragma once

#include "base/random.h"
#include "image/resize.h"

namespace mt {

// Draws: random numbers one after another, a function of a key and of what they are for.
class Draws {
 public:
  Draws(RandomKey key, std::uint64_t number)
      : key_(key),
        counter_{0, 0, static_cast<std::uint32_t>(number),
                 static_cast<std::uint32_t>(number >> 32)} {}

  double unit();  // in (0, 1)
  double between(double least, double most) { return least + (most - least) * unit(); }
  std::int64_t below(std::int64_t count);  // a whole number from 0 on
  bool chance(double p) { return unit() < p; }

 private:
  RandomKey key_;
  Counter counter_, words_ = {};
  std::size_t used_ = 4;
};

// A part of an image of so many pixels, in this size: its area is a share of the image's between
// `least` and `most`, and its width / height is drawn between 3/4 and 4/3, the logarithm evenly.
Image random_resized_crop(const Image& image, std::int64_t width, std::int64_t height, double least,
                          double most, Filter filter, Draws& draws);

// Changes brightness, contrast and saturation by a factor between 1 - x and 1 + x each, and hue by
// up to x, in an order that is drawn.
struct Jitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
void jitter(Image& image, const Jitter& most, Draws& draws);

// One of the 25 pairs of changes that were found for ImageNet, each with its probability (Cubuk et
// al.: arXiv:1805.09501, table 9, as published in Python: github.com/DeepVoltaire/AutoAugment).
void auto_augment(Image& image, Draws& draws);

// A change of these, of strength 0 to 10 (Megatron-LM core_v0.12.1,
// megatron/legacy/data/autoaugment.py).  Colour, contrast, sharpness and shear go either way, by a
// sign of 1 or -1.
enum class Change : std::uint8_t {
  posterize,
  rotate,
  solarize,
  autocontrast,
  equalize,
  color,
  contrast,
  sharpness,
  invert,
  shear
};
void change(Image& image, Change how, int strength, int sign);

// The images that change() turns and shears, to Pillow's bits (Image.rotate, Image.transform) where
// sides are shorter than 2^15: what comes from outside is grey, 128.
Image turned(const Image& image, double degrees);  // about its middle, to the nearest pixel
Image sheared(const Image& image, double by);      // y[., j] = x[., j + by row], by cubics

}  // namespace mt
