#include "data/images/image_samples.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "image/augment.h"

namespace mt {

// What random numbers are for.
static constexpr std::uint32_t kChanges = 0x1A6E5, kMasks = 0x3A5C5;

FieldSpecs image_fields(const ImageShape& s, bool painting) {
  const std::int64_t tokens = s.tokens(), pixels = tokens * s.patch * s.patch * 3;
  const auto real = [](Field field, std::int64_t each) {
    return FieldSpec{.field = field, .dtype = DType::f32, .per_sample = each, .of_tokens = false};
  };
  if (painting)
    return {{.field = Field::ids, .per_sample = tokens},
            real(Field::pixels, pixels),
            real(Field::values, pixels),
            real(Field::loss_mask, tokens)};
  return {{.field = Field::ids, .per_sample = tokens},
          real(Field::pixels, pixels),
          {.field = Field::labels, .per_sample = 1, .of_tokens = false},
          real(Field::loss_mask, 1)};
}

ImageSamples::ImageSamples(std::shared_ptr<const ImageTree> tree, const ImageShape& shape,
                           std::unique_ptr<const Sampler> order, std::int64_t size,
                           const Making& making)
    : tree_(std::move(tree)),
      shape_(shape),
      order_(std::move(order)),
      size_(size),
      making_(making),
      fields_(image_fields(shape, making.mask.has_value())) {}

static Image changed(const Image& image, const ImageShape& shape, Filter filter, std::uint64_t seed,
                     std::int64_t n) {
  Draws draws(RandomKey::make(seed, kChanges), static_cast<std::uint64_t>(n));
  Image made = random_resized_crop(image, shape.width, shape.height, 0.08, 1, filter, draws);
  if (draws.chance(0.5)) made = mirror(made);
  jitter(made, {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}, draws);
  auto_augment(made, draws);
  return made;
}

static Image middle(const Image& image, const ImageShape& shape) {
  const Image resized =
      resize_short_side(image, std::max(shape.width, shape.height), Filter::bilinear);
  return center_crop(resized, shape.width, shape.height);
}

// Whether each patch of the run's image n is to be painted.
static std::vector<bool> painted(const PatchMask& mask, const ImageShape& shape, std::uint64_t seed,
                                 std::int64_t n) {
  const std::int64_t rows = shape.height / shape.patch, columns = shape.width / shape.patch;
  std::vector<bool> painted(static_cast<std::size_t>(rows * columns));
  if (mask.by_rows) {
    const std::int64_t seen = std::max<std::int64_t>(0, rows * columns - mask.steps);
    std::fill(painted.begin() + seen, painted.end(), true);
    return painted;
  }
  static constexpr std::int64_t kSteps[4][2] = {{0, 1}, {0, -1}, {1, 0}, {-1, 0}};
  Draws draws(RandomKey::make(seed, kMasks), static_cast<std::uint64_t>(n));
  std::int64_t row = draws.below(rows), column = draws.below(columns);
  for (std::int64_t i = 0; i < mask.steps; ++i) {
    const auto& [down, right] = kSteps[draws.below(4)];
    row = std::clamp<std::int64_t>(row + down, 0, rows - 1);
    column = std::clamp<std::int64_t>(column + right, 0, columns - 1);
    painted[static_cast<std::size_t>(row * columns + column)] = true;
  }
  return painted;
}

void ImageSamples::mask(std::int64_t n, const Fields& to) const {
  const auto hidden = painted(*making_.mask, shape_, making_.seed, n);
  const auto mask = to.span<float>(Field::loss_mask), pixels = to.span<float>(Field::pixels),
             values = to.span<float>(Field::values);
  const std::size_t width = pixels.size() / mask.size();
  std::ranges::fill(values, 0.F);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = hidden[i] ? 1.F : 0.F;
    if (!hidden[i]) continue;
    const auto patch = pixels.subspan(i * width, width);
    std::ranges::copy(patch, values.subspan(i * width).begin());
    std::ranges::fill(patch, 0.F);
  }
}

void ImageSamples::get(std::int64_t n, const Fields& to) const {
  const std::int64_t k = order_->sample(n).value();
  const auto ids = to.span<std::int32_t>(Field::ids);
  std::iota(ids.begin(), ids.end(), 0);
  if (!making_.mask) {
    to.span<std::int32_t>(Field::labels)[0] = tree_->label(k);
    to.span<float>(Field::loss_mask)[0] = 1;
  }
  const auto pixels = to.span<float>(Field::pixels);
  const auto of_classes =
      static_cast<std::size_t>(shape_.class_tokens * shape_.patch * shape_.patch * 3);
  std::ranges::fill(pixels.first(of_classes), 0.F);
  const Image read = read_image(tree_->image(k));
  const Image made = making_.changing ? changed(read, shape_, making_.filter, making_.seed, n)
                     : making_.mask   ? middle(read, shape_)
                                      : resize(read, shape_.width, shape_.height, making_.filter);
  make_patches(made, shape_.patch, making_.mask ? Normalization() : making_.normalization,
               pixels.subspan(of_classes));
  if (making_.mask) mask(n, to);
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
