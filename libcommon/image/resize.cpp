#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::int64_t kMostPixels = 1 << 26;
constexpr int kBits = 22;  // of weights behind the point: 32 less 8 of a pixel and 2 for overflow

double bilinear(double t) { return std::max(0.0, 1 - std::abs(t)); }

double bicubic(double t) {
  constexpr double a = -0.5;
  t = std::abs(t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return (((t - 5) * t + 8) * t - 4) * a;
  return 0;
}

// Which pixels of a line each new one is made of, and their weights.
struct Weights {
  std::vector<std::int64_t> first, count;
  std::vector<std::int32_t> of;  // [new, most]
  std::int64_t most = 0;
};

Weights weights(std::int64_t from, std::int64_t to, Filter filter) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to),
               stretch = std::max(ratio, 1.0),
               reach = (filter == Filter::bilinear ? 1.0 : 2.0) * stretch;
  Weights made;
  made.most = static_cast<std::int64_t>(std::ceil(reach)) * 2 + 1;
  made.of.resize(static_cast<std::size_t>(to * made.most));
  std::vector<double> line(static_cast<std::size_t>(made.most));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * ratio, scale = 1.0 / stretch;
    const std::int64_t first = std::max<std::int64_t>(
                           static_cast<std::int64_t>(center - reach + 0.5), 0),
                       end = std::min(static_cast<std::int64_t>(center + reach + 0.5), from);
    double sum = 0;
    for (std::int64_t j = first; j < end; ++j) {
      const double t = (static_cast<double>(j) - center + 0.5) * scale;
      const double w = filter == Filter::bilinear ? bilinear(t) : bicubic(t);
      line[static_cast<std::size_t>(j - first)] = w;
      sum += w;
    }
    for (std::int64_t j = first; j < end; ++j) {
      double w = line[static_cast<std::size_t>(j - first)];
      if (sum != 0) w /= sum;
      made.of[static_cast<std::size_t>(i * made.most + j - first)] =
          static_cast<std::int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << kBits));
    }
    made.first.push_back(first);
    made.count.push_back(end - first);
  }
  return made;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

constexpr std::int32_t kHalf = 1 << (kBits - 1);

Image resize_columns(const Image& image, std::int64_t width, Filter filter) {
  const Weights w = weights(image.width, width, filter);
  Image made(width, image.height);
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const auto i = static_cast<std::size_t>(x);
      const std::int32_t* const of = &w.of[i * static_cast<std::size_t>(w.most)];
      const std::uint8_t* from = image.at(y, w.first[i]);
      std::int32_t sums[3] = {kHalf, kHalf, kHalf};
      for (std::int64_t j = 0; j < w.count[i]; ++j, from += 3)
        for (int c = 0; c < 3; ++c) sums[c] += from[c] * of[j];
      for (int c = 0; c < 3; ++c) made.at(y, x)[c] = rounded(sums[c]);
    }
  return made;
}

Image resize_rows(const Image& image, std::int64_t height, Filter filter) {
  const Weights w = weights(image.height, height, filter);
  Image made(image.width, height);
  std::vector<std::int32_t> sums(static_cast<std::size_t>(image.width * 3));
  for (std::int64_t y = 0; y < height; ++y) {
    const auto i = static_cast<std::size_t>(y);
    const std::int32_t* const of = &w.of[i * static_cast<std::size_t>(w.most)];
    std::ranges::fill(sums, kHalf);
    for (std::int64_t j = 0; j < w.count[i]; ++j) {
      const std::uint8_t* const from = image.at(w.first[i] + j, 0);
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += from[k] * of[j];
    }
    std::ranges::transform(sums, made.at(y, 0), rounded);
  }
  return made;
}

}  // namespace

Image resize(const Image& image, std::int64_t width, std::int64_t height, Filter filter) {
  if (width == image.width && height == image.height) return image;
  if (width < 1 || height < 1 || width > kMostPixels / height)
    fail(Exit::bad_data, "an image of ", image.width, " x ", image.height, " would become one of ",
         width, " x ", height, ", expected 1 to ", kMostPixels, " pixels");
  if (width == image.width) return resize_rows(image, height, filter);
  if (height == image.height) return resize_columns(image, width, filter);
  const bool rows_first =
      height < image.height && image.height - height > 2 * (image.width - width);
  return rows_first ? resize_columns(resize_rows(image, height, filter), width, filter)
                    : resize_rows(resize_columns(image, width, filter), height, filter);
}

Image crop(const Image& image, const Box& box) {
  Image made(box.width, box.height);
  for (std::int64_t y = 0; y < box.height; ++y)
    std::memcpy(made.at(y, 0), image.at(box.top + y, box.left),
                static_cast<std::size_t>(box.width * 3));
  return made;
}

Image center_crop(const Image& image, std::int64_t width, std::int64_t height) {
  // What is lacking is put around: on the left and above half of it, rounded down.
  const std::int64_t more_x = std::max<std::int64_t>(width - image.width, 0),
                     more_y = std::max<std::int64_t>(height - image.height, 0);
  if (more_x > 0 || more_y > 0) {
    Image larger(image.width + more_x, image.height + more_y);
    for (std::int64_t y = 0; y < image.height; ++y)
      std::memcpy(larger.at(y + more_y / 2, more_x / 2), image.at(y, 0),
                  static_cast<std::size_t>(image.width * 3));
    return center_crop(larger, width, height);
  }
  // Python's round(): a half goes to the even number.
  const auto middle = [](std::int64_t more) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(more) / 2));
  };
  return crop(image, {.left = middle(image.width - width),
                      .top = middle(image.height - height),
                      .width = width,
                      .height = height});
}

Image middle_of(const Image& image, std::int64_t width, std::int64_t height) {
  return crop(image, {.left = (image.width - width) / 2,
                      .top = (image.height - height) / 2,
                      .width = width,
                      .height = height});
}

Image resize_short_side(const Image& image, std::int64_t side, Filter filter) {
  const std::int64_t shorter = std::min(image.width, image.height),
                     longer = std::max(image.width, image.height);
  const auto other =
      static_cast<std::int64_t>(static_cast<double>(side * longer) / static_cast<double>(shorter));
  return image.width <= image.height ? resize(image, side, other, filter)
                                     : resize(image, other, side, filter);
}

Image mirror(const Image& image) {
  Image made(image.width, image.height);
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x)
      std::memcpy(made.at(y, x), image.at(y, image.width - 1 - x), 3);
  return made;
}

}  // namespace mt
