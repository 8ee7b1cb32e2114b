#include "data/images/image_samples.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "image/augment.h"
#include "image/patches.h"

namespace mt {

static constexpr std::uint32_t kChanges = 0x1A6E5;  // what random numbers are for

FieldSpecs image_fields(const ImageShape& s) {
  const std::int64_t tokens = s.tokens();
  return {{.field = Field::ids, .per_sample = tokens},
          {.field = Field::pixels,
           .dtype = DType::f32,
           .per_sample = tokens * s.patch * s.patch * 3,
           .of_tokens = false},
          {.field = Field::labels, .per_sample = 1, .of_tokens = false},
          {.field = Field::loss_mask, .dtype = DType::f32, .per_sample = 1, .of_tokens = false}};
}

ImageSamples::ImageSamples(std::shared_ptr<const ImageTree> tree, const ImageShape& shape,
                           std::unique_ptr<const Sampler> order, std::int64_t size,
                           std::optional<std::uint64_t> changing)
    : tree_(std::move(tree)),
      shape_(shape),
      order_(std::move(order)),
      size_(size),
      changing_(changing),
      fields_(image_fields(shape)) {}

static Image changed(const Image& image, const ImageShape& shape, std::uint64_t seed,
                     std::int64_t n) {
  Draws draws(RandomKey::make(seed, kChanges), static_cast<std::uint64_t>(n));
  Image made =
      random_resized_crop(image, shape.width, shape.height, 0.08, 1, Filter::bilinear, draws);
  if (draws.chance(0.5)) made = mirror(made);
  jitter(made, {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}, draws);
  auto_augment(made, draws);
  return made;
}

void ImageSamples::get(std::int64_t n, const Fields& to) const {
  const std::int64_t k = order_->sample(n).value();
  const auto ids = to.span<std::int32_t>(Field::ids);
  std::iota(ids.begin(), ids.end(), 0);
  to.span<std::int32_t>(Field::labels)[0] = tree_->label(k);
  to.span<float>(Field::loss_mask)[0] = 1;
  const auto pixels = to.span<float>(Field::pixels);
  const auto of_classes =
      static_cast<std::size_t>(shape_.class_tokens * shape_.patch * shape_.patch * 3);
  std::ranges::fill(pixels.first(of_classes), 0.F);
  const Image read = read_image(tree_->image(k));
  make_patches(changing_ ? changed(read, shape_, *changing_, n)
                         : resize(read, shape_.width, shape_.height, Filter::bilinear),
               shape_.patch, kImageNet, pixels.subspan(of_classes));
}

std::vector<std::string> ImageSamples::lines(std::int64_t n, const Tokenizer&) const {
  const std::int64_t k = order_->sample(n).value();
  return {concat(tree_->image(k), ", class ", tree_->label(k), ' ',
                 tree_->classes()[static_cast<std::size_t>(tree_->label(k))])};
}

void ImageSamples::write(std::int64_t n, const Tokenizer&, JsonWriter& json) const {
  const std::int64_t k = order_->sample(n).value();
  json.member("image", tree_->image(k));
  json.member("label", tree_->label(k));
}

}  // namespace mt
