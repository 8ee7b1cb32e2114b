// Image: a picture of red, green and blue, 8 bits each, and what files hold one.
//
// What a file's pixels become is what Pillow's convert("RGB") makes of them: grey is repeated, of
// 16 bits what is above 255 is 255 where grey stands alone and else the high byte stays, a palette
// is looked up, transparency is dropped, and cyan, magenta, yellow and black, which JPEG files have
// inverted, become 255 - x (255 - black) / 255 - black of each.  Tags that turn a picture are not
// followed here, but by image/orientation.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace mt {

struct ImageSize {
  std::int64_t width = 0, height = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, 3]

  Image() = default;
  Image(std::int64_t w, std::int64_t h)
      : width(w), height(h), pixels(static_cast<std::size_t>(w * h * 3)) {}
  std::uint8_t* at(std::int64_t y, std::int64_t x) { return pixels.data() + (y * width + x) * 3; }
  const std::uint8_t* at(std::int64_t y, std::int64_t x) const {
    return pixels.data() + (y * width + x) * 3;
  }
};

// What a file may ask for: decoding takes at most 16 bytes a pixel, and a few MiB.
struct ImageLimits {
  std::int64_t pixels = 89'478'485;  // from where on Pillow warns of a bomb
  // A side is less than so many times as long as the other.
  std::int64_t aspect = std::int64_t{1} << 31;
  // Is asked between rows of a JPEG or PNG whether nobody waits for it any more, which ends it.
  std::function<bool()> ends = {};
};

// The picture of a JPEG, PNG or WebP file, told apart by their first bytes.  `where` names it in
// errors.  Throws Exit::bad_data for anything else, for what is damaged or cut off, for a WebP
// that moves, and, before pixels are decoded, for one that is beyond the limits.  Of a PNG that
// moves it is the image that programs show which know of no such files.  Thread-safe;
// std::bad_alloc where memory ends.
Image decode_image(Bytes file, const std::string& where, const ImageLimits& limits = {});
// What the file's header says of it: the picture of decode_image(), which may be damaged further
// on.
ImageSize size_of_image(Bytes file, const std::string& where, const ImageLimits& limits = {});
// Decodes the image in a file, of which at most a GiB is read.
Image read_image(const std::string& path, const ImageLimits& limits = {});

}  // namespace mt
