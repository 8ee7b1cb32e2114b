// Files of images and what Pillow makes of them, as hashes (scripts/make-image-goldens.py, which
// may name another file of them in MT_GOLDEN).
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "image/augment.h"
#include "image/blur.h"
#include "image/color.h"
#include "image/orientation.h"
#include "tests/base/scratch.h"
#include "tests/data/fnv.h"

namespace mt {
namespace {

Image made_by(const std::string& operation, Image image, const std::vector<double>& numbers) {
  const auto size = [&](std::size_t i) { return static_cast<std::int64_t>(numbers.at(i)); };
  const auto factor = [&] { return static_cast<float>(numbers.at(0)); };
  if (operation == "bilinear") return resize(image, size(0), size(1), Filter::bilinear);
  if (operation == "bicubic") return resize(image, size(0), size(1), Filter::bicubic);
  if (operation == "middle")
    return center_crop(resize_short_side(image, size(0), Filter::bilinear), size(1), size(2));
  if (operation == "mirror") return mirror(image);
  if (operation == "blur") return gaussian_blur(image, factor());
  if (operation == "shear") return sheared(image, numbers.at(0));
  if (operation == "rotate") return turned(image, numbers.at(0));
  if (operation.starts_with("step-")) {
    const std::map<std::string, Change> steps = {
        {"posterize", Change::posterize}, {"rotate", Change::rotate},
        {"solarize", Change::solarize},   {"color", Change::color},
        {"contrast", Change::contrast},   {"sharpness", Change::sharpness},
        {"shear", Change::shear}};
    change(image, steps.at(operation.substr(5)), static_cast<int>(size(0)),
           static_cast<int>(size(1)));
  }
  if (operation == "brightness") adjust_brightness(image, factor());
  if (operation == "contrast") adjust_contrast(image, factor());
  if (operation == "saturation") adjust_saturation(image, factor());
  if (operation == "sharpness") adjust_sharpness(image, factor());
  if (operation == "hue") adjust_hue(image, numbers.at(0));
  if (operation == "posterize") posterize(image, static_cast<int>(numbers.at(0)));
  if (operation == "solarize") solarize(image, static_cast<int>(numbers.at(0)));
  if (operation == "invert") invert(image);
  if (operation == "stretch") stretch_contrast(image);
  if (operation == "equalize") equalize(image);
  return image;
}

std::string hash(const Image& image) {
  Fnv fnv;
  const std::uint32_t size[] = {static_cast<std::uint32_t>(image.width),
                                static_cast<std::uint32_t>(image.height)};
  fnv.update(std::as_bytes(std::span(size)));
  fnv.update(std::as_bytes(std::span(image.pixels)));
  return fnv.hex();
}

TEST(ImageGolden, PixelsAreThoseOfPillow) {
  const char* const other = std::getenv("MT_GOLDEN");
  const std::string golden =
      other != nullptr ? other : std::string(MT_TESTDATA) + "/images/images.golden";
  std::istringstream lines(read_file(golden));
  std::int64_t compared = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string file, operation, word, last;
    std::vector<double> numbers;
    words >> file >> operation;
    for (words >> last; words >> word; last = word) numbers.push_back(std::stod(last));
    const Image image = read_image(parent_directory(golden) + "/" + file);
    EXPECT_EQ(hash(made_by(operation, image, numbers)), last) << line;
    ++compared;
  }
  EXPECT_GE(compared, 500);
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// scripts/make-turned-image-goldens.py, which may name another file of them in MT_TURNED_GOLDEN.
TEST(ImageGolden, PicturesAreUprightAsByPillow) {
  const char* const other = std::getenv("MT_TURNED_GOLDEN");
  std::istringstream lines(
      read_file(other != nullptr ? other : std::string(MT_TESTDATA) + "/images/turned.golden"));
  const Scratch scratch;
  std::int64_t turned = 0, compared = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name, hex, expected;
    words >> name >> hex >> expected;
    const std::string file = bytes_of_hex(hex);
    const Image picture = decode_upright(as_bytes(file), name);
    EXPECT_EQ(hash(picture), expected) << name;
    write_file_atomically(scratch.path("turned"), file, true);
    EXPECT_EQ(upright_size({.path = scratch.path("turned")}),
              (ImageSize{picture.width, picture.height}))
        << name;
    turned += hash(decode_image(as_bytes(file), name)) != expected;
    ++compared;
  }
  EXPECT_GE(compared, 150);
  EXPECT_GE(turned, 100);
}

}  // namespace
}  // namespace mt
