#include "image/color.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mt {
namespace {

using Table = std::array<std::uint8_t, 256>;

std::uint8_t cut(double x) { return static_cast<std::uint8_t>(std::clamp(x, 0.0, 255.0)); }

std::uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<std::uint8_t>(std::clamp(value, 0.F, 255.F));
}

void look_up(Image& image, int channel, const Table& table) {
  for (std::size_t i = static_cast<std::size_t>(channel); i < image.pixels.size(); i += 3)
    image.pixels[i] = table[image.pixels[i]];
}

template <class Function>
void map_all(Image& image, const Function& function) {
  for (std::uint8_t& x : image.pixels) x = static_cast<std::uint8_t>(function(x));
}

std::array<std::int64_t, 256> counts_of(const Image& image, int channel) {
  std::array<std::int64_t, 256> counts = {};
  for (std::size_t i = static_cast<std::size_t>(channel); i < image.pixels.size(); i += 3)
    ++counts[image.pixels[i]];
  return counts;
}

// Hue, saturation and value, of 8 bits each.
void to_hsv(std::uint8_t* pixel) {
  const int r = pixel[0], g = pixel[1], b = pixel[2];
  const int most = std::max({r, g, b}), least = std::min({r, g, b});
  pixel[2] = static_cast<std::uint8_t>(most);
  pixel[0] = pixel[1] = 0;
  if (most == least) return;
  const auto range = static_cast<float>(most - least);
  const float rc = static_cast<float>(most - r) / range, gc = static_cast<float>(most - g) / range,
              bc = static_cast<float>(most - b) / range;
  float h = r == most   ? bc - gc
            : g == most ? static_cast<float>(2.0 + rc - bc)
                        : static_cast<float>(4.0 + gc - rc);
  h = static_cast<float>(std::fmod(h / 6.0 + 1.0, 1.0));
  pixel[0] = cut(static_cast<int>(h * 255.0));
  pixel[1] = cut(static_cast<int>(range / static_cast<float>(most) * 255.0));
}

void to_rgb(std::uint8_t* pixel) {
  const int h = pixel[0], s = pixel[1], v = pixel[2];
  if (s == 0) {
    pixel[0] = pixel[1] = pixel[2];
    return;
  }
  const auto share = static_cast<float>(s / 255.0);
  const double turn = h * 6.0 / 255.0;
  const int sixth = static_cast<int>(std::floor(turn));
  const auto f = static_cast<float>(turn - sixth);
  const std::uint8_t p = cut(std::round(v * (1.0 - share))),
                     q = cut(std::round(v * (1.0 - share * f))),
                     t = cut(std::round(v * (1.0 - share * (1.0 - f)))),
                     u = static_cast<std::uint8_t>(v);
  const std::uint8_t colors[6][3] = {{u, t, p}, {q, u, p}, {p, u, t},
                                     {p, q, u}, {t, p, u}, {u, p, q}};
  std::copy_n(colors[sixth % 6], 3, pixel);
}

}  // namespace

void adjust_brightness(Image& image, float factor) {
  map_all(image, [&](int x) { return blend(0, x, factor); });
}

void adjust_contrast(Image& image, float factor) {
  std::int64_t sum = 0;
  const auto pixels = static_cast<std::int64_t>(image.pixels.size() / 3);
  for (std::int64_t i = 0; i < pixels; ++i) sum += grey_of(image.at(0, i));
  const int mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
  map_all(image, [&](int x) { return blend(mean, x, factor); });
}

void adjust_saturation(Image& image, float factor) {
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    std::uint8_t* const pixel = &image.pixels[i];
    const int grey = grey_of(pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = blend(grey, pixel[c], factor);
  }
}

void adjust_sharpness(Image& image, float factor) {
  const Image from = image;
  for (std::int64_t y = 1; y + 1 < image.height; ++y)
    for (std::int64_t x = 1; x + 1 < image.width; ++x)
      for (int c = 0; c < 3; ++c) {
        int sum = 4 * from.at(y, x)[c];
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx) sum += from.at(y + dy, x + dx)[c];
        image.at(y, x)[c] = blend((2 * sum + 13) / 26, from.at(y, x)[c], factor);
      }
}

void adjust_hue(Image& image, double by) {
  const auto turn = static_cast<std::uint8_t>(static_cast<int>(by * 255));
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    std::uint8_t* const pixel = &image.pixels[i];
    to_hsv(pixel);
    pixel[0] = static_cast<std::uint8_t>(pixel[0] + turn);
    to_rgb(pixel);
  }
}

void posterize(Image& image, int bits) {
  const int mask = 0xFF & ~((1 << (8 - bits)) - 1);
  map_all(image, [&](int x) { return x & mask; });
}

void solarize(Image& image, int threshold) {
  map_all(image, [&](int x) { return x < threshold ? x : 255 - x; });
}

void invert(Image& image) {
  map_all(image, [](int x) { return 255 - x; });
}

void stretch_contrast(Image& image) {
  for (int c = 0; c < 3; ++c) {
    const auto counts = counts_of(image, c);
    int low = 0, high = 255;
    while (low < 255 && counts[static_cast<std::size_t>(low)] == 0) ++low;
    while (high > 0 && counts[static_cast<std::size_t>(high)] == 0) --high;
    if (high <= low) continue;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    Table table;
    for (int i = 0; i < 256; ++i) table[static_cast<std::size_t>(i)] = cut(i * scale + offset);
    look_up(image, c, table);
  }
}

void equalize(Image& image) {
  for (int c = 0; c < 3; ++c) {
    const auto counts = counts_of(image, c);
    std::int64_t all = 0, last = 0, values = 0;
    for (const std::int64_t count : counts) {
      all += count;
      values += count > 0 ? 1 : 0;
      if (count > 0) last = count;
    }
    const std::int64_t step = (all - last) / 255;
    if (values <= 1 || step == 0) continue;
    Table table;
    std::int64_t n = step / 2;
    for (std::size_t i = 0; i < 256; ++i) {
      table[i] = cut(static_cast<double>(n / step));
      n += counts[i];
    }
    look_up(image, c, table);
  }
}

}  // namespace mt
