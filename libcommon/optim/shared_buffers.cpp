#include "optim/shared_buffers.h"

#include <algorithm>

namespace mt {

SharedBuffers::SharedBuffers(ParamTable& table, Device device, DType dtype,
                             const OptimizerOptions& options, const World& world) {
  const bool experts_apart = world.sizes().experts_apart();
  sharers_.emplace_back(world.data_context(), options);
  if (experts_apart) sharers_.emplace_back(world.expert_data(), options);
  if (options.bf16_gradients()) table.keep_gradients_in(DType::bf16);
  table.begin_allocation(device, dtype);
  buffer_of_.resize(table.rows().size());
  for (const std::vector<std::size_t>& rows : table.kinds(experts_apart)) {
    for (const std::size_t row : rows) buffer_of_[row] = buffers_.size();
    buffers_.emplace_back(table, rows, options, sharers(table.rows()[rows.front()].copies),
                          world.data().size());
  }
}

bool SharedBuffers::shard_values() const {
  return std::ranges::any_of(buffers_, &SharedBuffer::shards_values);
}

bool SharedBuffers::shard_gradients() const {
  return std::ranges::any_of(buffers_, &SharedBuffer::shards_gradients);
}

bool SharedBuffers::are_due_in_steps() const {
  return std::ranges::any_of(buffers_, &SharedBuffer::is_due_in_steps);
}

std::size_t SharedBuffers::value_bytes() const {
  std::size_t bytes = 0;
  for (const SharedBuffer& buffer : buffers_) bytes += buffer.value_bytes();
  return bytes;
}

std::size_t SharedBuffers::gradient_bytes() const {
  std::size_t bytes = 0;
  for (const SharedBuffer& buffer : buffers_) bytes += buffer.gradient_bytes();
  return bytes;
}

void SharedBuffers::gather_codes(WeightCodes& codes, Stream& stream) {
  for (SharedBuffer& buffer : buffers_) buffer.gather_codes(codes, codes_.emplace_back(), stream);
}

void SharedBuffers::set_values(const std::function<void(const Param&)>& fill, Stream& stream) {
  for (SharedBuffer& buffer : buffers_) buffer.set_values(fill, stream);
}

void SharedBuffers::read_values(const std::function<void(const Param&)>& read, Stream& stream) {
  for (SharedBuffer& buffer : buffers_) buffer.read_values(read, stream);
}

void SharedBuffers::begin(Stream& stream) {
  for (SharedBuffer& buffer : buffers_) buffer.begin(stream);
}

void SharedBuffers::reduce(Stream& stream) {
  for (SharedBuffer& buffer : buffers_) buffer.reduce(stream);
}

void SharedBuffers::await_sums() {
  for (SharedBuffer& buffer : buffers_) buffer.await_sums();
}

void SharedBuffers::finish() {
  for (SharedBuffer& buffer : buffers_) buffer.finish();
}

void SharedBuffers::complete(RowRange rows, bool last) {
  for (SharedBuffer& buffer : buffers_) buffer.complete(rows, last);
}

}  // namespace mt
