#include "optim/shared_buffer.h"

#include <algorithm>
#include <utility>

#include "ops/ops.h"

namespace mt {

std::int64_t element_of(const Tensor& part, const Tensor& whole) {
  return (static_cast<const std::byte*>(part.data()) -
          static_cast<const std::byte*>(whole.data())) /
         static_cast<std::ptrdiff_t>(size_of(whole.dtype()));
}

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
  sharer_numbers_ = ranks_.split(every(ranks_.rank() - place, 1, part), Carries::numbers);
  sharers_ = sharer_numbers_->split(every(0, 1, part), Carries::tensors);
  copies_ = ranks_.split(every(place, part, instances), Carries::tensors);
  shards_values_ = options.shards_values() && sharers_->size() > 1;
  shards_gradients_ = options.shards_gradients() && sharers_->size() > 1;
  for (const Param& row : table_.rows()) counts_.push_back(row.local.numel());
  if (options.bf16_gradients()) table_.keep_gradients_in(DType::bf16);
  if (distributed() || options_.overlap_grad_reduce) {
    layout_ = make_layout(world.data().size());
    allocate(device, dtype);
  } else {
    table_.allocate(device, dtype, true);
    layout_.buckets = {{0, table_.gradients().numel()}};
  }
  states_.resize(layout_.buckets.size());
  for (std::size_t row = 0; row < counts_.size(); ++row) {
    bucket_of_.push_back(layout_.starts.empty() ? 0 : layout_.bucket_at(layout_.starts[row]));
    ++states_[bucket_of_.back()].rows;
  }
  unwritten_.resize(counts_.size());
  find_added_to();
}

BufferLayout SharedBuffer::make_layout(int data_ranks) const {
  std::optional<std::size_t> shared;
  std::int64_t elements = 0;
  std::vector<int> units;
  for (const Param& row : table_.rows()) {
    if (row.shared) shared = row.index;
    elements += counts_[row.index];
    if (shards_gradients_) units.push_back(row.unit);
  }
  if (options_.name == "muon") return make_whole_layout(counts_, sharers_->size(), shared);
  std::optional<std::int64_t> size;
  if (options_.overlap_grad_reduce && !shards_gradients_)
    size = options_.ddp_num_buckets   ? elements / *options_.ddp_num_buckets
           : options_.ddp_bucket_size ? *options_.ddp_bucket_size
                                      : default_bucket_size(data_ranks);
  return mt::make_layout({.counts = counts_,
                          .ranks = sharers_->size(),
                          .bucket_size = size,
                          .high_bandwidth = options_.ddp_pad_buckets,
                          .shared = shared,
                          .units = units});
}

// Where values or gradients are sharded, the table has the two places at which buckets take turns.
void SharedBuffer::allocate(Device device, DType dtype) {
  std::array<std::int64_t, 2> largest{};
  for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {
    const Bucket& bucket = layout_.buckets[i];
    largest[i % 2] = std::max(largest[i % 2], bucket.end - bucket.begin);
  }
  first_place_ = largest[0];
  const ParamLayout all{layout_.starts, layout_.size()};
  ParamLayout places{{}, largest[0] + largest[1]};
  for (const std::int64_t start : layout_.starts) {
    const std::size_t bucket = layout_.bucket_at(start);
    places.starts.push_back(place_of(bucket) + start - layout_.buckets[bucket].begin);
  }
  table_.allocate(device, dtype, shards_values_ ? places : all, shards_gradients_ ? places : all);
  const std::int64_t kept = layout_.size() / sharers_->size();
  const auto make = [&](Buffer& storage, DType of) {
    storage = Buffer(device, static_cast<std::size_t>(kept) * size_of(of));
    return storage.tensor(of, {kept});
  };
  if (shards_values_) own_values_ = make(value_storage_, dtype);
  if (shards_gradients_) own_gradients_ = make(gradient_storage_, table_.gradient_dtype());
  if (!distributed()) return;
  sharers_->reach(table_.values());
  sharers_->reach(table_.gradients());
}

std::vector<OwnedRange> SharedBuffer::owned(int rank) const {
  if (distributed()) return owned_ranges(layout_, counts_, rank, sharers_->size());
  std::vector<OwnedRange> whole;
  for (std::size_t row = 0; row < counts_.size(); ++row) whole.push_back({row, 0, counts_[row]});
  return whole;
}

std::vector<int> SharedBuffer::ranks_that_differ() const {
  if (!distributed()) return {0};
  return mt::ranks_that_differ(layout_, counts_, sharers_->size());
}

bool SharedBuffer::is_due_in_steps() const {
  return options_.overlap_grad_reduce && ranks_.size() > 1;
}

// --- What lies where ----------------------------------------------------------------------------

static Tensor bucket_in(const Tensor& buffer, const Bucket& bucket, std::int64_t begin) {
  return buffer.rows(begin, begin + bucket.end - bucket.begin);
}

