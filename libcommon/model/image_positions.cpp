#include "model/image_positions.h"

#include <algorithm>

#include "model/config/vision_config.h"

namespace mt {
namespace {

// Where a place lies between two of `from` others, in one direction.
struct Between {
  std::int64_t first = 0, second = 0;
  float of_second = 0;  // its weight

  Between(std::int64_t i, std::int64_t to, std::int64_t from) {
    const float scale = static_cast<float>(from) / static_cast<float>(to);
    const float place = std::max(0.F, (static_cast<float>(i) + 0.5F) * scale - 0.5F);
    first = std::min(static_cast<std::int64_t>(place), from - 1);
    second = std::min(first + 1, from - 1);
    of_second = place - static_cast<float>(first);
  }
  float mix(float a, float b) const { return (1 - of_second) * a + of_second * b; }
};

}  // namespace

void resize_positions(Tensor to, const VisionConfig& to_images, ConstTensor from,
                      const VisionConfig& from_images) {
  const std::int64_t width = to.shape()[1], classes = to_images.class_tokens();
  auto* y = to.as<float>();
  const auto* x = from.as<float>();
  if (from_images.class_tokens() == classes)
    y = std::copy_n(x, classes * width, y);
  else
    y = std::fill_n(y, classes * width, 0.F);
  x += from_images.class_tokens() * width;
  const std::int64_t patch = to_images.patch_dim, rows = to_images.img_h / patch,
                     columns = to_images.img_w / patch, from_rows = from_images.img_h / patch,
                     from_columns = from_images.img_w / patch;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Between row(i, rows, from_rows);
    for (std::int64_t j = 0; j < columns; ++j) {
      const Between column(j, columns, from_columns);
      const auto at = [&](std::int64_t r, std::int64_t c, std::int64_t k) {
        return x[(r * from_columns + c) * width + k];
      };
      for (std::int64_t k = 0; k < width; ++k)
        *y++ =
            row.mix(column.mix(at(row.first, column.first, k), at(row.first, column.second, k)),
                    column.mix(at(row.second, column.first, k), at(row.second, column.second, k)));
    }
  }
}

}  // namespace mt
