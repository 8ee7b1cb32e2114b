#include "train/options/tile_options.h"

#include "base/command.h"
#include "model/config/image_text_config.h"

namespace mt {

void TileOptions::add_to(CommandLine& cl) {
  cl.flag("--pixel-shuffle", &pixel_shuffle,
          "multimodal: four neighbouring patches become one token; the model that is loaded does "
          "so, or not");
  cl.flag("--use-tiling", &use_tiling,
          "multimodal: an image is cut into tiles; default: as the model that is loaded has it");
  cl.option("--max-num-tiles", &max_num_tiles, "N",
            "multimodal: tiles that an image becomes at most; default: the model's, or 1",
            between(1, kMostTiles));
  cl.flag("--use-thumbnail", &use_thumbnail,
          "multimodal: an image of several tiles is there as a whole, too");
  cl.flag("--use-area-weighted-aspect-ratio", &use_area_weighted_aspect_ratio,
          "multimodal: how many pixels the tiles have counts beside their sides' ratio");
  cl.flag("--use-tile-tags", &use_tile_tags,
          "multimodal: in front of each tile stands which it is, <tile_1> to "
          "<tile_global_thumbnail>");
}

void TileOptions::apply(ImageTextConfig& model) const {
  if (pixel_shuffle && !model.pixel_shuffle)
    fail(Exit::bad_config,
         "--pixel-shuffle: the projector of the model that is loaded reads each patch by itself");
  model.use_tiling |= use_tiling;
  model.use_thumbnail |= use_thumbnail;
  model.use_area_weighted_aspect_ratio |= use_area_weighted_aspect_ratio;
  model.use_tile_tags |= use_tile_tags;
  if (max_num_tiles) model.max_num_tiles = *max_num_tiles;
  if (model.cuts_images() || (model.use_tiling && max_num_tiles)) return;
  const char* const lacking =
      model.use_tiling ? "--max-num-tiles: the model that is loaded makes one tile of an image"
                       : "--use-tiling";
  for (const auto& [says, flag] :
       {std::pair{use_tiling, "--use-tiling"},
        {max_num_tiles.value_or(1) > 1, "--max-num-tiles"},
        {use_thumbnail, "--use-thumbnail"},
        {use_area_weighted_aspect_ratio, "--use-area-weighted-aspect-ratio"},
        {use_tile_tags, "--use-tile-tags"}})
    if (says) fail(Exit::usage, flag, ": has no effect without ", lacking);
}

void TileOptions::check_unused(const std::string& run) const {
  for (const auto& [says, flag] :
       {std::pair{pixel_shuffle, "--pixel-shuffle"},
        {use_tiling, "--use-tiling"},
        {max_num_tiles.has_value(), "--max-num-tiles"},
        {use_thumbnail, "--use-thumbnail"},
        {use_area_weighted_aspect_ratio, "--use-area-weighted-aspect-ratio"},
        {use_tile_tags, "--use-tile-tags"}})
    if (says) fail(Exit::usage, flag, ": has no effect with ", run);
}

}  // namespace mt
