#include "tensor/param.h"

#include <algorithm>

namespace mt {

static constexpr std::int64_t kAlignment = 64;  // elements

Param& ParamTable::add(Param row) {
  row.index = rows_.size();
  if (row.key.empty()) row.key = row.name;
  if (row.segments.empty()) row.segments = {{"all", row.shape[0], 0, ShardAxis::none}};
  if (row.shape.rank() == 1) row.decay_mult = 0;
  return rows_.emplace_back(std::move(row));
}

Param& ParamTable::at(const std::string& name) {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Param& row) { return row.name == name; });
  if (found == rows_.end()) fail(Exit::internal, name, ": no such parameter");
  return *found;
}

std::int64_t ParamTable::count() const {
  std::int64_t sum = 0;
  for (const Param& row : rows_) sum += row.shape.numel();
  return sum;
}

void ParamTable::allocate(Device device, DType dtype, bool with_gradients) {
  dtype_ = dtype;
  padded_ = 0;
  offsets_.clear();
  for (const Param& row : rows_) {
    offsets_.push_back(padded_);
    padded_ += (row.shape.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  values_ = Buffer(device, static_cast<std::size_t>(padded_) * size_of(dtype));
  gradients_ = Buffer(device, with_gradients ? values_.bytes() : 0);
  for (Param& row : rows_) {
    row.value = companion_of(row, values_);
    row.grad = with_gradients ? companion_of(row, gradients_) : Tensor();
  }
}

Buffer ParamTable::make_companion() const { return {values_.device(), values_.bytes()}; }

Tensor ParamTable::companion_of(const Param& row, const Buffer& companion) const {
  return companion.tensor(dtype_, row.shape,
                          static_cast<std::size_t>(offset(row)) * size_of(dtype_));
}

}  // namespace mt
