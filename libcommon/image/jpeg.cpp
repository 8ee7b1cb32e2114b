// JPEG files, by libjpeg-turbo with its defaults, which are Pillow's: the exact integer transform
// and smooth enlargement of colours.
#include <csetjmp>
#include <cstdio>  // which jpeglib.h wants before it

#include <jpeglib.h>

#include <jerror.h>

#include <new>

#include "base/error.h"
#include "image/formats.h"

namespace mt {
namespace {

// What a progressive file of a few bytes can make a decoder go over again and again.
constexpr int kMostScans = 500;

struct Failure : jpeg_error_mgr {
  std::jmp_buf back;
  char line[JMSG_LENGTH_MAX];
  const std::function<bool()>* ends;
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* failure = static_cast<Failure*>(info->err);
  failure->format_message(info, failure->line);
  std::longjmp(failure->back, 1);
}

// Level -1 is a warning.  One that says that pixels are missing or made up ends it.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION)
    leave(info);
}

void watch(j_common_ptr info) {
  auto* failure = static_cast<Failure*>(info->err);
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans)
    std::snprintf(failure->line, sizeof(failure->line), "more than %d scans", kMostScans);
  else if (*failure->ends && (*failure->ends)())
    std::snprintf(failure->line, sizeof(failure->line), "%s", kNotWanted);
  else
    return;
  std::longjmp(failure->back, 1);
}

// product / 255, rounded, of two numbers of 8 bits.
int times(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// A row of grey, or of inverted cyan, magenta, yellow and black, as red, green and blue.
void spread(std::uint8_t* to, const std::uint8_t* from, std::int64_t width, int components) {
  for (std::int64_t x = 0; x < width; ++x, to += 3, from += components)
    for (int c = 0; c < 3; ++c)
      if (components == 1) {
        to[c] = from[0];
      } else {
        const int rest = from[3], value = rest - times(255 - from[c], rest);
        to[c] = static_cast<std::uint8_t>(value < 0 ? 0 : value);
      }
}

// What lives longer than a jump, which runs no destructor.
struct Decoder {
  jpeg_decompress_struct info = {};
  Failure failure = {};
  jpeg_progress_mgr progress = {};
  Image image;
  std::vector<std::uint8_t> row;

  ~Decoder() { jpeg_destroy_decompress(&info); }

  // False: it failed, and failure says how.
  bool read_header(Bytes file, const ImageLimits& limits) {
    info.err = jpeg_std_error(&failure);
    failure.ends = &limits.ends;
    failure.error_exit = leave;
    failure.emit_message = warn;
    progress.progress_monitor = watch;
    if (setjmp(failure.back) != 0) return false;
    jpeg_create_decompress(&info);
    info.progress = &progress;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = info.num_components == 1   ? JCS_GRAYSCALE
                           : info.num_components == 4 ? JCS_CMYK
                                                      : JCS_RGB;
    return true;
  }

  bool read_pixels() {
    if (setjmp(failure.back) != 0) return false;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      std::uint8_t* const to = image.at(info.output_scanline, 0);
      JSAMPROW at = info.num_components == 3 ? to : row.data();
      jpeg_read_scanlines(&info, &at, 1);
      if (at != to) spread(to, at, image.width, info.num_components);
    }
    jpeg_finish_decompress(&info);
    return true;
  }
};

}  // namespace

Image decode_jpeg(Bytes file, const std::string& where, const ImageLimits& limits, Reading what) {
  Decoder decoder;
  const auto check = [&](bool ok) {
    if (!ok && decoder.failure.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    if (!ok) fail(Exit::bad_data, where, ": a damaged JPEG file: ", decoder.failure.line);
  };
  check(decoder.read_header(file, limits));
  const int components = decoder.info.num_components;
  if (components != 1 && components != 3 && components != 4)
    fail(Exit::bad_data, where, ": a JPEG file of ", components,
         " colours, expected 1, 3 or 4 of them");
  decoder.image =
      make_image(decoder.info.image_width, decoder.info.image_height, where, limits, what);
  if (what == Reading::header) return std::move(decoder.image);
  decoder.row.resize(static_cast<std::size_t>(decoder.image.width * components));
  check(decoder.read_pixels());
  return std::move(decoder.image);
}

}  // namespace mt
