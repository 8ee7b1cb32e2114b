#include "tensor/param.h"

#include <algorithm>

namespace mt {

static constexpr std::int64_t kAlignment = 64;  // elements

std::string RowPlace::name() const {
  std::string name(stack);
  const auto append = [&](std::string_view part) {
    if (!part.empty()) name.append(name.empty() ? "" : ".").append(part);
  };
  if (layer) append(concat("layers.", *layer));
  if (expert) append(concat("mlp.experts.local_experts.", *expert));
  append(module);
  append(param);
  return name;
}

Param& ParamTable::add(Param row) {
  row.index = rows_.size();
  row.unit = unit_;
  if (row.segments.empty()) row.segments = {{"all", row.shape[0], 0, ShardAxis::none}};
  if (row.shape.rank() == 1 || row.place.param == "bias") row.decay_mult = 0;
  cut(row);
  return rows_.emplace_back(std::move(row));
}

// Every tensor-parallel segment gives each rank an equal part, cut at multiples of its granularity.
void ParamTable::cut(Param& row) const {
  std::int64_t local = 0, global = 0;
  for (const Segment& segment : row.segments) {
    const bool divided = segment.axis == ShardAxis::tp;
    const int ranks = divided ? ranks_ : 1, rank = divided ? rank_ : 0;
    if (segment.extent / segment.granularity % ranks != 0)
      fail(Exit::bad_config, row.name(), ": ", segment.extent / segment.granularity, " parts of ",
           segment.name, " cannot be divided among ", ranks, " tensor-parallel ranks");
    const std::int64_t extent = segment.extent / ranks;
    if (divided) row.dimension = segment.dimension;
    row.cuts.push_back({.local = local, .global = global + rank * extent, .extent = extent});
    local += extent;
    global += segment.extent;
  }
  std::vector<std::int64_t> extents(row.shape.extents().begin(), row.shape.extents().end());
  extents[static_cast<std::size_t>(row.dimension)] = local;
  row.local = Shape(extents);
  if (!row.is_cut()) row.cuts = {{.extent = local}};
}

std::vector<ElementRun> Param::runs() const {
  if (!is_cut()) return {{.count = shape.numel()}};
  std::vector<ElementRun> runs;
  std::int64_t after = 1, before = 1;  // elements of an index of the axis, indices of those before
  for (int axis = 0; axis < shape.rank(); ++axis)
    (axis < dimension ? before : after) *= axis == dimension ? 1 : shape[axis];
  for (std::int64_t i = 0; i < before; ++i)
    for (const Cut& cut : cuts)
      runs.push_back({.local = (i * local[dimension] + cut.local) * after,
                      .global = (i * shape[dimension] + cut.global) * after,
                      .count = cut.extent * after});
  return runs;
}

Param& ParamTable::at(const std::string& name) {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const Param& row) { return row.name() == name; });
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
    layout.size += (row.local.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  allocate(device, dtype, layout, with_gradients ? layout : ParamLayout());
}

void ParamTable::allocate(Device device, DType dtype, const ParamLayout& values,
                          const ParamLayout& gradients) {
  dtype_ = dtype;
  value_count_ = values.size;
  gradient_count_ = gradients.size;
  const DType sums = gradient_dtype();
  values_ = Buffer(device, static_cast<std::size_t>(values.size) * size_of(dtype));
  gradients_ = Buffer(device, static_cast<std::size_t>(gradients.size) * size_of(sums));
  for (Param& row : rows_) {
    const auto at = [&](const Buffer& buffer, DType of, const ParamLayout& layout) {
      const auto start = static_cast<std::size_t>(layout.starts[row.index]);
      return buffer.tensor(of, row.local, start * size_of(of));
    };
    row.value = at(values_, dtype, values);
    row.grad = gradients.starts.empty() ? Tensor() : at(gradients_, sums, gradients);
  }
}

}  // namespace mt