Tensor SharedBuffer::values_of(std::size_t bucket) const {
  const Bucket& b = layout_.buckets[bucket];
  return bucket_in(table_.values(), b, shards_values_ ? place_of(bucket) : b.begin);
}

Tensor SharedBuffer::gradients_of(std::size_t bucket) const {
  const Bucket& b = layout_.buckets[bucket];
  return bucket_in(table_.gradients(), b, shards_gradients_ ? place_of(bucket) : b.begin);
}

Tensor SharedBuffer::own_slice(const Tensor& whole) const {
  const std::int64_t slice = whole.numel() / sharers_->size(), begin = sharers_->rank() * slice;
  return whole.rows(begin, begin + slice);
}

Tensor SharedBuffer::kept_slice(const Tensor& own, std::size_t bucket) const {
  const Bucket& b = layout_.buckets[bucket];
  return own.rows(b.begin / sharers_->size(), b.end / sharers_->size());
}

Tensor SharedBuffer::kept_part(const Tensor& own, const OwnedRange& part) const {
  const std::int64_t at = layout_.starts[part.param] + part.begin;
  const std::size_t bucket = bucket_of_[part.param];
  const Bucket& b = layout_.buckets[bucket];
  const std::int64_t begin = (at - b.begin) % b.slice(sharers_->size());
  return kept_slice(own, bucket).rows(begin, begin + part.end - part.begin);
}

static Tensor part_of(const Tensor& row, const OwnedRange& part) {
  return row.reshape({row.numel()}).rows(part.begin, part.end);
}

Tensor SharedBuffer::value(const OwnedRange& part) const {
  return shards_values_ ? kept_part(own_values_, part)
                        : part_of(table_.rows()[part.param].value, part);
}

Tensor SharedBuffer::gradient(const OwnedRange& part) const {
  return shards_gradients_ ? kept_part(own_gradients_, part)
                           : part_of(table_.rows()[part.param].grad, part);
}

std::vector<Tensor> SharedBuffer::own_gradients() const {
  if (shards_gradients_ || !distributed()) return {gradients()};
  std::vector<Tensor> slices;
  for (std::size_t i = 0; i < states_.size(); ++i) slices.push_back(own_slice(gradients_of(i)));
  return slices;
}

// --- Gradients ----------------------------------------------------------------------------------

void SharedBuffer::find_added_to() {
  constexpr std::int64_t kLarge = 1 << 16;
  for (std::size_t bucket = 0; bucket < states_.size(); ++bucket) {
    const Tensor all = gradients_of(bucket);
    State& state = states_[bucket];
    std::vector<std::array<std::int64_t, 2>> replaced;
    for (const Param& row : table_.rows()) {
      if (bucket_of(row) != bucket || !row.gradient_replaced || !row.trainable ||
          counts_[row.index] < kLarge)
        continue;
      const std::int64_t begin = element_of(row.grad, all);
      replaced.push_back({begin, begin + counts_[row.index]});
      state.replaced.push_back(row.index);
    }
    std::ranges::sort(replaced);
    replaced.push_back({all.numel(), 0});
    std::int64_t at = 0;
    for (const auto& [begin, end] : replaced) {
      if (begin > at) state.added_to.push_back({at, begin});
      at = end;
    }
  }
}

void SharedBuffer::zero_added_to(std::size_t bucket, Stream& stream) {
  for (const auto& [begin, end] : states_[bucket].added_to)
    set_zero(gradients_of(bucket).rows(begin, end), stream);
}

void SharedBuffer::begin(Stream& stream) {
  for (State& state : states_) {
    state.sum.wait();  // of a step that was given up
    state.started = false;
    state.missing = state.rows;
  }
  gradients_at_ = {kNone, kNone};
  if (shards_gradients_) return set_zero(own_gradients_, stream);
  for (std::size_t bucket = 0; bucket < states_.size(); ++bucket) zero_added_to(bucket, stream);
}

bool SharedBuffer::add_to(const Param& row, Stream& stream) {
  if (!shards_gradients_) return false;
  const std::size_t bucket = bucket_of(row);
  std::size_t& there = gradients_at_[bucket % 2];
  if (there != bucket || states_[bucket].started) {
    if (there != kNone) keep(there, stream);
    there = bucket;
    zero_added_to(bucket, stream);
    for (const std::size_t replaced : states_[bucket].replaced) unwritten_[replaced] = true;
  }
  const bool replaces = unwritten_[row.index];
  unwritten_[row.index] = false;
  return replaces;
}

void SharedBuffer::complete(RowRange rows, bool last) {
  if (!options_.overlap_grad_reduce || (!last && !shards_gradients_)) return;
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    const std::size_t bucket = bucket_of_[row];
    if (shards_gradients_ ? is_written(bucket) : --states_[bucket].missing == 0) start(bucket);
  }
}

