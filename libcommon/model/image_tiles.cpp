#include "model/image_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "image/orientation.h"
#include "image/resize.h"
#include "model/config/model_config.h"
#include "model/image_input.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

// All grids of at most so many tiles, those of fewer first.
std::vector<TileGrid> grids_to(std::int64_t most) {
  std::vector<TileGrid> grids;
  for (std::int64_t tiles = 1; tiles <= most; ++tiles)
    for (std::int64_t columns = 1; columns <= tiles; ++columns)
      if (tiles % columns == 0) grids.push_back({.columns = columns, .rows = tiles / columns});
  return grids;
}

// An image of so many pixels, of these sides' ratio; a tile has `of_tile` pixels.
struct Fit {
  double ratio, pixels, of_tile;

  double ratio_of(const TileGrid& grid) const {
    return static_cast<double>(grid.columns) / static_cast<double>(grid.rows);
  }
  double pixels_of(const TileGrid& grid) const {
    return of_tile * static_cast<double>(grid.columns * grid.rows);
  }

  TileGrid nearest(const std::vector<TileGrid>& grids) const {
    TileGrid best;
    double least = std::numeric_limits<double>::infinity();
    for (const TileGrid& grid : grids) {
      const double apart = std::abs(ratio - ratio_of(grid));
      if (apart < least || (apart == least && pixels > 0.5 * pixels_of(grid))) best = grid;
      least = std::min(least, apart);
    }
    return best;
  }

  TileGrid nearest_by_area(const std::vector<TileGrid>& grids) const {
    TileGrid best;
    double most = -std::numeric_limits<double>::infinity();
    for (const TileGrid& grid : grids) {
      const double of_grid = ratio_of(grid), covered = std::min(pixels_of(grid) / pixels, 0.6),
                   fit = covered * std::min(of_grid / ratio, ratio / of_grid);
      if (fit > most) best = grid;
      most = std::max(most, fit);
    }
    return best;
  }
};

std::vector<Image> tiles_of(const ModelConfig& c, const Image& image) {
  const TileGrid grid = grid_of(c, {image.width, image.height});
  if (grid.tiles() == 1) return {image};
  const Filter filter = filter_of(c);
  const Image all = resize(image, grid.columns * c.img_w, grid.rows * c.img_h, filter);
  std::vector<Image> tiles;
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t column = 0; column < grid.columns; ++column)
      tiles.push_back(crop(
          all,
          {.left = column * c.img_w, .top = row * c.img_h, .width = c.img_w, .height = c.img_h}));
  if (grid.thumbnail) tiles.push_back(image);
  return tiles;
}

// The patch of a tile that stands at a place: with pixel_shuffle those of two by two neighbours
// follow each other.
std::int64_t patch_at(const ModelConfig& c, std::int64_t place) {
  if (!c.pixel_shuffle) return place;
  const std::int64_t columns = c.img_w / c.patch_dim, group = place / 4, at = place % 4,
                     row = group / (columns / 2), column = group % (columns / 2);
  return (2 * row + at / 2) * columns + 2 * column + at % 2;
}

}  // namespace

TileGrid grid_of(const ModelConfig& c, const ImageSize& size) {
  if (!c.cuts_images()) return {};
  const Fit fit{.ratio = static_cast<double>(size.width) / static_cast<double>(size.height),
                .pixels = static_cast<double>(size.width * size.height),
                .of_tile = static_cast<double>(c.img_w * c.img_h)};
  const std::vector<TileGrid> grids = grids_to(c.max_num_tiles);
  TileGrid best =
      c.use_area_weighted_aspect_ratio ? fit.nearest_by_area(grids) : fit.nearest(grids);
  best.thumbnail = c.use_thumbnail && best.columns * best.rows > 1;
  return best;
}

std::int64_t tiles_in(const ModelConfig& c, const FilePart& file) {
  return c.cuts_images() ? grid_of(c, upright_size(file)).tiles() : 1;
}

std::int64_t tile_input_size(const ModelConfig& c) { return c.image_tokens() * c.patch_width(); }

void make_tile_inputs(const ModelConfig& c, const Image& image, std::span<float> to) {
  const auto each = static_cast<std::size_t>(tile_input_size(c)),
             width = static_cast<std::size_t>(c.patch_width()),
             first = static_cast<std::size_t>(c.class_tokens()) * width;
  std::vector<float> in_rows;
  for (const Image& tile : tiles_of(c, image)) {
    const std::span<float> input = to.first(each);
    to = to.subspan(each);
    make_image_input(c, tile, input);
    if (!c.pixel_shuffle) continue;
    in_rows.assign(input.begin() + static_cast<std::ptrdiff_t>(first), input.end());
    for (std::int64_t place = 0; place < c.patches(); ++place)
      std::ranges::copy(
          std::span(in_rows).subspan(static_cast<std::size_t>(patch_at(c, place)) * width, width),
          input.subspan(first + static_cast<std::size_t>(place) * width).begin());
  }
}

