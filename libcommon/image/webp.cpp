// WebP files, by libwebp.
#include <webp/decode.h>

#include "base/error.h"
#include "image/formats.h"

namespace mt {

Image decode_webp(Bytes file, const std::string& where, const ImageLimits& limits) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes, file.size(), &features) != VP8_STATUS_OK)
    fail(Exit::bad_data, where, ": a damaged WebP file: it has no header");
  if (features.has_animation != 0)
    fail(Exit::bad_data, where, ": a WebP file that moves, expected a single image");
  Image image = make_image(static_cast<std::uint64_t>(features.width),
                           static_cast<std::uint64_t>(features.height), where, limits);
  if (WebPDecodeRGBInto(bytes, file.size(), image.pixels.data(), image.pixels.size(),
                        static_cast<int>(image.width * 3)) == nullptr)
    fail(Exit::bad_data, where, ": a damaged WebP file: its pixels cannot be read");
  return image;
}

}  // namespace mt
