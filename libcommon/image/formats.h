// The decoders of single formats, which decode_image() chooses from.
#pragma once

#include "base/file_part.h"
#include "image/image.h"

namespace mt {

// What is read of a file: all of it, or its header alone, which gives a picture of its size without
// pixels.
enum class Reading : std::uint8_t { all, header };

Image decode_jpeg(Bytes file, const std::string& where, const ImageLimits& limits, Reading what);
Image decode_png(Bytes file, const std::string& where, const ImageLimits& limits, Reading what);
Image decode_webp(Bytes file, const std::string& where, const ImageLimits& limits, Reading what);

// What is said of a picture that ImageLimits::ends has ended.
inline constexpr const char* kNotWanted = "nobody waits for it any more";

// The bytes of an image in a file; Exit::bad_data for more than a GiB, and for what lies outside.
Bytes image_in(const MappedFile& file, const FilePart& part);

// An empty picture of this size, or the size alone; Exit::bad_data where it is larger than the
// limits.
Image make_image(std::uint64_t width, std::uint64_t height, const std::string& where,
                 const ImageLimits& limits, Reading what);

}  // namespace mt
