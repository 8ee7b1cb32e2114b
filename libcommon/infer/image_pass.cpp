#include "infer/image_pass.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "image/image.h"
#include "model/config/model_config.h"
#include "model/image_tiles.h"

namespace mt {

ImagePass::ImagePass(const Model& model, int threads)
    : stream_(model.table().device(), threads), pass_(model, stream_, model.config().vocab_size) {
  pass_.reserve([&](Pass& pass) {
    pass.input(size());
    pass.on_host(pass.image_rows());
  });
}

PassSize ImagePass::size() const {
  const ModelConfig& c = pass_.model().config();
  return {.length = c.image_tokens(), .rows = 0, .pixels = c.patch_width()};
}

std::shared_ptr<const ImageStates> ImagePass::run(std::span<const Image> images) {
  const ModelConfig& c = pass_.model().config();
  std::vector<std::int64_t> tiles;
  for (const Image& image : images)
    tiles.push_back(grid_of(c, {image.width, image.height}).tiles());
  const auto states = begin(std::move(tiles));
  const auto each = static_cast<std::size_t>(tile_input_size(c));
  std::vector<float> inputs;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    inputs.resize(static_cast<std::size_t>(states->tiles[i]) * each);
    make_tile_inputs(c, images[i], inputs);
    for (std::size_t at = 0; at < inputs.size(); at += each)
      add(*states, number++, std::span(inputs).subspan(at, each));
  }
  return states;
}

std::shared_ptr<ImageStates> ImagePass::begin(std::vector<std::int64_t> tiles) const {
  const ModelConfig& c = pass_.model().config();
  auto states = std::make_shared<ImageStates>();
  states->tiles = std::move(tiles);
  const DType dtype = sum_dtype(pass_.model().table().dtype());
  const std::int64_t all =
      std::accumulate(states->tiles.begin(), states->tiles.end(), std::int64_t{0});
  const Shape shape{all * rows_of_tile(c), c.hidden_size};
  states->storage = {Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(dtype)};
  states->hidden = states->storage.tensor(dtype, shape);
  return states;
}

void ImagePass::add(ImageStates& states, std::int64_t number, std::span<const float> input) {
  const ModelConfig& c = pass_.model().config();
  const std::int64_t rows = rows_of_tile(c);
  const PassInput in = pass_.input(size());
  const auto places = in.ids.span<std::int32_t>();
  fill_places(c, places);
  std::ranges::copy(places, in.positions.as<std::int32_t>());
  std::ranges::copy(input, in.pixels.as<float>());
  const ConstTensor made = pass_.on_host(pass_.image_rows());
  std::memcpy(states.hidden.rows(number * rows, (number + 1) * rows).data(), made.data(),
              made.bytes());
}

}  // namespace mt
