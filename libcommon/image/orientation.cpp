#include "image/orientation.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "image/formats.h"

namespace mt {
namespace {

constexpr std::string_view kExif{"Exif\0\0", 6};

// A chunk tEXt, zTXt or iTXt of a PNG, behind its key.
struct Text {
  std::string_view kind, rest;
};

// What a file says of its picture; each is a part of the file, or made of parts.
struct Sayings {
  std::optional<std::string> exif, xmp;
  std::vector<Text> profile, xml;  // the last that is not damaged counts
};

// Reads numbers of either order, as far as there are any.
class Reader {
 public:
  Reader(std::string_view bytes, bool big) : bytes_(bytes), big_(big) {}

  bool has(std::uint64_t at, std::uint64_t count) const {
    return at <= bytes_.size() && count <= bytes_.size() - at;
  }
  std::uint64_t number(std::size_t at, std::size_t size) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | static_cast<std::uint8_t>(bytes_[at + (big_ ? i : size - 1 - i)]);
    return value;
  }
  std::string_view part(std::size_t at, std::size_t size) const { return bytes_.substr(at, size); }

 private:
  std::string_view bytes_;
  bool big_;
};

// --- Where files say it --------------------------------------------------------------------------

// EXIF data that lie in several segments are joined until they have so many bytes.
constexpr std::size_t kMostExif = 1 << 24;

void read_jpeg(std::string_view file, Sayings& says) {
  constexpr std::string_view kXmp{"http://ns.adobe.com/xap/1.0/\0", 29};
  const Reader reader(file, true);
  for (std::size_t at = 2; reader.has(at, 2);) {
    if (file[at] != '\xFF') {  // what stands between segments
      ++at;
      continue;
    }
    const auto marker = static_cast<std::uint8_t>(file[at + 1]);
    if (marker == 0xFF) {  // filled up
      ++at;
      continue;
    }
    at += 2;
    if (marker == 0xDA || marker == 0xD9) return;                        // a scan; the end
    if (marker <= 0x01 || (marker >= 0xD0 && marker <= 0xD8)) continue;  // no more of it
    const std::uint64_t size = reader.has(at, 2) ? reader.number(at, 2) : 0;
    if (size < 2 || !reader.has(at, size)) return;
    const std::string_view segment = reader.part(at + 2, size - 2);
    at += size;
    if (marker != 0xE1) continue;
    if (segment.starts_with(kExif)) {
      if (!says.exif)
        says.exif = segment;
      else if (says.exif->size() < kMostExif)
        says.exif->append(segment.substr(kExif.size()));
    } else if (segment.starts_with(kXmp)) {
      says.xmp = segment.substr(kXmp.size());
    }
  }
}

// At most a MiB of what zlib packed; nothing where it is damaged.
std::optional<std::string> unpacked(std::string_view packed) {
  constexpr std::size_t kFirst = 1 << 12, kMost = 1 << 20;
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return {};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  int result = Z_OK;
  while (result == Z_OK && stream.avail_out == 0 && out.size() < kMost) {
    const std::size_t had = out.size();
    out.resize(std::clamp(had * 4, kFirst, kMost));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = static_cast<uInt>(out.size() - had);
    result = inflate(&stream, Z_SYNC_FLUSH);
    out.resize(out.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  const bool ends_early = result == Z_BUF_ERROR && !out.empty();
  if (result != Z_OK && result != Z_STREAM_END && !ends_early) return {};
  return out;
}

// What is in front of the next zero byte, which is taken off with it.
std::optional<std::string_view> taken(std::string_view& text) {
  const std::size_t end = text.find('\0');
  if (end == text.npos) return {};
  const std::string_view first = text.substr(0, end);
  text.remove_prefix(end + 1);
  return first;
}

std::optional<std::string> text_of(const Text& text) {
  std::string_view rest = text.rest;
  if (text.kind == "tEXt") return std::string(rest);
  if (text.kind == "zTXt")
    return rest.empty() || rest[0] != '\0' ? std::nullopt : unpacked(rest.substr(1));
  if (rest.size() < 2) return {};
  const bool is_packed = rest[0] != '\0', is_known = rest[1] == '\0';
  rest.remove_prefix(2);
  if (!taken(rest) || !taken(rest)) return {};  // its language, and the key in it
  if (!is_packed) return std::string(rest);
  return is_known ? unpacked(rest) : std::nullopt;
}

// The last that is not damaged, of the last few, so that no file unpacks more than these.
std::optional<std::string> last_of(std::span<const Text> texts) {
  constexpr std::size_t kMost = 16;
  for (const Text& text : std::views::reverse(texts.last(std::min(kMost, texts.size()))))
    if (auto found = text_of(text)) return found;
  return {};
}

void read_png(std::string_view file, Sayings& says) {
  const Reader reader(file, true);
  for (std::size_t at = 8; reader.has(at, 12);) {
    const std::uint64_t size = reader.number(at, 4);
    if (!reader.has(at, size + 12)) return;
    const std::string_view kind = reader.part(at + 4, 4);
    std::string_view data = reader.part(at + 8, size);
    at += size + 12;
    if (kind == "IEND") return;
    if (kind == "eXIf") says.exif = std::string(kExif).append(data);
    if (kind != "tEXt" && kind != "zTXt" && kind != "iTXt") continue;
    const auto key = taken(data);
    if (!key) continue;
    if (*key == "Raw profile type exif") says.profile.push_back({kind, data});
    if (*key == "XML:com.adobe.xmp") says.xml.push_back({kind, data});
  }
}

void read_webp(std::string_view file, Sayings& says) {
  constexpr std::uint8_t kHasExif = 8, kHasXmp = 4;
  const Reader reader(file, false);
  if (!reader.has(12, 9) || reader.part(12, 4) != "VP8X") return;
  const auto has = static_cast<std::uint8_t>(file[20]);
  for (std::size_t at = 12; reader.has(at, 8);) {
    const std::string_view kind = reader.part(at, 4);
    const std::uint64_t size = reader.number(at + 4, 4);
    if (!reader.has(at + 8, size)) return;
    const std::string_view data = reader.part(at + 8, size);
    at += 8 + size + size % 2;
    if (kind == "EXIF" && (has & kHasExif) != 0 && !says.exif) says.exif = data;
    if (kind == "XMP " && (has & kHasXmp) != 0 && !says.xmp) says.xmp = data;
  }
}

// --- What it says --------------------------------------------------------------------------------

// The bytes that hexadecimal digits are, behind three lines; nothing for other digits.
std::optional<std::string> profile_bytes(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return std::string();
    text.remove_prefix(end + 1);
  }
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0 && high < 0 && std::strchr(" \n\r\t\f\v", c) != nullptr && c != '\0') continue;
    if (digit < 0) return {};
    if (high >= 0) bytes += static_cast<char>(high << 4 | digit);
    high = high < 0 ? digit : -1;
  }
  if (high >= 0) return {};
  return bytes;
}

