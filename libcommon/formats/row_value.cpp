#include "formats/row_value.h"

#include <algorithm>

namespace mt {

RowMemory::Place::Place(RowMemory& memory, std::uint64_t bytes) : memory_(memory), bytes_(bytes) {
  std::unique_lock lock(memory.mutex_);
  memory.given_back_.wait(
      lock, [&] { return memory.used_ == 0 || memory.used_ + bytes <= memory.most_; });
  memory.used_ += bytes;
}

RowMemory::Place::~Place() {
  {
    const std::scoped_lock lock(memory_.mutex_);
    memory_.used_ -= bytes_;
  }
  memory_.given_back_.notify_all();
}

void RowMemory::drop_buffers() {
  std::uint64_t all = used_;
  for (const Buffer& buffer : free_) all += buffer.bytes();
  for (; all > most_ && !free_.empty(); free_.pop_back()) all -= free_.back().bytes();
}

void RowMemory::make_room() {
  const std::scoped_lock lock(mutex_);
  drop_buffers();
}

Buffer RowMemory::take_buffer(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  // No larger one, as a Place stands for the row's bytes alone; layers have rows of equal sizes.
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [&](const Buffer& buffer) { return buffer.bytes() == bytes; });
  if (fits == free_.end()) {
    drop_buffers();
    return {Device::cpu, bytes};
  }
  Buffer buffer = std::move(*fits);
  free_.erase(fits);
  return buffer;
}

void RowMemory::give_buffer(Buffer buffer) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(buffer));
}

RowValue::RowValue(const ModelSource& source, const Param& row, const std::string& state,
                   DType dtype, RowMemory& memory)
    : memory_(memory), view_(source.view(row, state)) {
  if (view_ && view_->tensor.dtype() == dtype) {
    memory.make_room();
    tensor_ = view_->tensor;
    return;
  }
  view_.reset();
  copy_ = memory.take_buffer(static_cast<std::size_t>(row.shape.numel()) * size_of(dtype));
  const Tensor tensor = copy_.tensor(dtype, row.shape);
  source.read(row, state, tensor);
  tensor_ = tensor;
}

RowValue::~RowValue() {
  if (view_) view_->forget();
  if (copy_.bytes() > 0) memory_.give_buffer(std::move(copy_));
}

}  // namespace mt