void fill_places(const ModelConfig& c, std::span<std::int32_t> places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t token = static_cast<std::int64_t>(i) % c.image_tokens(),
                       classes = c.class_tokens();
    places[i] =
        static_cast<std::int32_t>(token < classes ? token : classes + patch_at(c, token - classes));
  }
}

std::int64_t rows_of_tile(const ModelConfig& c) {
  return c.pixel_shuffle ? c.patches() / 4 : c.image_tokens();
}

static std::int64_t first_row(const ModelConfig& c) {
  return c.pixel_shuffle ? 0 : first_feature(c);
}

std::int64_t tokens_of_tile(const ModelConfig& c) { return rows_of_tile(c) - first_row(c); }

std::vector<std::int32_t> image_rows(const ModelConfig& c, std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> rows;
  std::int64_t seen = 0;
  const std::int64_t each = tokens_of_tile(c), first = first_row(c);
  for (const std::int32_t id : ids) {
    const bool is_image = id == c.image_token_index;
    rows.push_back(
        is_image ? static_cast<std::int32_t>(seen / each * rows_of_tile(c) + first + seen % each)
                 : -1);
    seen += is_image;
  }
  return rows;
}

void check_places(const Tokenizer& tokenizer, std::int32_t token, std::int64_t places,
                  std::int64_t images) {
  if (places == images) return;
  const std::string word = token < tokenizer.vocab_size()
                               ? tokenizer.decode_text(std::span(&token, 1))
                               : concat("token ", token);
  fail(Exit::bad_data, "the text: expected as many ", word, " as images, found ", places, " and ",
       images);
}

// Around images they are one token each, as their processor has it.
static std::vector<std::int32_t> image_tag(const Tokenizer& tokenizer, const ModelConfig& c,
                                           const char* text) {
  std::vector<std::int32_t> ids;
  encode_alone(tokenizer, text, ids);
  if (ids.size() != 1)
    fail(Exit::bad_config, "--image-tag-type ", c.image_tag_type, ": ", text,
         " is no token of the tokenizer's");
  return ids;
}

// By how many tiles there may be, so that all have as many tokens where a digit is one.
static std::vector<std::vector<std::int32_t>> tile_tags(const ModelConfig& c,
                                                        const Tokenizer& tokenizer) {
  const bool two_digits = c.max_num_tiles >= 10;
  std::vector<std::vector<std::int32_t>> tags;
  const auto add = [&](const std::string& which) {
    encode_alone(tokenizer, concat("<tile_", which, ">"), tags.emplace_back());
  };
  for (std::int64_t tile = 1; tile <= c.max_num_tiles; ++tile)
    add(concat(two_digits && tile < 10 ? "0" : "", tile));
  add(two_digits ? "global_thumbnail0" : "global_thumbnail");
  return tags;
}

ImageWords::ImageWords(const ModelConfig& c, const Tokenizer& tokenizer)
    : token_(static_cast<std::int32_t>(c.image_token_index)), of_tile_(tokens_of_tile(c)) {
  if (c.use_tile_tags) tile_tags_ = tile_tags(c, tokenizer);
  if (c.image_tag_type == "none") return;
  const bool internvl = c.image_tag_type == "internvl";
  before_ = image_tag(tokenizer, c, internvl ? "<img>" : "<Image>");
  behind_ = image_tag(tokenizer, c, internvl ? "</img>" : "</Image>");
}

std::span<const std::int32_t> ImageWords::tile_tag(std::int64_t tile, std::int64_t tiles) const {
  if (tile_tags_.empty()) return {};
  return tile + 1 == tiles ? tile_tags_.back() : tile_tags_.at(static_cast<std::size_t>(tile));
}

std::int64_t ImageWords::count(std::int64_t tiles) const {
  std::int64_t count = tiles * of_tile_ + std::ssize(before_) + std::ssize(behind_);
  for (std::int64_t tile = 0; tile < tiles; ++tile) count += std::ssize(tile_tag(tile, tiles));
  return count;
}

void ImageWords::add(std::vector<std::int32_t>& ids, std::int64_t tiles) const {
  ids.insert(ids.end(), before_.begin(), before_.end());
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::span<const std::int32_t> tag = tile_tag(tile, tiles);
    ids.insert(ids.end(), tag.begin(), tag.end());
    ids.insert(ids.end(), static_cast<std::size_t>(of_tile_), token_);
  }
  ids.insert(ids.end(), behind_.begin(), behind_.end());
}

}  // namespace mt
