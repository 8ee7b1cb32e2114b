#include "image/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "image/color.h"

namespace mt {

double Draws::unit() {
  if (used_ == words_.size()) {
    words_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return to_unit(words_[used_++]);
}

std::int64_t Draws::below(std::int64_t count) {
  return std::min(static_cast<std::int64_t>(unit() * static_cast<double>(count)), count - 1);
}

static Box draw_box(const Image& image, double least, double most, Draws& draws) {
  constexpr double kNarrow = 3.0 / 4, kWide = 4.0 / 3;
  const auto w = static_cast<double>(image.width), h = static_cast<double>(image.height);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = w * h * draws.between(least, most),
                 ratio = std::exp(draws.between(std::log(kNarrow), std::log(kWide)));
    const auto width = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * ratio))),
               height = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const std::int64_t top = draws.below(image.height - height + 1);
    return {draws.below(image.width - width + 1), top, width, height};
  }
  Box box{.width = image.width, .height = image.height};
  if (w / h < kNarrow)
    box.height = std::max<std::int64_t>(static_cast<std::int64_t>(std::nearbyint(w / kNarrow)), 1);
  if (w / h > kWide)
    box.width = std::max<std::int64_t>(static_cast<std::int64_t>(std::nearbyint(h * kWide)), 1);
  box.left = (image.width - box.width) / 2;
  box.top = (image.height - box.height) / 2;
  return box;
}

Image random_resized_crop(const Image& image, std::int64_t width, std::int64_t height, double least,
                          double most, Filter filter, Draws& draws) {
  return resize(crop(image, draw_box(image, least, most, draws)), width, height, filter);
}

void jitter(Image& image, const Jitter& most, Draws& draws) {
  int order[4] = {0, 1, 2, 3};
  for (int i = 0; i < 3; ++i) std::swap(order[i], order[i + draws.below(4 - i)]);
  const auto factor = [&](double x) {
    return static_cast<float>(draws.between(std::max(0.0, 1 - x), 1 + x));
  };
  const float brightness = factor(most.brightness), contrast = factor(most.contrast),
              saturation = factor(most.saturation);
  const double hue = draws.between(-most.hue, most.hue);
  for (const int change : order) {
    if (change == 0) adjust_brightness(image, brightness);
    if (change == 1) adjust_contrast(image, contrast);
    if (change == 2) adjust_saturation(image, saturation);
    if (change == 3) adjust_hue(image, hue);
  }
}

// A number with 16 bits behind the point.
static std::int64_t fixed(double x) {
  return static_cast<std::int64_t>(std::floor(x * 65536 + 0.5));
}

Image turned(const Image& image, double degrees) {
  Image made(image.width, image.height);
  const double angle = degrees * std::numbers::pi / 180, cosine = std::cos(angle),
               sine = std::sin(angle), middle_x = static_cast<double>(image.width) / 2,
               middle_y = static_cast<double>(image.height) / 2;
  // Where the middle of the first pixel comes from; and how far it is on to those of the next one
  // and of the next row.
  const std::int64_t first_x =
                         fixed(middle_x + cosine * (0.5 - middle_x) - sine * (0.5 - middle_y)),
                     first_y =
                         fixed(middle_y + sine * (0.5 - middle_x) + cosine * (0.5 - middle_y)),
                     along = fixed(cosine), across = fixed(sine), back = fixed(-sine);
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::int64_t from_x = (first_x + x * along + y * back) >> 16,
                         from_y = (first_y + x * across + y * along) >> 16;
      const bool inside =
          from_x >= 0 && from_y >= 0 && from_x < image.width && from_y < image.height;
      if (inside)
        std::copy_n(image.at(from_y, from_x), 3, made.at(y, x));
      else
        std::fill_n(made.at(y, x), 3, std::uint8_t{128});
    }
  return made;
}

// The cubic through four values with a = -1, between the second and the third.
static double cubic(const double* v, double d) {
  const double p2 = v[2] - v[0], p3 = 2 * (v[0] - v[1]) + v[2] - v[3],
               p4 = -v[0] + v[1] - v[2] + v[3];
  return v[1] + d * (p2 + d * (p3 + d * p4));
}

