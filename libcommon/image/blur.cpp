#include "image/blur.h"

#include <algorithm>
#include <cmath>

namespace mt {
namespace {

constexpr int kPasses = 3;

// Half of the box's length, less the pixel in its middle.  In the types that Pillow computes in.
float half_box(float radius) {
  const float variance = radius * radius / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * static_cast<double>(variance) + 1.0));
  const auto whole = static_cast<float>(std::floor((static_cast<double>(length) - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  return whole + part;
}

struct Box {
  std::int64_t whole = 0;                // pixels to either side
  std::uint32_t weight = 0, of_end = 0;  // of each of these, and of the next one; 24 bits
};

Box box_of(float half) {
  Box box{.whole = static_cast<std::int64_t>(half)};
  box.weight = static_cast<std::uint32_t>(static_cast<float>(1 << 24) / (half * 2 + 1));
  box.of_end = ((1U << 24) - static_cast<std::uint32_t>(box.whole * 2 + 1) * box.weight) / 2;
  return box;
}

// A line of so many pixels, of three colours each.
void blur_line(std::uint8_t* to, const std::uint8_t* from, std::int64_t pixels, const Box& box) {
  const auto at = [&](std::int64_t i, int c) -> std::uint32_t {
    return from[std::clamp<std::int64_t>(i, 0, pixels - 1) * 3 + c];
  };
  for (int c = 0; c < 3; ++c) {
    std::uint32_t sum = 0;  // of the box about the pixel before the first
    for (std::int64_t i = -box.whole - 1; i < box.whole; ++i) sum += at(i, c);
    for (std::int64_t i = 0; i < pixels; ++i) {
      sum += at(i + box.whole, c) - at(i - box.whole - 1, c);
      const std::uint32_t all =
          sum * box.weight + (at(i - box.whole - 1, c) + at(i + box.whole + 1, c)) * box.of_end;
      to[i * 3 + c] = static_cast<std::uint8_t>((all + (1U << 23)) >> 24);
    }
  }
}

void blur_rows(Image& image, const Box& box) {
  const auto row = static_cast<std::size_t>(image.width * 3);
  std::vector<std::uint8_t> before(row);
  for (int pass = 0; pass < kPasses; ++pass)
    for (std::int64_t y = 0; y < image.height; ++y) {
      std::copy_n(image.at(y, 0), row, before.begin());
      blur_line(image.at(y, 0), before.data(), image.width, box);
    }
}

Image transposed(const Image& image) {
  Image made(image.height, image.width);
  for (std::int64_t y = 0; y < made.height; ++y)
    for (std::int64_t x = 0; x < made.width; ++x) std::copy_n(image.at(x, y), 3, made.at(y, x));
  return made;
}

}  // namespace

Image gaussian_blur(const Image& image, float radius) {
  const float half = half_box(radius);
  Image made = image;
  if (half == 0) return made;
  const Box box = box_of(half);
  blur_rows(made, box);
  made = transposed(made);
  blur_rows(made, box);
  return transposed(made);
}

}  // namespace mt