// Returns how many bytes a value of a type of TIFF's has; 0 of types that there are not.
std::size_t size_of_type(std::uint64_t type) {
  constexpr std::uint8_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

template <class T>
T as(std::uint64_t bits) {
  T value;
  const auto narrow = [&](auto number) { std::memcpy(&value, &number, sizeof(value)); };
  sizeof(T) == 4 ? narrow(static_cast<std::uint32_t>(bits)) : narrow(bits);
  return value;
}

// The first value of a tag as a number; 0 for texts and bytes.
double value_of(const Reader& data, std::uint64_t type) {
  const auto bits = [&](std::size_t at, std::size_t size) { return data.number(at, size); };
  switch (type) {
    case 3:  // unsigned, of 16 bits
      return static_cast<double>(bits(0, 2));
    case 4:  // of 32
    case 13:
      return static_cast<double>(bits(0, 4));
    case 16:
      return static_cast<double>(bits(0, 8));
    case 5:  // a fraction
      return static_cast<double>(bits(0, 4)) / static_cast<double>(bits(4, 4));
    case 6:  // signed
      return static_cast<std::int8_t>(bits(0, 1));
    case 8:
      return static_cast<std::int16_t>(bits(0, 2));
    case 9:
      return static_cast<std::int32_t>(bits(0, 4));
    case 10:
      return static_cast<double>(static_cast<std::int32_t>(bits(0, 4))) /
             static_cast<double>(static_cast<std::int32_t>(bits(4, 4)));
    case 11:
      return as<float>(bits(0, 4));
    case 12:
      return as<double>(bits(0, 8));
    default:
      return 0;
  }
}

// The tag of EXIF data, which are a TIFF file behind its name; nothing where they lack it.
struct Tag {
  bool is_damaged = false;
  std::optional<double> value = {};
};
Tag tag_of(std::string_view exif) {
  constexpr std::uint64_t kOrientation = 274;
  for (int i = 0; i < 2 && exif.starts_with(kExif); ++i) exif.remove_prefix(kExif.size());
  if (exif.empty()) return {};
  const std::string_view head = exif.substr(0, 4);
  const bool big = head.starts_with("MM");
  if (exif.size() < 8 || (!big && !head.starts_with("II")) ||
      (head.substr(2) != std::string_view("\0*", 2) &&
       head.substr(2) != std::string_view("*\0", 2)))
    return {.is_damaged = true};
  const Reader reader(exif, big);
  std::uint64_t at = reader.number(4, 4), apart = 0;  // bytes of values that stand elsewhere
  if (!reader.has(at, 2)) return {};
  const std::uint64_t tags = reader.number(at, 2);
  at += 2;
  for (std::uint64_t i = 0; i < tags && reader.has(at, 12); ++i, at += 12) {
    const std::uint64_t type = reader.number(at + 2, 2), count = reader.number(at + 4, 4),
                        size = count * size_of_type(type);
    if (size == 0) continue;
    std::uint64_t from = at + 8;
    if (size > 4) {
      from = reader.number(at + 8, 4);
      apart += size;
      if (apart > exif.size()) continue;
      if (!reader.has(from, size)) return {};
    }
    if (reader.number(at, 2) == kOrientation)
      return {.value = value_of(Reader(reader.part(from, size), big), type)};
  }
  return {};
}

// The digit of the first tiff:Orientation="6" or <tiff:Orientation>6.
int xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = xmp.find(kName); at != xmp.npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    for (const std::string_view before : {"=\"", ">"})
      if (rest.starts_with(before) && rest.size() > before.size() && rest[before.size()] >= '0' &&
          rest[before.size()] <= '9')
        return rest[before.size()] - '0';
  }
  return 1;
}

}  // namespace

