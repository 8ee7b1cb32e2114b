#include "optim/shared_buffer.h"

#include <algorithm>

namespace mt {

// The ranks first, first + step, ..., so many.
static std::vector<int> every(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

SharedBuffer::SharedBuffer(ParamTable& table, Device device, DType dtype,
                           const OptimizerOptions& options, const World& world)
    : table_(table), options_(options), ranks_(world.data_context()) {
  const int instances = distributed() ? options.distributed_optimizer_instances : ranks_.size();
  const int part = ranks_.size() / instances, place = ranks_.rank() % part;
  sharers_ = ranks_.split(every(ranks_.rank() - place, 1, part));
  copies_ = ranks_.split(every(place, part, instances));
  for (const Param& row : table_.rows()) counts_.push_back(row.local.numel());
  if (distributed() || options_.overlap_grad_reduce) {
    layout_ = make_layout();
    table_.allocate(device, dtype, true, {layout_.starts, layout_.size()});
  } else {
    table_.allocate(device, dtype, true);
    layout_.buckets = {{0, table_.gradients().numel()}};
  }
  states_.resize(layout_.buckets.size());
  for (std::size_t row = 0; row < counts_.size(); ++row) {
    const auto bucket = std::ranges::find_if(layout_.buckets, [&](const Bucket& b) {
      return layout_.starts.empty() || layout_.starts[row] < b.end;
    });
    bucket_of_.push_back(static_cast<std::size_t>(bucket - layout_.buckets.begin()));
    ++states_[bucket_of_.back()].rows;
  }
}

BufferLayout SharedBuffer::make_layout() const {
  std::optional<std::size_t> shared;
  std::int64_t elements = 0;
  for (const Param& row : table_.rows()) {
    if (row.shared) shared = row.index;
    elements += counts_[row.index];
  }
  if (options_.name == "muon") return make_whole_layout(counts_, sharers_->size(), shared);
  std::optional<std::int64_t> size;
  if (options_.overlap_grad_reduce)
    size = options_.ddp_num_buckets   ? elements / *options_.ddp_num_buckets
           : options_.ddp_bucket_size ? *options_.ddp_bucket_size
                                      : default_bucket_size(ranks_.size());
  return mt::make_layout({.counts = counts_,
                          .ranks = sharers_->size(),
                          .bucket_size = size,
                          .high_bandwidth = options_.ddp_pad_buckets,
                          .shared = shared});
}

std::vector<OwnedRange> SharedBuffer::owned(int rank) const {
  if (distributed()) return owned_ranges(layout_, counts_, rank, sharers_->size());
  std::vector<OwnedRange> whole;
  for (std::size_t row = 0; row < counts_.size(); ++row) whole.push_back({row, 0, counts_[row]});
  return whole;
}

Tensor SharedBuffer::own_slice(const Tensor& buffer, const Bucket& bucket) const {
  const std::int64_t slice = bucket.slice(sharers_->size());
  const std::int64_t begin = bucket.begin + sharers_->rank() * slice;
  return buffer.rows(begin, begin + slice);
}

std::vector<Tensor> SharedBuffer::own_parts(const Tensor& buffer) const {
  if (!distributed()) return {buffer};
  std::vector<Tensor> parts;
  for (const Bucket& bucket : layout_.buckets) parts.push_back(own_slice(buffer, bucket));
  return parts;
}

// --- Gradients ----------------------------------------------------------------------------------

void SharedBuffer::begin() {
  for (State& state : states_) {
    state.sum.wait();  // of a step that was given up
    state.started = false;
    state.missing = state.rows;
  }
}

void SharedBuffer::complete(RowRange rows) {
  if (!options_.overlap_grad_reduce) return;
  for (std::size_t row = rows.begin; row < rows.end; ++row)
    if (--states_[bucket_of_[row]].missing == 0) start(bucket_of_[row]);
}

void SharedBuffer::start(std::size_t bucket) {
  const Bucket& b = layout_.buckets[bucket];
  const Tensor gradients = table_.gradients(), all = gradients.rows(b.begin, b.end);
  states_[bucket].started = true;
  states_[bucket].sum = distributed() ? sharers_->reduce_scatter(own_slice(gradients, b), all)
                                      : ranks_.all_reduce(all);
}

void SharedBuffer::reduce() {
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (!states_[i].started) start(i);
  for (State& state : states_) {
    state.sum.wait();
    state.started = false;
  }
  if (!distributed()) return;
  for (std::size_t i = 0; i < states_.size(); ++i)
    states_[i].sum = copies_->all_reduce(own_slice(table_.gradients(), layout_.buckets[i]));
  for (State& state : states_) state.sum.wait();
}

// --- Values -------------------------------------------------------------------------------------

// The last buckets have the first layers.
void SharedBuffer::gather() {
  if (!distributed()) return;
  const Tensor values = table_.values();
  for (std::size_t i = states_.size(); i-- > 0;) {
    const Bucket& bucket = layout_.buckets[i];
    states_[i].values =
        sharers_->all_gather(values.rows(bucket.begin, bucket.end), own_slice(values, bucket));
  }
  if (!options_.overlap_param_gather) finish();
}

void SharedBuffer::use(const Param& row) { states_[bucket_of_[row.index]].values.wait(); }

void SharedBuffer::finish() {
  for (State& state : states_) state.values.wait();
}

}  // namespace mt
