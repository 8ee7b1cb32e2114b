// How images are cut, and what stands for them in a text.  Grids of images are Megatron-LM's and
// InternVL's (core_v0.12.1, examples/multimodal/image_processing.py).
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "image/resize.h"
#include "model/config/model_config.h"
#include "model/image_input.h"
#include "model/image_tiles.h"
#include "text/tokenizer.h"

namespace mt {
namespace {

ModelConfig cutting(std::int64_t most, std::int64_t side = 448) {
  ModelConfig c;
  c.family = ModelFamily::llava;
  c.vision_model_type = "internvit";
  c.img_h = c.img_w = side;
  c.patch_dim = side / 4;
  c.class_token_len = 1;
  c.use_tiling = c.use_thumbnail = c.pixel_shuffle = true;
  c.max_num_tiles = most;
  c.image_token_index = 5;
  return c;
}

struct Cut {
  ImageSize size;
  std::int64_t most;
  std::int64_t columns, rows;  // the nearest
  std::int64_t by_area_columns, by_area_rows;
};

TEST(ImageTiles, AreInTheGridOfTheNearestRatio) {
  const Cut cuts[] = {
      {{800, 600}, 6, 3, 2, 3, 2},    {{800, 600}, 12, 4, 3, 4, 3},  {{1920, 1080}, 6, 2, 1, 3, 2},
      {{1920, 1080}, 12, 4, 2, 4, 2}, {{1000, 2000}, 6, 1, 2, 2, 3}, {{1000, 2000}, 12, 2, 4, 2, 4},
      {{896, 896}, 6, 2, 2, 2, 2},    {{896, 896}, 12, 2, 2, 2, 2},  {{1344, 448}, 6, 3, 1, 3, 1},
      {{336, 1008}, 6, 1, 3, 1, 3},   {{100, 50}, 6, 2, 1, 2, 1},    {{100, 50}, 12, 2, 1, 2, 1},
      {{30000, 10}, 6, 6, 1, 6, 1},   {{1, 1}, 1, 1, 1, 1, 1}};
  for (const Cut& cut : cuts) {
    ModelConfig c = cutting(cut.most);
    const auto where = testing::Message()
                       << cut.size.width << 'x' << cut.size.height << ' ' << cut.most;
    const TileGrid nearest = grid_of(c, cut.size);
    EXPECT_EQ(nearest.columns, cut.columns) << where;
    EXPECT_EQ(nearest.rows, cut.rows) << where;
    EXPECT_EQ(nearest.thumbnail, cut.columns * cut.rows > 1) << where;
    c.use_area_weighted_aspect_ratio = true;
    const TileGrid by_area = grid_of(c, cut.size);
    EXPECT_EQ(by_area.columns, cut.by_area_columns) << where;
    EXPECT_EQ(by_area.rows, cut.by_area_rows) << where;
  }
  ModelConfig c = cutting(12);
  c.use_thumbnail = false;
  EXPECT_EQ(grid_of(c, {800, 600}).tiles(), 12);
  c.use_tiling = false;
  EXPECT_EQ(grid_of(c, {800, 600}).tiles(), 1);
}

// Of a tile of four by four patches those of two by two neighbours follow each other, whose
// embeddings are those of their own places (pixel_shuffle() of the same file, version 2).
TEST(ImageTiles, HavePatchesByFours) {
  ModelConfig c = cutting(2, 8);
  std::vector<std::int32_t> places(34);
  fill_places(c, places);
  const std::vector<std::int32_t> tile = {0, 1, 2, 5, 6, 3, 4, 7, 8, 9, 10, 13, 14, 11, 12, 15, 16};
  EXPECT_EQ(std::vector(places.begin(), places.begin() + 17), tile);
  EXPECT_EQ(std::vector(places.begin() + 17, places.end()), tile);
  EXPECT_EQ(rows_of_tile(c), 4);
  EXPECT_EQ(tokens_of_tile(c), 4);
  EXPECT_EQ(image_rows(c, std::vector<std::int32_t>{1, 5, 5, 2, 5}),
            (std::vector<std::int32_t>{-1, 0, 1, -1, 2}));
}

// Tiles come row by row, then the whole image, and each is what the tower would make of it alone.
TEST(ImageTiles, AreTheTowersOwnImages) {
  ModelConfig c = cutting(2, 8);
  Image image(32, 13);
  std::iota(image.pixels.begin(), image.pixels.end(), std::uint8_t{3});
  ASSERT_EQ(grid_of(c, {32, 13}).tiles(), 3);
  const auto each = static_cast<std::size_t>(tile_input_size(c));
  std::vector<float> made(3 * each), alone(each);
  make_tile_inputs(c, image, made);
  const Image all = resize(image, 16, 8, Filter::bilinear);
  const Image tiles[] = {crop(all, {.left = 0, .width = 8, .height = 8}),
                         crop(all, {.left = 8, .width = 8, .height = 8}), image};
  std::vector<std::int32_t> places(17);
  fill_places(c, places);
  const auto width = static_cast<std::size_t>(c.patch_width());
  for (std::size_t tile = 0; tile < 3; ++tile) {
    make_image_input(c, tiles[tile], alone);
    for (std::size_t token = 0; token < 17; ++token) {
      const auto is = std::span(made).subspan(tile * each + token * width, width);
      const auto was =
          std::span(alone).subspan(static_cast<std::size_t>(places[token]) * width, width);
      EXPECT_TRUE(std::ranges::equal(is, was)) << tile << ' ' << token;
    }
  }
}

TEST(ImageTiles, StandInTheTextBetweenTags) {
  ModelConfig c = cutting(2, 8);
  const std::string folder = MT_TESTDATA "/models/internvl";
  const auto tokenizer = make_tokenizer({.type = "HuggingFaceTokenizer", .model = folder});
  c.image_token_index = 259;
  std::vector<std::int32_t> ids = {7};
  ImageWords(c, *tokenizer).add(ids, 2);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{7, 259, 259, 259, 259, 259, 259, 259, 259}));
  c.image_tag_type = "internvl";
  const ImageWords words(c, *tokenizer);
  EXPECT_EQ(words.count(2), 10);
  ids.clear();
  words.add(ids, 1);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{260, 259, 259, 259, 259, 261}));
  c.image_tag_type = "nvlm";
  try {
    ImageWords(c, *tokenizer).count(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--image-tag-type nvlm: <Image> is no token of the tokenizer's");
  }
}

