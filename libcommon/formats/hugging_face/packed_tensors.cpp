#include "formats/hugging_face/packed_tensors.h"

#include <algorithm>

#include "base/error.h"
#include "ckpt/tensor_numbers.h"
#include "ckpt/torch_file.h"
#include "tensor/buffer.h"

namespace mt {

PackedTensors::PackedTensors(std::unique_ptr<TensorSource> stored, DType dtype,
                             const std::vector<PackedWeight>& weights,
                             const std::vector<std::string>& others)
    : stored_(std::move(stored)), tensors_(stored_->tensors()) {
  for (const std::string& other : others) tensors_.erase(other);
  for (const PackedWeight& weight : weights)
    for (const std::string& part : weight.parts) tensors_.erase(part);
  for (const PackedWeight& weight : weights) {
    DistTensor tensor{.key = weight.name,
                      .dtype = dtype,
                      .dtype_name = std::string(name_of(dtype)),
                      .shape = weight.shape,
                      .chunks = stored_->at(weight.parts.front()).chunks};
    if (!tensors_.emplace(weight.name, std::move(tensor)).second)
      fail(Exit::bad_data, path(), ": has ", weight.name, " and ", weight.parts.front());
    weights_.emplace(weight.name, weight);
  }
}

void PackedTensors::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  const auto found = weights_.find(key);
  if (found == weights_.end()) return stored_->read_original(key, offset, out);
  constexpr std::int64_t kAtATime = 1 << 20;
  const DistTensor& tensor = readable(key, offset, out);
  if (out.numel() == 0) return;
  const std::int64_t count = out.shape()[0], size = tensor.shape.numel() / tensor.shape[0];
  const std::int64_t some = std::clamp<std::int64_t>(kAtATime / size, 1, count);
  std::vector<float> made(static_cast<std::size_t>(some * size));
  const Buffer buffer(Device::cpu, made.size() * size_of(*tensor.dtype));
  for (std::int64_t begin = 0; begin < count; begin += some) {
    const std::int64_t end = std::min(begin + some, count);
    std::vector<std::int64_t> extents(tensor.shape.extents().begin(), tensor.shape.extents().end());
    extents[0] = end - begin;
    const Shape shape{std::span<const std::int64_t>(extents)};
    const std::span<float> here(made.data(), static_cast<std::size_t>((end - begin) * size));
    found->second.unpack(offset[0] + begin, offset[0] + end, here);
    const Tensor rounded = buffer.tensor(*tensor.dtype, shape);
    dense(DType::f32, shape, std::as_bytes(here)).copy_to(origin_of(shape.rank()), rounded);
    std::vector<std::int64_t> from(offset.extents().begin(), offset.extents().end());
    from[0] = 0;
    dense(*tensor.dtype, shape, {static_cast<const std::byte*>(rounded.data()), rounded.bytes()})
        .copy_to(Shape{std::span<const std::int64_t>(from)}, out.rows(begin, end));
  }
}

const PackedWeight* PackedTensors::find_packed(const std::string& key) const {
  const auto found = weights_.find(key);
  return found == weights_.end() ? nullptr : &found->second;
}

std::optional<MappedTensor> PackedTensors::view(const std::string& key, const Shape& offset,
                                                const Shape& shape) const {
  if (weights_.contains(key)) return {};
  return stored_->view(key, offset, shape);
}

template <class T>
std::vector<T> stored_block(const TensorSource& stored, const std::string& key, DType dtype,
                            const Shape& offset, const Shape& shape) {
  const DistTensor& tensor = stored.at(key);
  if (tensor.dtype != dtype)
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", tensor.dtype_name, ", expected ",
         name_of(dtype));
  std::vector<T> block(static_cast<std::size_t>(shape.numel()));
  stored.read_original(key, offset, {block.data(), dtype, shape});
  return block;
}
template std::vector<std::int8_t> stored_block(const TensorSource&, const std::string&, DType,
                                               const Shape&, const Shape&);
template std::vector<std::uint8_t> stored_block(const TensorSource&, const std::string&, DType,
                                                const Shape&, const Shape&);
template std::vector<std::int32_t> stored_block(const TensorSource&, const std::string&, DType,
                                                const Shape&, const Shape&);
template std::vector<std::int64_t> stored_block(const TensorSource&, const std::string&, DType,
                                                const Shape&, const Shape&);

void expect_floats(const TensorSource& stored, const std::string& key) {
  const DistTensor& tensor = stored.at(key);
  if (!tensor.dtype || (!is_float(*tensor.dtype) && *tensor.dtype != DType::f8))
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", tensor.dtype_name,
         ", expected a floating-point type");
}

void expect_shape(const TensorSource& stored, const std::string& key, const Shape& shape) {
  const Shape& found = stored.at(key).shape;
  if (!(found == shape))
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", found, ", expected ", shape);
}

std::vector<float> stored_floats(const TensorSource& stored, const std::string& key,
                                 const Shape& offset, const Shape& shape) {
  const DistTensor& tensor = stored.at(key);
  if (!tensor.dtype)
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", tensor.dtype_name,
         ", whose numbers are not read");
  const DType dtype = *tensor.dtype;
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(dtype));
  const Tensor block = buffer.tensor(dtype, shape);
  stored.read_original(key, offset, block);
  std::vector<double> numbers;
  to_doubles(block, numbers);
  return {numbers.begin(), numbers.end()};
}

}  // namespace mt
