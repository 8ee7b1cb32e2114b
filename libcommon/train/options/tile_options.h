// TileOptions: into how many tiles a run cuts the images of the LLaVA that it loads, in the words
// of Megatron-LM's examples/multimodal (model/image_tiles.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mt {

class CommandLine;
struct ImageTextConfig;

struct TileOptions {
  bool pixel_shuffle = false, use_tiling = false, use_thumbnail = false;
  bool use_area_weighted_aspect_ratio = false, use_tile_tags = false;
  std::optional<std::int64_t> max_num_tiles;

  void add_to(CommandLine& cl);
  // What is given here is the model's from now on.  Exit::bad_config for what it does not do, and
  // Exit::usage for what says something of tiles where there are none.
  void apply(ImageTextConfig& model) const;
  // Exit::usage where one says something that other models have no use for.
  void check_unused(const std::string& run) const;
};

}  // namespace mt
