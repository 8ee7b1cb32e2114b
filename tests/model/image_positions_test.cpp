// Positions of images of another size: PyTorch's bilinear interpolation, with tokens of classes in
// front or without.
#include "model/image_positions.h"

#include <gtest/gtest.h>

#include "model/config/vision_config.h"
#include "tests/model/golden.h"

namespace mt {
namespace {

constexpr std::int64_t kWidth = 2;

VisionConfig images(std::int64_t rows, std::int64_t columns, const char* type) {
  VisionConfig config;
  config.patch_dim = 2;
  config.img_h = 2 * rows;
  config.img_w = 2 * columns;
  config.vision_pretraining_type = type;
  return config;
}

// Tokens of classes are 1, 2, …; those of patches the golden's.
std::vector<float> positions(const VisionConfig& config) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < config.class_tokens() * kWidth; ++i)
    all.push_back(static_cast<float>(i + 1));
  for (int i = 1; i <= 24; ++i) all.push_back(std::sin(0.7F * static_cast<float>(i)));
  return all;
}

std::vector<float> resized(const VisionConfig& to, const VisionConfig& from) {
  std::vector<float> x = positions(from);
  std::vector<float> y(static_cast<std::size_t>(to.image_tokens() * kWidth), -1);
  resize_positions(Tensor(y.data(), DType::f32, {to.image_tokens(), kWidth}, Device::cpu), to,
                   Tensor(x.data(), DType::f32, {from.image_tokens(), kWidth}, Device::cpu), from);
  return y;
}

TEST(ImagePositions, AreThoseOfPytorchsInterpolation) {
  const Golden golden = read_golden("vit-positions");
  EXPECT_EQ(golden.numbers.size(), 5U);
  for (const auto& [name, expected] : golden.numbers) {
    const std::int64_t rows = name[0] - '0', columns = name[2] - '0';
    for (const char* to : {"classify", "inpaint"})
      for (const char* from : {"classify", "inpaint"}) {
        const std::vector<float> made = resized(images(rows, columns, to), images(3, 4, from));
        const std::size_t classes = made.size() - expected.size();
        const bool kept = std::string(from) == "classify";
        for (std::size_t i = 0; i < classes; ++i)
          EXPECT_EQ(made[i], kept ? static_cast<float>(i + 1) : 0) << name << ' ' << i;
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(made[classes + i], expected[i], 1e-6) << name << ' ' << i;
      }
  }
}

TEST(ImagePositions, OfTheSameSizeAreTheSame) {
  const VisionConfig config = images(3, 4, "classify");
  EXPECT_EQ(resized(config, config), positions(config));
}

}  // namespace
}  // namespace mt
