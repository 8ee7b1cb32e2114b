// Any bytes as an image: refused with mt::Error, or it has as many pixels as it says, within
// limits.
//
// Parser: libcommon/image/image.cpp
// Parser: libcommon/image/jpeg.cpp
// Parser: libcommon/image/orientation.cpp
// Parser: libcommon/image/png.cpp
// Parser: libcommon/image/webp.cpp
// Seeds: testdata/images
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "image/orientation.h"
#include "image/resize.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const mt::ImageLimits kLimits{.pixels = 1 << 16};
  try {
    const mt::Image image =
        mt::decode_upright(std::as_bytes(std::span(input, size)), "fuzz", kLimits);
    if (image.width * image.height > kLimits.pixels) std::abort();
    if (std::ssize(image.pixels) != image.width * image.height * 3) std::abort();
    const mt::Image other = mt::resize(image, 5, 7, mt::Filter::bicubic);
    if (other.pixels.size() != 5 * 7 * 3) std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
