#include "data/images/crop_samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "image/augment.h"
#include "image/blur.h"
#include "image/color.h"

namespace mt {

// What random numbers are for.
static constexpr std::uint32_t kCrops = 0xC40F5;

static std::int64_t pixels_of(const ImageShape& shape) {
  return shape.tokens() * shape.patch * shape.patch * 3;
}

FieldSpecs crop_fields(const CropShape& s) {
  const auto of_tokens = [](Field field, std::int64_t each) {
    return FieldSpec{.field = field, .per_sample = each, .of_tokens = false};
  };
  const auto real = [](Field field, std::int64_t each) {
    return FieldSpec{.field = field, .dtype = DType::f32, .per_sample = each, .of_tokens = false};
  };
  return {{.field = Field::ids, .per_sample = 2 * s.whole.tokens()},
          real(Field::pixels, 2 * pixels_of(s.whole)),
          of_tokens(Field::local_ids, s.others * s.other.tokens()),
          real(Field::local_pixels, s.others * pixels_of(s.other)),
          real(Field::sharpness, 2),
          real(Field::last_learns, 2 + s.others),
          real(Field::loss_mask, 1)};
}

CropSamples::CropSamples(std::shared_ptr<const ImageTree> tree, const CropShape& shape,
                         std::unique_ptr<const Sampler> order, std::int64_t size, Making making)
    : tree_(std::move(tree)),
      shape_(shape),
      order_(std::move(order)),
      size_(size),
      making_(std::move(making)),
      fields_(crop_fields(shape)) {}

// What kind of part is made: how much of the image it shows, and how often it is changed.
struct CropKind {
  double least, most, blurred, solarised;
};
static constexpr CropKind kFirst{0.4, 1, 1, 0}, kSecond{0.4, 1, 0.1, 0.2},
    kOther{0.05, 0.4, 0.5, 0};

static Image part_of(const Image& image, const ImageShape& shape, const CropKind& kind,
                     Draws& draws) {
  Image part = random_resized_crop(image, shape.width, shape.height, kind.least, kind.most,
                                   Filter::bicubic, draws);
  if (draws.chance(0.5)) part = mirror(part);
  if (draws.chance(0.8))
    jitter(part, {.brightness = 0.4, .contrast = 0.4, .saturation = 0.2, .hue = 0.1}, draws);
  if (draws.chance(0.2)) adjust_saturation(part, 0);
  if (draws.chance(kind.blurred))
    part = gaussian_blur(part, static_cast<float>(draws.between(0.1, 2)));
  constexpr int kMiddle = 128;
  if (kind.solarised > 0 && draws.chance(kind.solarised)) solarize(part, kMiddle);
  return part;
}

// One behind the other: places of tokens, and pixels of these.
static void put(const Image& image, const ImageShape& shape, const Normalization& normalization,
                std::int64_t number, std::span<float> pixels) {
  const auto each = static_cast<std::size_t>(pixels_of(shape)),
             of_classes =
                 static_cast<std::size_t>(shape.class_tokens * shape.patch * shape.patch * 3);
  const auto own = pixels.subspan(static_cast<std::size_t>(number) * each, each);
  std::ranges::fill(own.first(of_classes), 0.F);
  make_patches(image, shape.patch, normalization, own.subspan(of_classes));
}

static void count_places(std::span<std::int32_t> ids, std::int64_t tokens) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(tokens));
}

void CropSamples::get(std::int64_t n, const Fields& to) const {
  const ImageShape &whole = shape_.whole, &other = shape_.other;
  count_places(to.span<std::int32_t>(Field::ids), whole.tokens());
  count_places(to.span<std::int32_t>(Field::local_ids), other.tokens());
  const CropSchedule due = making_.schedule ? making_.schedule(n) : CropSchedule();
  std::ranges::fill(to.span<float>(Field::sharpness),
                    static_cast<float>(1 / due.teacher_temperature));
  std::ranges::fill(to.span<float>(Field::last_learns), due.last_learns ? 1.F : 0.F);
  to.span<float>(Field::loss_mask)[0] = 1;
  const auto pixels = to.span<float>(Field::pixels), local = to.span<float>(Field::local_pixels);
  const Image image = read_image(tree_->image(order_->sample(n).value()));
  if (!making_.learning) {
    std::ranges::fill(pixels, 0.F);
    std::ranges::fill(local, 0.F);
    return put(resize(image, whole.width, whole.height, Filter::bilinear), whole,
               making_.normalization, 0, pixels);
  }
  Draws draws(RandomKey::make(making_.seed, kCrops), static_cast<std::uint64_t>(n));
  put(part_of(image, whole, kFirst, draws), whole, making_.normalization, 0, pixels);
  put(part_of(image, whole, kSecond, draws), whole, making_.normalization, 1, pixels);
  for (std::int64_t i = 0; i < shape_.others; ++i)
    put(part_of(image, other, kOther, draws), other, making_.normalization, i, local);
}

std::vector<std::string> CropSamples::lines(std::int64_t n, const Tokenizer&) const {
  return {concat(tree_->image(order_->sample(n).value()), ", 2 parts and ", shape_.others,
                 " smaller ones")};
}

void CropSamples::write(std::int64_t n, const Tokenizer&, JsonWriter& json) const {
  json.member("image", tree_->image(order_->sample(n).value()));
}

}  // namespace mt
