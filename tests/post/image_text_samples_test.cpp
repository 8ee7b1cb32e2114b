#include "post/supervised/image_text_samples.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "image/image.h"
#include "model/image_tiles.h"
#include "tensor/buffer.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLength = 32;

// Tiles of 12 pixels' side, at most four of an image, of each of which four tokens are rows.
ModelConfig cutting() {
  ModelConfig c;
  c.family = ModelFamily::llava;
  c.vision_model_type = "internvit";
  c.img_h = c.img_w = 12;
  c.patch_dim = 3;
  c.class_token_len = 1;
  c.pixel_shuffle = c.use_tiling = true;
  c.max_num_tiles = 4;
  c.image_token_index = 259;
  return c;
}

class ImageTextSamplesOf : public testing::Test {
 protected:
  // Two images of 2 x 1 and 1 x 1 tiles, in one text.
  void SetUp() override {
    put("rgb8.png", "a");
    put("rgb.jpg", "b");
    Example example;
    example.file = "lines.jsonl";
    example.line = 3;
    example.most_tiles = c_.max_num_tiles;
    for (const char* const name : {"a", "b"}) {
      example.images.push_back({.path = scratch_.path(name)});
      example.tiles.push_back(tiles_in(c_, example.images.back()));
      example.ids.insert(example.ids.end(), static_cast<std::size_t>(4 * example.tiles.back()),
                         259);
    }
    example.ids.push_back(7);
    example.learnt.assign(example.ids.size(), true);
    ASSERT_EQ(example.tiles, (std::vector<std::int64_t>{2, 1}));
    packed_ = std::make_shared<const Packed>(Packed::of({example}, Packing::none, kLength));
    ASSERT_EQ(most_tiles(*packed_), 3);
  }
  void put(const char* image, const char* name) {
    fs::copy(concat(MT_TESTDATA, "/images/", image), scratch_.path(name),
             fs::copy_options::overwrite_existing);
  }
  // What making the sample says.
  std::string error() const {
    const ImageTextSamples samples(
        std::make_unique<PackedSamples>("data", packed_, PackedSamples::Order{}), c_, 3);
    const std::int64_t bytes = fields_bytes(samples.fields(), 1, DType::f32);
    const Buffer buffer(Device::cpu, static_cast<std::size_t>(bytes));
    const Fields row =
        fields_in(buffer.tensor(DType::u8, {bytes}), samples.fields(), 1, DType::f32);
    return error_of([&] { samples.get(0, row); });
  }
  std::string changed(const char* name) const {
    return concat("65 lines.jsonl:3: ", scratch_.path(name),
                  ": has other sides than when it was read");
  }

  const ModelConfig c_ = cutting();
  const Scratch scratch_;
  std::shared_ptr<const Packed> packed_;
};

TEST_F(ImageTextSamplesOf, TheSameImagesAreMade) { EXPECT_EQ(error(), ""); }

TEST_F(ImageTextSamplesOf, AnImageOfFewerTilesIsRefused) {
  put("rgb.jpg", "a");
  EXPECT_EQ(error(), changed("a"));
}

TEST_F(ImageTextSamplesOf, AnImageOfMoreTilesIsRefused) {
  put("rgb8.png", "b");
  EXPECT_EQ(error(), changed("b"));
}

TEST_F(ImageTextSamplesOf, ImagesThatTradeTilesAreRefused) {
  put("rgb.jpg", "a");
  put("rgb8.png", "b");
  EXPECT_EQ(error(), changed("a"));
}

}  // namespace
}  // namespace mt
