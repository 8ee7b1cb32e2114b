#include "image/image.h"

#include <algorithm>

#include "base/error.h"
#include "image/formats.h"

namespace mt {

Image make_image(std::uint64_t width, std::uint64_t height, const std::string& where,
                 const ImageLimits& limits, Reading what) {
  const auto most = static_cast<std::uint64_t>(limits.pixels);
  if (width == 0 || height == 0 || width > most / height)
    fail(Exit::bad_data, where, ": an image of ", width, " x ", height, ", expected 1 to ", most,
         " pixels");
  if (std::max(width, height) / std::min(width, height) >=
      static_cast<std::uint64_t>(limits.aspect))
    fail(Exit::bad_data, where, ": an image of ", width, " x ", height,
         ", expected one side less than ", limits.aspect, " times the other");
  const auto w = static_cast<std::int64_t>(width), h = static_cast<std::int64_t>(height);
  if (what == Reading::all) return {w, h};
  Image size;
  size.width = w;
  size.height = h;
  return size;
}

static Image decode(Bytes file, const std::string& where, const ImageLimits& limits, Reading what) {
  const std::string_view text = as_text(file);
  if (text.starts_with("\xFF\xD8\xFF")) return decode_jpeg(file, where, limits, what);
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return decode_png(file, where, limits, what);
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP"))
    return decode_webp(file, where, limits, what);
  fail(Exit::bad_data, where, ": no image that is known, expected a JPEG, PNG or WebP file");
}

Image decode_image(Bytes file, const std::string& where, const ImageLimits& limits) {
  return decode(file, where, limits, Reading::all);
}

ImageSize size_of_image(Bytes file, const std::string& where, const ImageLimits& limits) {
  const Image header = decode(file, where, limits, Reading::header);
  return {header.width, header.height};
}

Bytes image_in(const MappedFile& file, const FilePart& part) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const Bytes all = file.bytes();
  if (part.offset > all.size() || part.size.value_or(0) > all.size() - part.offset)
    fail(Exit::bad_data, part.called(), ": lies outside of the ", all.size(), " bytes of the file");
  const Bytes bytes = all.subspan(part.offset, part.size.value_or(all.size() - part.offset));
  if (bytes.size() > kMost)
    fail(Exit::bad_data, part.called(), ": ", bytes.size(), " bytes, expected an image of at most ",
         kMost);
  return bytes;
}

Image read_image(const std::string& path, const ImageLimits& limits) {
  const MappedFile file(path);
  return decode_image(image_in(file, {.path = path}), path, limits);
}

}  // namespace mt
