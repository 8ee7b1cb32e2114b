#include "model/image_input.h"

#include <algorithm>

#include "model/config/vision_config.h"

namespace mt {

static std::array<float, 3> floats(const std::array<double, 3>& numbers) {
  std::array<float, 3> rounded = {};
  std::ranges::transform(numbers, rounded.begin(), [](double x) { return static_cast<float>(x); });
  return rounded;
}

Normalization normalization_of(const VisionConfig& c) {
  return {.mean = floats(color_numbers("--pixel-mean", c.pixel_mean)),
          .std = floats(color_numbers("--pixel-std", c.pixel_std))};
}

Filter filter_of(const VisionConfig& c) {
  return c.image_filter == "bicubic" ? Filter::bicubic : Filter::bilinear;
}

void make_image_input(const VisionConfig& c, const Image& image, std::span<float> to) {
  const Filter filter = filter_of(c);
  const Image made =
      c.image_short_side == 0
          ? resize(image, c.img_w, c.img_h, filter)
          : middle_of(resize_short_side(image, c.image_short_side, filter), c.img_w, c.img_h);
  const auto of_classes = static_cast<std::size_t>(c.class_tokens() * c.patch_width());
  std::ranges::fill(to.first(of_classes), 0.F);
  const std::int64_t p = c.patch_dim;
  const Box whole{.width = c.img_w / p * p, .height = c.img_h / p * p};
  make_patches(crop(made, whole), p, normalization_of(c), to.subspan(of_classes));
}

}  // namespace mt
