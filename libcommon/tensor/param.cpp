#include "tensor/param.h"

#include <algorithm>

namespace mt {

static constexpr std::int64_t kAlignment = 64;  // elements

Param& ParamTable::add(Param row) {
  row.index = rows_.size();
  if (row.key.empty()) row.key = row.name;
  if (row.segments.empty()) row.segments = {{"all", row.shape[0], 0, ShardAxis::none}};
  if (row.shape.rank() == 1 || row.name.ends_with(".bias")) row.decay_mult = 0;
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
  for (const Param& row : rows_)
    if (!row.copy) sum += row.shape.numel();
  return sum;
}

void ParamTable::allocate(Device device, DType dtype, bool with_gradients) {
  ParamLayout layout;
  for (const Param& row : rows_) {
    layout.starts.push_back(layout.size);
    layout.size += (row.shape.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  allocate(device, dtype, with_gradients, layout);
}

void ParamTable::allocate(Device device, DType dtype, bool with_gradients,
                          const ParamLayout& layout) {
  dtype_ = dtype;
  size_ = layout.size;
  const auto bytes = [&](DType of) { return static_cast<std::size_t>(size_) * size_of(of); };
  values_ = Buffer(device, bytes(dtype));
  gradients_ = Buffer(device, with_gradients ? bytes(sum_dtype(dtype)) : 0);
  for (Param& row : rows_) {
    const auto at = [&](const Buffer& buffer, DType of) {
      const auto start = static_cast<std::size_t>(layout.starts[row.index]);
      return buffer.tensor(of, row.shape, start * size_of(of));
    };
    row.value = at(values_, dtype);
    row.grad = with_gradients ? at(gradients_, sum_dtype(dtype)) : Tensor();
  }
}

}  // namespace mt
