#include "image/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/random.h"
#include "image/augment.h"
#include "image/patches.h"

namespace mt {
namespace {

std::vector<std::string> files_of_every_kind() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(MT_TESTDATA) + "/images"))
    if (entry.path().extension() != ".golden") files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

// What is said of a file that cannot be read; "" if it can.
std::string error_of(std::string_view file, const ImageLimits& limits = {.pixels = 1 << 16}) {
  try {
    const Image image = decode_image(as_bytes(file), "file", limits);
    EXPECT_EQ(std::ssize(image.pixels), image.width * image.height * 3);
    EXPECT_LE(image.width * image.height, limits.pixels);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    return error.what();
  }
  return "";
}

TEST(Image, AHeaderSaysTheSizeOfThePicture) {
  for (const std::string& path : files_of_every_kind()) {
    const Image whole = read_image(path);
    const std::string file = read_file(path);
    EXPECT_EQ(size_of_image(as_bytes(file), path), (ImageSize{whole.width, whole.height})) << path;
    EXPECT_THROW(size_of_image(as_bytes(file), path, {.pixels = 20}), Error) << path;
  }
}

TEST(Image, AFileThatIsCutOffIsAnError) {
  for (const std::string& path : files_of_every_kind()) {
    const std::string file = read_file(path);
    // The last bytes of some formats hold no pixels.
    for (std::size_t part = 0; part < 20; ++part)
      EXPECT_NE(error_of(std::string_view(file).substr(0, file.size() * part / 22)), "")
          << path << " cut to " << part << " of 22 parts";
  }
}

// Of WebP files nobody is asked.
TEST(Image, DecodingEndsWhereNobodyWaits) {
  for (const std::string& path : files_of_every_kind()) {
    if (path.ends_with("webp")) continue;
    const std::string error =
        error_of(read_file(path), {.pixels = 1 << 16, .ends = [] { return true; }});
    EXPECT_TRUE(error.ends_with(": nobody waits for it any more")) << path << ": " << error;
  }
}

TEST(Image, AThousandDamagedFilesAreImagesOrOneLineEach) {
  const auto files = files_of_every_kind();
  const RandomKey key = RandomKey::make(1, 0);
  int refused = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    std::string file = read_file(files[i % files.size()]);
    for (std::uint32_t change = 0; change < 1 + i % 4; ++change) {
      const auto words = philox({i, change, 0, 0}, key);
      file[words[0] % file.size()] = static_cast<char>(words[1]);
    }
    const std::string error = error_of(file);
    refused += error.empty() ? 0 : 1;
    EXPECT_EQ(std::ranges::count(error, '\n'), 0) << error;
  }
  EXPECT_GT(refused, 300);
}

TEST(Image, WhatIsLargerThanTheLimitsIsRefusedBeforeItIsDecoded) {
  for (const std::string& path : files_of_every_kind()) {
    const std::string file = read_file(path);
    const Image image = read_image(path);
    const std::int64_t pixels = image.width * image.height;
    EXPECT_EQ(error_of(file, {.pixels = pixels}), "");
    const std::string error = error_of(file, {.pixels = pixels - 1});
    EXPECT_TRUE(error.starts_with("file: ")) << error;
  }
}

TEST(Image, WhatIsTooLongForItsWidthIsRefusedBeforeItIsDecoded) {
  for (const std::string& path : files_of_every_kind()) {
    const std::string file = read_file(path);
    const Image image = read_image(path);
    const std::int64_t times =
        std::max(image.width, image.height) / std::min(image.width, image.height);
    EXPECT_EQ(error_of(file, {.aspect = times + 1}), "");
    const std::string error = error_of(file, {.aspect = times});
    EXPECT_TRUE(error.find(concat("expected one side less than ", times, " times")) != error.npos)
        << path << " " << error;
  }
}

TEST(Image, OtherFilesAreRefused) {
  EXPECT_EQ(error_of(""), "file: no image that is known, expected a JPEG, PNG or WebP file");
  EXPECT_EQ(error_of("GIF89a"), "file: no image that is known, expected a JPEG, PNG or WebP file");
  EXPECT_EQ(error_of("\xFF\xD8\xFF").substr(0, 25), "file: a damaged JPEG file");
}

// serving-eval-retrieval.md 5.1
TEST(Image, PatchesHaveColoursNextToEachOther) {
  Image image(4, 4);
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < 4; ++y)
      for (std::int64_t x = 0; x < 4; ++x)
        image.at(y, x)[c] = static_cast<std::uint8_t>(c * 16 + y * 4 + x);
  std::vector<float> patches(48);
  make_patches(image, 2, {}, patches);
  std::vector<int> numbers;
  for (const float x : patches) numbers.push_back(static_cast<int>(std::lround(x * 255)));
  numbers.resize(24);
  EXPECT_EQ(numbers, (std::vector{0, 16, 32, 1, 17, 33, 4, 20, 36, 5, 21, 37,  //
                                  2, 18, 34, 3, 19, 35, 6, 22, 38, 7, 23, 39}));
}

Image noise(std::int64_t width, std::int64_t height) {
  Image image(width, height);
  const RandomKey key = RandomKey::make(2, 0);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] =
        static_cast<std::uint8_t>(philox({static_cast<std::uint32_t>(i), 0, 0, 0}, key)[0]);
  return image;
}

TEST(Image, AugmentationsAreAFunctionOfTheKeyAndTheSample) {
  const auto made = [](std::uint64_t sample) {
    Draws draws(RandomKey::make(3, 4), sample);
    Image image = random_resized_crop(noise(31, 17), 12, 10, 0.08, 1, Filter::bilinear, draws);
    jitter(image, {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}, draws);
    auto_augment(image, draws);
    return image.pixels;
  };
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    EXPECT_EQ(made(sample).size(), 12U * 10 * 3);
    EXPECT_EQ(made(sample), made(sample));
    EXPECT_NE(made(sample), made(sample + (std::uint64_t{1} << 32)));
  }
}

TEST(Image, PartsOfNarrowAndWideImagesLieInThem) {
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 90}, {90, 1}, {3, 200}}) {
    const Image image = noise(width, height);
    for (std::uint64_t sample = 0; sample < 50; ++sample) {
      Draws draws(RandomKey::make(5, 6), sample);
      const Image part = random_resized_crop(image, 7, 5, 0.08, 1, Filter::bicubic, draws);
      EXPECT_EQ(part.width, 7);
      EXPECT_EQ(part.height, 5);
    }
  }
}

TEST(Image, TurningByAQuarterMovesCornersAndGreyComesIn) {
  const Image image = noise(9, 9), quarter = turned(image, 90);
  for (std::int64_t y = 0; y < 9; ++y)
    for (std::int64_t x = 0; x < 9; ++x)
      EXPECT_TRUE(std::equal(quarter.at(y, x), quarter.at(y, x) + 3, image.at(x, 8 - y)));
  EXPECT_EQ(turned(image, 45).at(0, 0)[1], 128);
  EXPECT_EQ(turned(image, 0).pixels, image.pixels);
}

}  // namespace
}  // namespace mt
