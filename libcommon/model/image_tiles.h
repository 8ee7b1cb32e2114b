// What an image becomes before a LLaVA reads it: tiles, each as large as the images that its tower
// reads; and what stands for them in a text.  Whoever reads images, trains on them or counts their
// tokens asks here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file_part.h"
#include "image/image.h"

namespace mt {

class Tokenizer;
struct ModelConfig;

// TileGrid: how an image is cut.
struct TileGrid {
  std::int64_t columns = 1, rows = 1;
  bool thumbnail = false;  // the whole of it follows, as one more

  std::int64_t tiles() const { return columns * rows + (thumbnail ? 1 : 0); }
};

// Returns, of all grids of at most max_num_tiles, those of fewer first, the one whose columns over
// rows are nearest to width over height; of equally near ones a later one where the image has more
// than half as many pixels as its tiles (InternVL's dynamic_preprocess; Megatron-LM core_v0.12.1,
// examples/multimodal/image_processing.py).  With use_area_weighted_aspect_ratio the first one with
// the largest  min(0.6, tiles' pixels / image's) min(r, 1 / r),  r = columns / rows over
// width / height.  Of grids of as many tiles narrower ones come first, which matters to the latter
// alone, where two of them fit alike but for rounding.
TileGrid grid_of(const ModelConfig& llava, const ImageSize& size);
// How many tiles the image in a file becomes, of which only the header is read, and that only where
// images are cut.
std::int64_t tiles_in(const ModelConfig& llava, const FilePart& file);

// The numbers that the tower reads of a tile: [image_tokens(), patch_width()], zeroes for tokens of
// classes, and patches (image/patches.h).
std::int64_t tile_input_size(const ModelConfig& llava);

// to: [tiles of grid_of(), tile_input_size()]: the tiles, row by row, of the image in the grid's
// size, and its thumbnail; normalised as the settings say.  With pixel_shuffle patches of a tile
// come by fours, so that what becomes one row stands together.
void make_tile_inputs(const ModelConfig& llava, const Image& image, std::span<float> to);

// Writes for each token of some tiles which place it has in the image of a tower.
void fill_places(const ModelConfig& llava, std::span<std::int32_t> places);

// The rows of the language model's width that are made of a tile, and how many of them stand in a
// text: all, but for those of tokens of classes that are passed over.
std::int64_t rows_of_tile(const ModelConfig& llava);
std::int64_t tokens_of_tile(const ModelConfig& llava);

// For each token of a text the row of its images' tiles that stands there, or -1: those of the
// first image, then those of the second, wherever the image's token is.
std::vector<std::int32_t> image_rows(const ModelConfig& llava, std::span<const std::int32_t> ids);

// Exit::bad_data, with the word that stands for an image, where a text has other places for images
// than there are.
void check_places(const Tokenizer& tokenizer, std::int32_t token, std::int64_t places,
                  std::int64_t images);

// ImageWords: the tokens of a text that an image takes: its own token as often as rows of it stand
// there, between the two of image_tag_type.  With use_tile_tags those of a tile follow its word's:
// the last tile's is <tile_global_thumbnail>, the others' are <tile_1>, <tile_2>, ..., and of ten
// tiles and more at most <tile_global_thumbnail0>, <tile_01>, ... (Megatron-LM core_v0.12.1,
// examples/multimodal/model.py; NVLM, Dai et al.: arXiv:2409.11402).
class ImageWords {
 public:
  // Exit::bad_config where the tags are no tokens of the tokenizer's.
  ImageWords(const ModelConfig& llava, const Tokenizer& tokenizer);

  std::int32_t token() const { return token_; }  // of an image
  std::int64_t count(std::int64_t tiles) const;  // of tokens
  void add(std::vector<std::int32_t>& ids, std::int64_t tiles) const;

 private:
  std::span<const std::int32_t> tile_tag(std::int64_t tile, std::int64_t tiles) const;

  std::int32_t token_;
  std::int64_t of_tile_;
  std::vector<std::int32_t> before_, behind_;
  std::vector<std::vector<std::int32_t>> tile_tags_;  // the last is a thumbnail's; or none
};

}  // namespace mt
