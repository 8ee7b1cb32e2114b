// Parts of images as samples: how they are drawn, and what stands alone.
#include "data/images/crop_samples.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "image/resize.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

constexpr CropShape kShape{.whole = {.width = 8, .height = 6, .patch = 2, .class_tokens = 1},
                           .other = {.width = 4, .height = 4, .patch = 2, .class_tokens = 1},
                           .others = 3};

class CropTree : public testing::Test {
 protected:
  CropTree() {
    for (const char* const folder : {"a", "b"}) {
      std::filesystem::create_directories(root() + "/" + folder);
      std::filesystem::copy_file(std::string(MT_TESTDATA) + "/images/rgb8.png",
                                 root() + "/" + folder + "/1.png");
    }
  }
  std::string root() const { return folder_.path("images"); }
  CropSamples samples(const CropSamples::Making& making) const {
    auto tree = std::make_shared<const ImageTree>(root(), ImageTree::Shares());
    auto order =
        std::make_unique<const Sampler>(tree->size(), SamplerOptions{.past_end = PastEnd::repeat});
    return {std::move(tree), kShape, std::move(order), 100, making};
  }

 private:
  Scratch folder_;
};

struct Made {
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(26),
                            local_ids = std::vector<std::int32_t>(15);
  std::vector<float> pixels = std::vector<float>(26 * 12), local = std::vector<float>(15 * 12),
                     sharpness = std::vector<float>(2), learns = std::vector<float>(5),
                     mask = std::vector<float>(1);
};

Made made_of(const CropSamples& samples, std::int64_t n) {
  Made made;
  const auto tensor = [](auto& numbers, DType dtype) {
    return Tensor(numbers.data(), dtype, {std::ssize(numbers)}, Device::cpu);
  };
  Fields fields;
  fields[Field::ids] = tensor(made.ids, DType::i32);
  fields[Field::local_ids] = tensor(made.local_ids, DType::i32);
  fields[Field::pixels] = tensor(made.pixels, DType::f32);
  fields[Field::local_pixels] = tensor(made.local, DType::f32);
  fields[Field::sharpness] = tensor(made.sharpness, DType::f32);
  fields[Field::last_learns] = tensor(made.learns, DType::f32);
  fields[Field::loss_mask] = tensor(made.mask, DType::f32);
  for (const FieldSpec& spec : samples.fields())
    EXPECT_EQ(fields[spec.field].numel(), spec.per_sample);
  samples.get(n, fields);
  return made;
}

TEST_F(CropTree, PartsAreDrawnByTheSeedAndTheNumberInTheRun) {
  const auto schedule = [](std::int64_t n) {
    return CropSchedule{.teacher_temperature = 0.05, .last_learns = n >= 2};
  };
  const CropSamples samples = this->samples({.seed = 1, .learning = true, .schedule = schedule}),
                    other = this->samples({.seed = 2, .learning = true, .schedule = schedule});
  for (std::int64_t n = 0; n < 4; ++n) {
    const Made made = made_of(samples, n);
    EXPECT_EQ(made.pixels, made_of(samples, n).pixels);
    EXPECT_EQ(made.local, made_of(samples, n).local);
    EXPECT_NE(made.pixels, made_of(other, n).pixels);
    EXPECT_NE(made.local, made_of(samples, n + 2).local);  // of the same image
    EXPECT_EQ(made.ids[13], 0);
    EXPECT_EQ(made.ids[25], 12);
    EXPECT_EQ(made.local_ids[14], 4);
    EXPECT_EQ(made.sharpness, std::vector<float>(2, 20));
    EXPECT_EQ(made.learns, std::vector<float>(5, n >= 2 ? 1 : 0));
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(made.pixels[13 * 12 + i], 0);  // of a class
    const std::vector<float> first(made.pixels.begin(), made.pixels.begin() + 13 * 12),
        second(made.pixels.begin() + 13 * 12, made.pixels.end());
    EXPECT_NE(first, second);
  }
}

TEST_F(CropTree, ImagesThatAreNotLearntFromStandAlone) {
  const CropSamples samples = this->samples({});
  const Made made = made_of(samples, 1);
  std::vector<float> expected(26 * 12);
  make_patches(resize(read_image(root() + "/b/1.png"), 8, 6, Filter::bilinear), 2, kImageNet,
               std::span(expected).subspan(12, 12 * 12));
  EXPECT_EQ(made.pixels, expected);
  EXPECT_EQ(made.local, std::vector<float>(15 * 12));
}

}  // namespace
}  // namespace mt
