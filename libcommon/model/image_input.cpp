#include "model/image_input.h"

#include <algorithm>

#include "image/resize.h"
#include "model/config/model_config.h"

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

void make_image_input(const VisionConfig& c, const Image& image, std::span<float> to) {
  const Filter filter = c.image_filter == "bicubic" ? Filter::bicubic : Filter::bilinear;
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

std::int64_t tokens_of_image(const ModelConfig& c) { return c.image_tokens() - c.first_feature(); }

std::vector<std::int32_t> image_rows(const ModelConfig& c, std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> rows;
  std::int64_t seen = 0;
  const std::int64_t each = tokens_of_image(c);
  for (const std::int32_t id : ids) {
    const bool is_image = id == c.image_token_index;
    rows.push_back(is_image ? static_cast<std::int32_t>(seen / each * c.image_tokens() +
                                                        c.first_feature() + seen % each)
                            : -1);
    seen += is_image;
  }
  return rows;
}

}  // namespace mt