int orientation_of(Bytes file) {
  const std::string_view text = as_text(file);
  Sayings says;
  if (text.starts_with("\xFF\xD8"))
    read_jpeg(text, says);
  else if (text.starts_with("\x89PNG"))
    read_png(text, says);
  else
    read_webp(text, says);
  if (!says.exif)
    if (const auto profile = last_of(says.profile);
        profile && !(says.exif = profile_bytes(*profile)))
      return 1;
  const Tag tag = says.exif ? tag_of(*says.exif) : Tag{};
  if (tag.is_damaged) return 1;
  const auto xmp = [&] {
    const auto xml = last_of(says.xml);
    const auto& found = xml && !xml->empty() ? xml : says.xmp;
    return found ? xmp_orientation(*found) : 1;
  };
  const double value = tag.value ? *tag.value : xmp();
  for (int orientation = 2; orientation <= 8; ++orientation)
    if (value == orientation) return orientation;
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool swaps = orientation >= 5;
  Image made = swaps ? Image(image.height, image.width) : Image(image.width, image.height);
  // From where rows and columns are counted.
  const bool from_below =
                 orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
             from_right =
                 orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  for (std::int64_t y = 0; y < made.height; ++y)
    for (std::int64_t x = 0; x < made.width; ++x) {
      const std::int64_t row = swaps ? x : y, column = swaps ? y : x;
      std::memcpy(made.at(y, x),
                  image.at(from_below ? image.height - 1 - row : row,
                           from_right ? image.width - 1 - column : column),
                  3);
    }
  return made;
}

Image decode_upright(Bytes file, const std::string& where, const ImageLimits& limits) {
  Image image = decode_image(file, where, limits);
  return upright(std::move(image), orientation_of(file));
}

Image read_upright(const FilePart& part, const ImageLimits& limits) {
  const MappedFile file(part.path);
  return decode_upright(image_in(file, part), part.called(), limits);
}

ImageSize upright_size(const FilePart& part, const ImageLimits& limits) {
  const MappedFile file(part.path);
  const Bytes bytes = image_in(file, part);
  const ImageSize size = size_of_image(bytes, part.called(), limits);
  return orientation_of(bytes) >= 5 ? ImageSize{size.height, size.width} : size;
}

}  // namespace mt
