#include "image/patches.h"

namespace mt {

void make_patches(const Image& image, std::int64_t patch, const Normalization& normalization,
                  std::span<float> to) {
  auto out = to.begin();
  for (std::int64_t top = 0; top < image.height; top += patch)
    for (std::int64_t left = 0; left < image.width; left += patch)
      for (std::int64_t y = top; y < top + patch; ++y)
        for (std::int64_t x = left; x < left + patch; ++x)
          for (std::size_t c = 0; c < 3; ++c)
            *out++ = (static_cast<float>(image.at(y, x)[c]) / 255 - normalization.mean[c]) /
                     normalization.std[c];
}

}  // namespace mt