// The last of an image's tiles has the thumbnail's word, also where it is the only one.
TEST(ImageTiles, StandBehindTheirWords) {
  ModelConfig c = cutting(3, 8);
  const auto tokenizer =
      make_tokenizer({.type = "HuggingFaceTokenizer", .model = MT_TESTDATA "/models/internvl"});
  c.image_token_index = 259;
  c.use_tile_tags = true;
  const auto text = [&](std::int64_t most, std::int64_t tiles) {
    c.max_num_tiles = most;
    const ImageWords words(c, *tokenizer);
    std::vector<std::int32_t> ids;
    words.add(ids, tiles);
    EXPECT_EQ(words.count(tiles), std::ssize(ids));
    std::string shown;
    std::int64_t rows = 0;
    for (const std::int32_t id : ids) {
      if (id != 259) {
        shown += tokenizer->decode({&id, 1});
        continue;
      }
      if (++rows % 4 == 0) shown += "=";
    }
    EXPECT_EQ(rows, 4 * tiles);
    return shown;
  };
  EXPECT_EQ(text(3, 1), "<tile_global_thumbnail>=");
  EXPECT_EQ(text(3, 4), "<tile_1>=<tile_2>=<tile_3>=<tile_global_thumbnail>=");
  EXPECT_EQ(text(9, 2), "<tile_1>=<tile_global_thumbnail>=");
  EXPECT_EQ(text(10, 2), "<tile_01>=<tile_global_thumbnail0>=");
  EXPECT_EQ(text(12, 13),
            "<tile_01>=<tile_02>=<tile_03>=<tile_04>=<tile_05>=<tile_06>=<tile_07>=<tile_08>="
            "<tile_09>=<tile_10>=<tile_11>=<tile_12>=<tile_global_thumbnail0>=");
}

}  // namespace
}  // namespace mt