Image sheared(const Image& image, double by) {
  Image made(image.width, image.height);
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      const double from = static_cast<double>(x) + 0.5 + by * (static_cast<double>(y) + 0.5);
      if (from < 0 || from >= static_cast<double>(image.width)) {
        std::fill_n(made.at(y, x), 3, std::uint8_t{128});
        continue;
      }
      const auto first = static_cast<std::int64_t>(std::floor(from - 0.5));
      const double d = from - 0.5 - static_cast<double>(first);
      for (int c = 0; c < 3; ++c) {
        double near[4];
        for (std::int64_t i = 0; i < 4; ++i)
          near[i] = image.at(y, std::clamp<std::int64_t>(first - 1 + i, 0, image.width - 1))[c];
        made.at(y, x)[c] = static_cast<std::uint8_t>(std::clamp(cubic(near, d), 0.0, 255.0));
      }
    }
  return made;
}

struct Step {
  Change change;
  double probability;
  int strength;
};

static constexpr Step kPolicy[25][2] = {
    {{Change::posterize, 0.4, 8}, {Change::rotate, 0.6, 9}},
    {{Change::solarize, 0.6, 5}, {Change::autocontrast, 0.6, 5}},
    {{Change::equalize, 0.8, 8}, {Change::equalize, 0.6, 3}},
    {{Change::posterize, 0.6, 7}, {Change::posterize, 0.6, 6}},
    {{Change::equalize, 0.4, 7}, {Change::solarize, 0.2, 4}},
    {{Change::equalize, 0.4, 4}, {Change::rotate, 0.8, 8}},
    {{Change::solarize, 0.6, 3}, {Change::equalize, 0.6, 7}},
    {{Change::posterize, 0.8, 5}, {Change::equalize, 1.0, 2}},
    {{Change::rotate, 0.2, 3}, {Change::solarize, 0.6, 8}},
    {{Change::equalize, 0.6, 8}, {Change::posterize, 0.4, 6}},
    {{Change::rotate, 0.8, 8}, {Change::color, 0.4, 0}},
    {{Change::rotate, 0.4, 9}, {Change::equalize, 0.6, 2}},
    {{Change::equalize, 0.0, 7}, {Change::equalize, 0.8, 8}},
    {{Change::invert, 0.6, 4}, {Change::equalize, 1.0, 8}},
    {{Change::color, 0.6, 4}, {Change::contrast, 1.0, 8}},
    {{Change::rotate, 0.8, 8}, {Change::color, 1.0, 2}},
    {{Change::color, 0.8, 8}, {Change::solarize, 0.8, 7}},
    {{Change::sharpness, 0.4, 7}, {Change::invert, 0.6, 8}},
    {{Change::shear, 0.6, 5}, {Change::equalize, 1.0, 9}},
    {{Change::color, 0.4, 0}, {Change::equalize, 0.6, 3}},
    {{Change::equalize, 0.4, 7}, {Change::solarize, 0.2, 4}},
    {{Change::solarize, 0.6, 5}, {Change::autocontrast, 0.6, 5}},
    {{Change::invert, 0.6, 4}, {Change::equalize, 1.0, 8}},
    {{Change::color, 0.6, 4}, {Change::contrast, 1.0, 8}},
    {{Change::equalize, 0.8, 8}, {Change::equalize, 0.6, 3}}};

void change(Image& image, Change how, int strength, int sign) {
  const double part = strength / 10.0;
  const auto factor = static_cast<float>(1 + sign * 0.9 * part);
  switch (how) {
    case Change::posterize:
      return posterize(image, static_cast<int>(std::nearbyint(8 - 4 * part)));
    case Change::rotate:
      image = turned(image, 30 * part);
      return;
    case Change::solarize:
      return solarize(image, static_cast<int>(std::ceil(256 - 256 * part)));
    case Change::autocontrast:
      return stretch_contrast(image);
    case Change::equalize:
      return equalize(image);
    case Change::color:
      return adjust_saturation(image, factor);
    case Change::contrast:
      return adjust_contrast(image, factor);
    case Change::sharpness:
      return adjust_sharpness(image, factor);
    case Change::invert:
      return invert(image);
    case Change::shear:
      image = sheared(image, sign * 0.3 * part);
      return;
  }
}

void auto_augment(Image& image, Draws& draws) {
  for (const Step& step : kPolicy[draws.below(25)])
    if (draws.chance(step.probability))
      change(image, step.change, step.strength, draws.chance(0.5) ? 1 : -1);
}

}  // namespace mt
