// WebP files, by libwebp.
#include <webp/decode.h>

#include <new>

#include "base/error.h"
#include "image/formats.h"

namespace mt {

Image decode_webp(Bytes file, const std::string& where, const ImageLimits& limits, Reading what) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  WebPDecoderConfig config;
  const WebPBitstreamFeatures& features = config.input;
  if (!WebPInitDecoderConfig(&config) ||
      WebPGetFeatures(bytes, file.size(), &config.input) != VP8_STATUS_OK)
    fail(Exit::bad_data, where, ": a damaged WebP file: it has no header");
  if (features.has_animation != 0)
    fail(Exit::bad_data, where, ": a WebP file that moves, expected a single image");
  Image image = make_image(static_cast<std::uint64_t>(features.width),
                           static_cast<std::uint64_t>(features.height), where, limits, what);
  if (what == Reading::header) return image;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = image.pixels.data(),
                          .stride = static_cast<int>(image.width * 3),
                          .size = image.pixels.size()};
  const VP8StatusCode status = WebPDecode(bytes, file.size(), &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != VP8_STATUS_OK)
    fail(Exit::bad_data, where, ": a damaged WebP file: its pixels cannot be read");
  return image;
}

}  // namespace mt
