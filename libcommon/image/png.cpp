// PNG files, by libpng.
#include <png.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "image/formats.h"

namespace mt {
namespace {

// What lives longer than a jump, which runs no destructor.
struct Decoder {
  Bytes file;
  const std::function<bool()>* ends = nullptr;
  std::size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char line[128] = "";
  bool lacks_memory = false;
  std::vector<std::uint8_t> samples;  // [height, row]
  std::vector<png_bytep> rows;
  std::size_t row = 0;  // bytes

  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }

  bool read_header(const ImageLimits& limits);
  bool start();
  bool read_pixels();

  bool is_deep_grey() const {
    return png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY &&
           png_get_bit_depth(png, info) == 16;
  }
};

[[noreturn]] void leave(png_structp png, png_const_charp what) {
  auto* decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  std::strncpy(decoder->line, what, sizeof(decoder->line) - 1);
  png_longjmp(png, 1);
}

png_voidp allocate(png_structp png, png_alloc_size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<Decoder*>(png_get_mem_ptr(png))->lacks_memory = true;
  return memory;
}

void deallocate(png_structp, png_voidp memory) { std::free(memory); }

void pass_over(png_structp, png_const_charp) {}  // what it says of parts that are not read

void give(png_structp png, png_bytep to, std::size_t count) {
  auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (count > decoder->file.size() - decoder->at) png_error(png, "it ends early");
  std::memcpy(to, decoder->file.data() + decoder->at, count);
  decoder->at += count;
}

void watch(png_structp png, png_uint_32, int) {
  const auto& ends = *static_cast<Decoder*>(png_get_io_ptr(png))->ends;
  if (ends && ends()) png_error(png, kNotWanted);
}

bool Decoder::read_header(const ImageLimits& limits) {
  png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, leave, pass_over, this, allocate,
                                 deallocate);
  if (png == nullptr) return false;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  info = png_create_info_struct(png);
  if (info == nullptr) return false;
  png_set_read_fn(png, this, give);
  png_set_read_status_fn(png, watch);
  // A side may be as long as all pixels that are allowed: make_image() says it if they are more.
  const auto side = static_cast<png_uint_32>(std::min<std::int64_t>(limits.pixels, 0x7FFFFFFF));
  png_set_user_limits(png, std::max<png_uint_32>(side, 1), std::max<png_uint_32>(side, 1));
  png_set_chunk_malloc_max(png, 1 << 20);
  png_set_chunk_cache_max(png, 16);
  png_read_info(png, info);
  return true;
}

// Asks for 8 bits of grey or of three colours, but for grey of 16 bits, which stays.
bool Decoder::start() {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  const bool deep = is_deep_grey();
  if (png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if (!deep) png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  row = png_get_rowbytes(png, info);
  return true;
}

bool Decoder::read_pixels() {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

Image decode_png(Bytes file, const std::string& where, const ImageLimits& limits, Reading what) {
  Decoder decoder;
  decoder.file = file;
  decoder.ends = &limits.ends;
  const auto check = [&](bool ok) {
    if (!ok && decoder.lacks_memory) throw std::bad_alloc();
    if (!ok) fail(Exit::bad_data, where, ": a damaged PNG file: ", decoder.line);
  };
  check(decoder.read_header(limits));
  const bool deep = decoder.is_deep_grey();
  Image image = make_image(png_get_image_width(decoder.png, decoder.info),
                           png_get_image_height(decoder.png, decoder.info), where, limits, what);
  if (what == Reading::header) return image;
  check(decoder.start());
  const std::size_t width = static_cast<std::size_t>(image.width), each = decoder.row / width;
  const bool in_place = each == 3;
  if (!in_place) decoder.samples.resize(decoder.row * static_cast<std::size_t>(image.height));
  std::uint8_t* const base = in_place ? image.pixels.data() : decoder.samples.data();
  decoder.rows.reserve(static_cast<std::size_t>(image.height));
  for (std::int64_t y = 0; y < image.height; ++y)
    decoder.rows.push_back(base + static_cast<std::size_t>(y) * decoder.row);
  check(decoder.read_pixels());
  for (std::size_t i = 0; !in_place && i < image.pixels.size() / 3; ++i) {
    const std::uint8_t* const from = base + i * each;
    const std::uint8_t grey = deep && from[0] != 0 ? 255 : deep ? from[1] : from[0];
    std::memset(&image.pixels[i * 3], grey, 3);
  }
  return image;
}

}  // namespace mt