// Whether it lies at its place, whole; keep() makes zeros of what is not.
bool SharedBuffer::is_written(std::size_t bucket) const {
  const State& state = states_[bucket];
  return gradients_at_[bucket % 2] == bucket && !state.started &&
         std::ranges::none_of(state.replaced, [&](std::size_t row) { return unwritten_[row]; });
}

void SharedBuffer::start(std::size_t bucket) {
  const Tensor all = gradients_of(bucket);
  states_[bucket].started = true;
  states_[bucket].sum =
      distributed() ? sharers_->reduce_scatter(own_slice(all), all) : copies_->all_reduce(all);
}

// Adds this rank's slice of a bucket's sum to what it has.
void SharedBuffer::keep(std::size_t bucket, Stream& stream) {
  State& state = states_[bucket];
  if (!state.started) {
    for (const std::size_t row : state.replaced)
      if (unwritten_[row]) set_zero(table_.rows()[row].grad, stream);
    start(bucket);
  }
  state.sum.wait();
  state.started = false;
  const Tensor kept = kept_slice(own_gradients_, bucket);
  add(kept, kept, own_slice(gradients_of(bucket)), stream);
}

void SharedBuffer::reduce(Stream& stream) {
  finish();
  if (shards_gradients_) {
    for (std::size_t& there : gradients_at_)
      if (const std::size_t bucket = std::exchange(there, kNone); bucket != kNone)
        keep(bucket, stream);
    return copies_->all_reduce(own_gradients_).wait();
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].started) start(i);
    states_[i].started = false;
  }
  if (!distributed() || copies_->size() == 1) return;
  await_sums();
  for (std::size_t i = 0; i < states_.size(); ++i)
    states_[i].sum = copies_->all_reduce(own_slice(gradients_of(i)));
}

void SharedBuffer::await_sum(std::size_t part) {
  if (!distributed() || shards_gradients_) return await_sums();
  states_[part].sum.wait();
}

void SharedBuffer::await_sums() {
  for (State& state : states_) state.sum.wait();
}

// --- Values -------------------------------------------------------------------------------------

// The last buckets have the first layers.
std::size_t SharedBuffer::turn_of(const Param& row) const {
  return gathers_by_buckets() ? states_.size() - 1 - bucket_of(row) : 0;
}

void SharedBuffer::gather_bucket(std::size_t bucket) {
  const Tensor all = values_of(bucket);
  states_[bucket].values = sharers_->all_gather(all, own_slice(all));
}

void SharedBuffer::gather(std::size_t turn) {
  if (!distributed()) return;
  if (gathers_by_buckets()) return gather_bucket(states_.size() - 1 - turn);
  if (shards_values_) {
    next_[used_] = kNone;
    return forget_values();
  }
  for (std::size_t i = states_.size(); i-- > 0;) gather_bucket(i);
  finish();
}

// What lies at the two places; nothing is under way.
void SharedBuffer::forget_values() {
  values_at_ = {kNone, kNone};
  used_ = {kNone, kNone};
}

void SharedBuffer::bring(std::size_t bucket) {
  std::size_t& there = values_at_[bucket % 2];
  if (there == bucket) return;
  if (there != kNone) states_[there].values.wait();
  there = bucket;
  states_[bucket].values = sharers_->all_gather(values_of(bucket), kept_slice(own_values_, bucket));
}

void SharedBuffer::use(const Param& row) {
  const std::size_t bucket = bucket_of(row);
  if (shards_values_ && bucket != used_[1]) {
    next_[used_] = bucket;
    used_ = {used_[1], bucket};
    bring(bucket);
    const auto next = next_.find(used_);
    if (next != next_.end() && next->second != kNone && next->second % 2 != bucket % 2)
      bring(next->second);
  }
  states_[bucket].values.wait();
}

void SharedBuffer::finish() {
  for (State& state : states_) state.values.wait();
}

void SharedBuffer::set_values(const std::function<void(const Param&)>& fill, Stream& stream) {
  finish();
  forget_values();
  for (const Param& row : table_.rows()) {
    fill(row);
    const bool ends =
        row.index + 1 == bucket_of_.size() || bucket_of_[row.index + 1] != bucket_of_[row.index];
    if (!shards_values_ || !ends) continue;
    const std::size_t bucket = bucket_of(row);
    copy(kept_slice(own_values_, bucket), own_slice(values_of(bucket)), stream);
    stream.synchronize();  // before other rows are put at its place
  }
}

void SharedBuffer::read_values(const std::function<void(const Param&)>& read, Stream& stream) {
  finish();
  forget_values();
  stream.synchronize();
  for (const Param& row : table_.rows()) {
    if (shards_values_) {
      bring(bucket_of(row));
      finish();
      stream.synchronize();
    }
    read(row);
  }
}

}  // namespace mt
