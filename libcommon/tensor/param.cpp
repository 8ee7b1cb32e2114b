#include "tensor/param.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mt {

static constexpr std::int64_t kAlignment = 64;  // elements

std::string RowPlace::name() const {
  std::string name(stack);
  const auto append = [&](std::string_view part) {
    if (!part.empty()) name.append(name.empty() ? "" : ".").append(part);
  };
  if (layer) append(concat("layers.", *layer));
  append(inner);
  if (inner_layer) append(concat("layers.", *inner_layer));
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
    const bool divided = segment.axis != ShardAxis::none,
               of_expert = segment.axis == ShardAxis::expert_tp;
    const int ranks = !divided    ? 1
                      : of_expert ? expert_ranks_
                                  : ranks_,
              rank = !divided    ? 0
                     : of_expert ? expert_rank_
                                 : rank_;
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

void ParamTable::freeze(const std::function<bool(const RowPlace&)>& is_frozen) {
  for (Param& row : rows_) {
    row.trainable = !is_frozen(row.place);
    row.state_key_has_layer = false;
    RowPlace other = row.place;
    for (std::int64_t expert = 0; expert < row.experts; ++expert) {
      other.expert = expert;
      if (is_frozen(other) == row.trainable)
        fail(Exit::bad_config, "of ", row.name(), " and ", other.name(),
             " one is frozen: their states have one key");
    }
    for (std::int64_t layer = 0; layer < row.layers; ++layer) {
      other.layer = layer;
      row.state_key_has_layer |= is_frozen(other) == row.trainable;
    }
  }
}

DType ParamTable::dtype_of(const Param& row) const {
  if (row.packed_as != PackedAs::none) return DType::u8;
  return row.dtype && size_of(*row.dtype) > size_of(dtype_) ? *row.dtype : dtype_;
}

std::vector<std::vector<std::size_t>> ParamTable::kinds(bool experts_apart) const {
  std::map<std::tuple<bool, Copies, DType>, std::vector<std::size_t>> kinds;
  for (const Param& row : rows_)
    kinds[{!row.trainable, experts_apart ? row.copies : Copies::dense, dtype_of(row)}].push_back(
        row.index);
  std::vector<std::vector<std::size_t>> all;
  for (auto& [kind, rows] : kinds) all.push_back(std::move(rows));
  return all;
}

ParamLayout ParamTable::one_after_another(std::span<const std::size_t> rows) const {
  ParamLayout layout;
  for (const std::size_t row : rows) {
    layout.starts.push_back(layout.size);
    layout.size += (rows_[row].stored() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return layout;
}

void ParamTable::allocate(Device device, DType dtype, bool with_gradients) {
  begin_allocation(device, dtype);
  for (const std::vector<std::size_t>& rows : kinds(false)) {
    const ParamLayout layout = one_after_another(rows);
    const bool has_gradients = with_gradients && rows_[rows.front()].trainable;
    allocate(rows, layout, has_gradients ? layout : ParamLayout());
  }
}

void ParamTable::begin_allocation(Device device, DType dtype) {
  device_ = device;
  dtype_ = dtype;
  flat_.clear();
  storage_.clear();
}

const FlatRows& ParamTable::allocate(std::vector<std::size_t> rows, const ParamLayout& values,
                                     const ParamLayout& gradients) {
  const DType dtype = dtype_of(rows_[rows.front()]);
  const DType sums =
      dtype == dtype_ ? gradient_dtype_.value_or(sum_dtype(dtype)) : sum_dtype(dtype);
  const auto make = [&](DType of, const ParamLayout& layout) {
    Buffer& buffer =
        storage_.emplace_back(device_, static_cast<std::size_t>(layout.size) * size_of(of));
    return buffer.tensor(of, {layout.size});
  };
  FlatRows& flat = flat_.emplace_back();
  flat.values = make(dtype, values);
  if (!gradients.starts.empty()) flat.gradients = make(sums, gradients);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Param& row = rows_[rows[i]];
    const auto at = [&](const Tensor& all, const ParamLayout& layout) {
      const std::int64_t start = layout.starts[i];
      return all.rows(start, start + row.stored()).reshape(row.stored_shape());
    };
    row.value = at(flat.values, values);
    row.grad = flat.gradients ? at(flat.gradients, gradients) : Tensor();
  }
  flat.rows = std::move(rows);
  return flat;
}

}  // namespace mt
