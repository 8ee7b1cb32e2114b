#include "infer/image_pass.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "image/image.h"
#include "model/config/model_config.h"
#include "model/image_input.h"

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

std::size_t ImagePass::input_size() const {
  const ModelConfig& c = pass_.model().config();
  return static_cast<std::size_t>(c.image_tokens() * c.patch_width());
}

std::shared_ptr<const ImageStates> ImagePass::run(std::span<const Image> images) {
  const auto states = begin(std::ssize(images));
  std::vector<float> input(input_size());
  for (std::int64_t i = 0; i < states->images; ++i) {
    make_image_input(pass_.model().config(), images[static_cast<std::size_t>(i)], input);
    add(*states, i, input);
  }
  return states;
}

std::shared_ptr<ImageStates> ImagePass::begin(std::int64_t images) const {
  const ModelConfig& c = pass_.model().config();
  auto states = std::make_shared<ImageStates>();
  states->images = images;
  const DType dtype = sum_dtype(pass_.model().table().dtype());
  const Shape shape{images * c.image_tokens(), c.hidden_size};
  states->storage = {Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(dtype)};
  states->hidden = states->storage.tensor(dtype, shape);
  return states;
}

void ImagePass::add(ImageStates& states, std::int64_t number, std::span<const float> input) {
  const std::int64_t tokens = pass_.model().config().image_tokens();
  const PassInput in = pass_.input(size());
  const auto places = in.ids.span<std::int32_t>();
  std::iota(places.begin(), places.end(), 0);
  std::ranges::copy(places, in.positions.as<std::int32_t>());
  std::ranges::copy(input, in.pixels.as<float>());
  const ConstTensor made = pass_.on_host(pass_.image_rows());
  std::memcpy(states.hidden.rows(number * tokens, (number + 1) * tokens).data(), made.data(),
              made.bytes());
}

}  // namespace mt
