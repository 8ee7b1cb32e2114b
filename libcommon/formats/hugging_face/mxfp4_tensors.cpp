#include "formats/hugging_face/mxfp4_tensors.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ckpt/torch_file.h"

namespace mt {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr std::int64_t kBlock = 32;
constexpr float kNumbers[] = {0, .5F, 1, 1.5F, 2, 3, 4, 6};

std::string behind(std::string_view name, std::string_view ending) {
  return std::string(name) + std::string(ending);
}

float number_of(unsigned bits, int exponent) {
  const float number = std::ldexp(kNumbers[bits & 7], exponent);
  return (bits & 8) != 0 ? -number : number;
}

}  // namespace

bool Mxfp4Tensors::are_in(const TensorSource& stored) {
  for (const auto& [key, tensor] : stored.tensors())
    if (key.ends_with(kBlocks) && tensor.dtype == DType::u8) return true;
  return false;
}

Mxfp4Tensors::Mxfp4Tensors(std::unique_ptr<TensorSource> stored) : stored_(std::move(stored)) {
  tensors_ = stored_->tensors();
  for (const auto& [key, blocks] : stored_->tensors()) {
    if (!key.ends_with(kBlocks) || blocks.dtype != DType::u8) continue;
    const std::string name = key.substr(0, key.size() - kBlocks.size());
    const std::string of_scales = behind(name, kScales);
    const DistTensor& scales = stored_->at(of_scales);
    const Shape& shape = blocks.shape;
    if (shape.rank() != 4 || shape[3] != kBlock / 2)
      fail(Exit::bad_data, path(), ": tensor ", key, " is ", shape,
           ", expected [experts, out, in / 32, 16]");
    const Shape expected{shape[0], shape[1], shape[2]};
    if (scales.dtype != DType::u8 || !(scales.shape == expected))
      fail(Exit::bad_data, path(), ": tensor ", of_scales, " is ", scales.dtype_name, " ",
           scales.shape, ", expected uint8 ", expected);
    tensors_.erase(key);
    tensors_.erase(of_scales);
    const bool is_new =
        tensors_
            .emplace(name, DistTensor{.key = name,
                                      .dtype = DType::bf16,
                                      .dtype_name = std::string(name_of(DType::bf16)),
                                      .shape = {shape[0], shape[2] * kBlock, shape[1]},
                                      .chunks = blocks.chunks})
            .second;
    if (!is_new) fail(Exit::bad_data, path(), ": has ", name, " and ", key);
  }
}

// Numbers are made an expert at a time; its blocks have its matrix transposed.
void Mxfp4Tensors::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  if (!is_packed(key)) return stored_->read_original(key, offset, out);
  const DistTensor& tensor = readable(key, offset, out);
  const std::int64_t in = tensor.shape[1], columns = tensor.shape[2], groups = in / kBlock;
  const std::int64_t rows = out.shape()[1], width = out.shape()[2];
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(columns * in / 2)),
      scales(static_cast<std::size_t>(columns * groups));
  std::vector<float> made(static_cast<std::size_t>(rows * width));
  for (std::int64_t expert = 0; expert < out.shape()[0]; ++expert) {
    const std::int64_t from = offset[0] + expert;
    stored_->read_original(behind(key, kBlocks), {from, 0, 0, 0},
                           {blocks.data(), DType::u8, {1, columns, groups, kBlock / 2}});
    stored_->read_original(behind(key, kScales), {from, 0, 0},
                           {scales.data(), DType::u8, {1, columns, groups}});
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t at = offset[1] + r, column = offset[2] + c;
        const auto i = static_cast<std::size_t>(column * in + at);
        const unsigned bits = blocks[i / 2] >> (i % 2 * 4) & 15U;
        made[static_cast<std::size_t>(r * width + c)] =
            number_of(bits, scales[i / static_cast<std::size_t>(kBlock)] - 127);
      }
    const Shape one{1, rows, width};
    dense(DType::f32, one, {reinterpret_cast<const std::byte*>(made.data()), made.size() * 4})
        .copy_to({0, 0, 0}, out.rows(expert, expert + 1));
  }
}

std::optional<MappedTensor> Mxfp4Tensors::view(const std::string& key, const Shape& offset,
                                               const Shape& shape) const {
  if (is_packed(key)) return {};
  return stored_->view(key, offset, shape);
}

}  // namespace mt
