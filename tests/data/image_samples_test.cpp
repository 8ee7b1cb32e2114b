// Images of a tree as samples: which there are, in which order, and what becomes of them.
#include "data/images/image_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "image/patches.h"
#include "image/resize.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

// Classes "dark" and "light", of four images and two.
class ImageTrees : public testing::Test {
 protected:
  ImageTrees() {
    const std::string images = std::string(MT_TESTDATA) + "/images/";
    const std::pair<const char*, const char*> files[] = {
        {"rgb8.png", "dark/b.png"},         {"420.jpg", "dark/A.JPG"},
        {"lossy.webp", "dark/more/c.webp"}, {"444.jpg", "dark/n.jpg"},
        {"cmyk.jpg", "light/1.jpeg"},       {"rgba8.png", "light/2.png"}};
    for (const auto& [from, to] : files) {
      fs::create_directories((root() / to).parent_path());
      fs::copy_file(images + from, root() / to);
    }
    write_file_atomically((root() / "light/about.txt").string(), "no image", false);
    write_file_atomically((root() / "list.txt").string(), "no class", false);
  }
  fs::path root() const { return folder_.path("images"); }
  std::shared_ptr<const ImageTree> tree(const ImageTree::Shares& shares = {}) const {
    return std::make_shared<const ImageTree>(root().string(), shares);
  }
  std::string error(const std::string& folder, const ImageTree::Shares& shares = {}) const {
    try {
      ImageTree(folder, shares);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  Scratch folder_;
};

constexpr ImageShape kShape{.width = 6, .height = 4, .patch = 2, .class_tokens = 3};

struct Made {
  std::vector<std::int32_t> ids, label;
  std::vector<float> pixels, mask;
};

Made made_of(const ImageSamples& samples, std::int64_t n) {
  Made made{std::vector<std::int32_t>(9), std::vector<std::int32_t>(1), std::vector<float>(9 * 12),
            std::vector<float>(1)};
  const auto tensor = [](auto& numbers, DType dtype) {
    return Tensor(numbers.data(), dtype, {std::ssize(numbers)}, Device::cpu);
  };
  Fields fields;
  fields[Field::ids] = tensor(made.ids, DType::i32);
  fields[Field::labels] = tensor(made.label, DType::i32);
  fields[Field::pixels] = tensor(made.pixels, DType::f32);
  fields[Field::loss_mask] = tensor(made.mask, DType::f32);
  samples.get(n, fields);
  return made;
}

ImageSamples samples_of(const std::shared_ptr<const ImageTree>& tree, const SamplerOptions& order,
                        const ImageSamples::Making& making) {
  return {tree, kShape, std::make_unique<const Sampler>(tree->size(), order), 100, making};
}

// A folder's own images come before those of the folders in it.
TEST_F(ImageTrees, HaveClassesAndImagesInTheOrderOfTheirNames) {
  const auto all = tree();
  EXPECT_EQ(all->classes(), (std::vector<std::string>{"dark", "light"}));
  std::vector<std::string> files;
  for (std::int64_t k = 0; k < all->size(); ++k)
    files.push_back(fs::relative(all->image(k), root()).string() + " " +
                    std::to_string(all->label(k)));
  EXPECT_EQ(files,
            (std::vector<std::string>{"dark/A.JPG 0", "dark/b.png 0", "dark/n.jpg 0",
                                      "dark/more/c.webp 0", "light/1.jpeg 1", "light/2.png 1"}));
  EXPECT_EQ(tree({.classes = 0.5})->size(), 4);
  EXPECT_EQ(tree({.classes = 0.5})->classes(), all->classes());
  EXPECT_EQ(tree({.of_class = 0.5})->size(), 3);  // 2 of 4 and 1 of 2
}

TEST_F(ImageTrees, WhatIsMissingOrNotReadIsSaid) {
  EXPECT_NE(error("nowhere").find("nowhere: not a folder"), std::string::npos);
  EXPECT_NE(error((root() / "dark/more").string()).find("holds no folder of a class"),
            std::string::npos);
  EXPECT_NE(error(root().string(), {.of_class = 0.1}).find("/dark: holds no image"),
            std::string::npos);
  write_file_atomically((root() / "light/3.bmp").string(), "BM", false);
  EXPECT_NE(error(root().string()).find("3.bmp: an image of a format that is not read"),
            std::string::npos);
}

TEST_F(ImageTrees, WhatIsValidatedWithIsEachImageInTheModelsSize) {
  const auto all = tree();
  const ImageSamples samples = samples_of(all, {.past_end = PastEnd::repeat}, {});
  for (const std::int64_t n : {0, 3, 8}) {
    const Made made = made_of(samples, n);
    EXPECT_EQ(made.ids, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(made.label[0], all->label(n % 6));
    EXPECT_EQ(made.mask[0], 1);
    std::vector<float> expected(9 * 12);
    const Image image = resize(read_image(all->image(n % 6)), 6, 4, Filter::bilinear);
    make_patches(image, 2, kImageNet, std::span(expected).subspan(3 * 12));
    EXPECT_EQ(made.pixels, expected);
  }
}

TEST_F(ImageTrees, WhatIsLearntFromChangesByTheNumberInTheRunAndTheSeedAlone) {
  const auto all = tree();
  const SamplerOptions cyclic{.type = "cyclic"};
  const ImageSamples samples = samples_of(all, cyclic, {.seed = 1, .changing = true}),
                     again = samples_of(all, cyclic, {.seed = 1, .changing = true}),
                     other = samples_of(all, cyclic, {.seed = 2, .changing = true});
  int alike = 0;
  for (std::int64_t n = 0; n < 20; ++n) {
    const Made made = made_of(samples, n);
    EXPECT_EQ(made.pixels, made_of(again, n).pixels);
    EXPECT_EQ(made.label, made_of(other, n).label);
    alike += made.pixels == made_of(other, n).pixels ? 1 : 0;
  }
  EXPECT_LT(alike, 4);
}

TEST_F(ImageTrees, ARunGoesOnAfterWholeMicroBatchesOfItsOrder) {
  const ImageSamples samples =
      samples_of(tree(), {.type = "cyclic", .micro_batch_size = 2, .data_parallel_size = 2},
                 {.seed = 1, .changing = true});
  samples.check_consumed(8);
  EXPECT_THROW(samples.check_consumed(6), Error);
}

// Patches of 2 x 2 of an image of 8 x 12, none of classes.
struct Masked {
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(24);
  std::vector<float> pixels = std::vector<float>(24 * 12), values = pixels,
                     mask = std::vector<float>(24);
};

Masked masked_of(const std::shared_ptr<const ImageTree>& tree, std::int64_t n,
                 const PatchMask& mask, std::uint64_t seed) {
  const ImageSamples samples(
      tree, {.width = 12, .height = 8, .patch = 2},
      std::make_unique<const Sampler>(tree->size(), SamplerOptions{.past_end = PastEnd::repeat}),
      100, {.seed = seed, .mask = mask});
  Masked made;
  Fields fields;
  fields[Field::ids] = Tensor(made.ids.data(), DType::i32, {24}, Device::cpu);
  fields[Field::pixels] = Tensor(made.pixels.data(), DType::f32, {24 * 12}, Device::cpu);
  fields[Field::values] = Tensor(made.values.data(), DType::f32, {24 * 12}, Device::cpu);
  fields[Field::loss_mask] = Tensor(made.mask.data(), DType::f32, {24}, Device::cpu);
  samples.get(n, fields);
  return made;
}

TEST_F(ImageTrees, WhatIsToBePaintedIsNotSeen) {
  const auto all = tree();
  const Masked made = masked_of(all, 1, {.by_rows = true, .steps = 7}, 1);
  std::vector<float> whole(24 * 12);
  make_patches(
      center_crop(resize_short_side(read_image(all->image(1)), 12, Filter::bilinear), 12, 8), 2, {},
      whole);
  EXPECT_GE(*std::ranges::min_element(whole), 0);
  EXPECT_LE(*std::ranges::max_element(whole), 1);
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(made.ids[i], static_cast<std::int32_t>(i));
    EXPECT_EQ(made.mask[i], i >= 17 ? 1 : 0);
    for (std::size_t k = i * 12; k < (i + 1) * 12; ++k) {
      EXPECT_EQ(made.pixels[k], i >= 17 ? 0 : whole[k]);
      EXPECT_EQ(made.values[k], i >= 17 ? whole[k] : 0);
    }
  }
}

// A walk reaches patches that hang together, as many as it has steps at most, and is another one
// each time.
TEST_F(ImageTrees, MasksAreWalksOfTheNumberInTheRunAndTheSeed) {
  const auto all = tree();
  std::set<std::vector<float>> masks;
  for (std::int64_t n = 0; n < 20; ++n)
    for (const std::uint64_t seed : {1, 2}) {
      const std::vector<float> mask = masked_of(all, n, {.steps = 24}, seed).mask;
      EXPECT_EQ(mask, masked_of(all, n, {.steps = 24}, seed).mask);
      masks.insert(mask);
      const auto at = [&](std::size_t row, std::size_t column) {  // 0 outside
        return row < 4 && column < 6 ? mask[row * 6 + column] : 0;
      };
      const double painted = std::accumulate(mask.begin(), mask.end(), 0.0);
      EXPECT_GE(painted, 2);
      EXPECT_LT(painted, 24);
      for (std::size_t i = 0; i < 24; ++i) {
        const std::size_t row = i / 6, column = i % 6;
        const float beside =
            at(row - 1, column) + at(row + 1, column) + at(row, column - 1) + at(row, column + 1);
        EXPECT_TRUE(mask[i] == 0 || beside > 0) << i;
      }
    }
  EXPECT_GT(masks.size(), 30U);
  const std::vector<float> one = masked_of(all, 0, {.steps = 1}, 1).mask;
  EXPECT_EQ(std::accumulate(one.begin(), one.end(), 0.0), 1);
}

TEST_F(ImageTrees, ADamagedImageIsNamed) {
  const std::string path = (root() / "dark/b.png").string();
  fs::resize_file(path, 100);
  const ImageSamples samples = samples_of(tree(), {}, {});
  try {
    made_of(samples, 1);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    EXPECT_TRUE(std::string(error.what()).starts_with(path + ": a damaged PNG file"))
        << error.what();
  }
}

}  // namespace
}  // namespace mt
