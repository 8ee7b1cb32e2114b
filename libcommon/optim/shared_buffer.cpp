#include "optim/shared_buffer.h"

#include <algorithm>
#include <set>
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

Sharers::Sharers(Group& all, const OptimizerOptions& options) : ranks(all) {
  const int instances =
      options.use_distributed_optimizer ? options.distributed_optimizer_instances : ranks.size();
  const int part = ranks.size() / instances, place = ranks.rank() % part;
  numbers = ranks.split(every(ranks.rank() - place, 1, part), Carries::numbers);
  tensors = numbers->split(every(0, 1, part), Carries::tensors);
  copies = ranks.split(every(place, part, instances), Carries::tensors);
}

SharedBuffer::SharedBuffer(ParamTable& table, const std::vector<std::size_t>& rows,
                           const OptimizerOptions& options, const Sharers& sharers, int data_ranks)
    : table_(table),
      options_(options),
      sharers_(sharers),
      number_(table.rows().size(), kNone),
      unwritten_(table.rows().size()) {
  for (const std::size_t row : rows) {
    number_[row] = rows_.size();
    rows_.push_back(&table.rows()[row]);
    counts_.push_back(rows_.back()->stored());
  }
  const bool shares = sharers_.tensors->size() > 1;
  // What a step's end changes elsewhere each rank has whole.
  const bool whole = std::ranges::any_of(rows_, &Param::is_buffer);
  shards_values_ = options.shards_values() && shares && !whole;
  shards_gradients_ = options.shards_gradients() && shares && is_trainable();
  if (distributed() || shards_values_ || (options_.overlap_grad_reduce && is_trainable())) {
    layout_ = make_layout(data_ranks);
    allocate(rows);
  } else {
    const ParamLayout all = table_.one_after_another(rows);
    flat_ = &table_.allocate(rows, all, is_trainable() ? all : ParamLayout());
    layout_.buckets = {{0, all.size}};
  }
  states_.resize(layout_.buckets.size());
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    bucket_of_.push_back(layout_.starts.empty() ? 0 : layout_.bucket_at(layout_.starts[row]));
    ++states_[bucket_of_.back()].rows;
  }
  if (is_trainable()) find_added_to();
}

BufferLayout SharedBuffer::make_layout(int data_ranks) const {
  const int ranks = sharers_.tensors->size();
  std::vector<std::size_t> shared;
  std::int64_t elements = 0;
  std::vector<int> units;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row]->shared) shared.push_back(row);
    elements += counts_[row];
    if (shards_gradients_ || shards_values_) units.push_back(rows_[row]->unit);
  }
  if (options_.name == "muon") return make_whole_layout(counts_, ranks, shared);
  std::optional<std::int64_t> size;
  if (options_.overlap_grad_reduce && units.empty())
    size = options_.ddp_num_buckets   ? elements / *options_.ddp_num_buckets
           : options_.ddp_bucket_size ? *options_.ddp_bucket_size
                                      : default_bucket_size(data_ranks);
  return mt::make_layout({.counts = counts_,
                          .ranks = ranks,
                          .bucket_size = size,
                          .high_bandwidth = options_.ddp_pad_buckets,
                          .shared = shared,
                          .units = units});
}

// Where values or gradients are sharded, the table has the two places at which buckets take turns.
void SharedBuffer::allocate(const std::vector<std::size_t>& rows) {
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
  flat_ = &table_.allocate(rows, shards_values_ ? places : all,
                           !is_trainable()     ? ParamLayout()
                           : shards_gradients_ ? places
                                               : all);
  const std::int64_t kept = layout_.size() / sharers_.tensors->size();
  const auto make = [&](Buffer& storage, const Tensor& like) {
    storage = Buffer(like.device(), static_cast<std::size_t>(kept) * size_of(like.dtype()));
    return storage.tensor(like.dtype(), {kept});
  };
  if (shards_values_) own_values_ = make(value_storage_, flat_->values);
  if (shards_gradients_) own_gradients_ = make(gradient_storage_, flat_->gradients);
  if (distributed() || shards_values_) sharers_.tensors->reach(flat_->values);
  if (!distributed()) return;
  // While sums of a unit's buckets travel the next unit's gradients are computed.  A bucket of more
  // is the only one.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const bool beside = options_.overlap_grad_reduce && std::max(largest[0], largest[1]) <= kMost;
  const std::int64_t at_once = beside ? std::min(kMost, largest_unit()) : 0;
  sharers_.tensors->reach(flat_->gradients,
                          static_cast<std::size_t>(at_once) * size_of(flat_->gradients.dtype()));
}

// Elements of the buckets that a unit's rows are in, where they are most.
std::int64_t SharedBuffer::largest_unit() const {
  std::map<int, std::set<std::size_t>> buckets;
  for (std::size_t row = 0; row < rows_.size(); ++row)
    buckets[rows_[row]->unit].insert(layout_.bucket_at(layout_.starts[row]));
  std::int64_t most = 0;
  for (const auto& [unit, its] : buckets) {
    std::int64_t elements = 0;
    for (const std::size_t i : its) elements += layout_.buckets[i].end - layout_.buckets[i].begin;
    most = std::max(most, elements);
  }
  return most;
}

std::vector<OwnedRange> SharedBuffer::owned(int rank) const {
  std::vector<OwnedRange> ranges;
  if (distributed() || shards_values_) {
    ranges = owned_ranges(layout_, counts_, rank, sharers_.tensors->size());
    for (OwnedRange& range : ranges) range.param = rows_[range.param]->index;
  } else {
    for (std::size_t row = 0; row < rows_.size(); ++row)
      ranges.push_back({rows_[row]->index, 0, counts_[row]});
  }
  return ranges;
}

std::vector<int> SharedBuffer::ranks_that_differ() const {
  if (!distributed()) return {0};
  return mt::ranks_that_differ(layout_, counts_, sharers_.tensors->size());
}

bool SharedBuffer::is_due_in_steps() const {
  return options_.overlap_grad_reduce && sharers_.ranks.size() > 1;
}

// --- What lies where ----------------------------------------------------------------------------

static Tensor bucket_in(const Tensor& buffer, const Bucket& bucket, std::int64_t begin) {
  return buffer.rows(begin, begin + bucket.end - bucket.begin);
}

Tensor SharedBuffer::values_of(std::size_t bucket) const {
  const Bucket& b = layout_.buckets[bucket];
  return bucket_in(flat_->values, b, shards_values_ ? place_of(bucket) : b.begin);
}

Tensor SharedBuffer::gradients_of(std::size_t bucket) const {
  const Bucket& b = layout_.buckets[bucket];
  return bucket_in(flat_->gradients, b, shards_gradients_ ? place_of(bucket) : b.begin);
}

Tensor SharedBuffer::own_slice(const Tensor& whole) const {
  const std::int64_t slice = whole.numel() / sharers_.tensors->size(),
                     begin = sharers_.tensors->rank() * slice;
  return whole.rows(begin, begin + slice);
}

Tensor SharedBuffer::kept_slice(const Tensor& own, std::size_t bucket) const {
  const Bucket& b = layout_.buckets[bucket];
  return own.rows(b.begin / sharers_.tensors->size(), b.end / sharers_.tensors->size());
}

Tensor SharedBuffer::kept_part(const Tensor& own, const OwnedRange& part) const {
  const std::size_t row = number_[part.param], bucket = bucket_of_[row];
  const std::int64_t at = layout_.starts[row] + part.begin;
  const Bucket& b = layout_.buckets[bucket];
  const std::int64_t begin = (at - b.begin) % b.slice(sharers_.tensors->size());
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
    for (const Param* row : rows_) {
      const std::int64_t count = row->local.numel();
      if (bucket_of(*row) != bucket || !row->gradient_replaced || count < kLarge) continue;
      const std::int64_t begin = element_of(row->grad, all);
      replaced.push_back({begin, begin + count});
      state.replaced.push_back(row->index);
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
    state.started = state.kept = false;
    state.missing = state.rows;
  }
  gradients_at_ = {kNone, kNone};
  if (shards_gradients_) return;  // the first sum that is kept replaces what was there
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
  if (!is_trainable() || !options_.overlap_grad_reduce || (!last && !shards_gradients_)) return;
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    if (!has(row)) continue;
    const std::size_t bucket = bucket_of_[number_[row]];
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
  State& state = states_[bucket];
  state.started = true;
  if (!distributed()) {
    state.sum = sharers_.copies->all_reduce(all);
    return;
  }
  const bool replaces = shards_gradients_ && !state.kept;
  state.sum = sharers_.tensors->reduce_scatter(
      replaces ? kept_slice(own_gradients_, bucket) : own_slice(all), all);
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
  if (!std::exchange(state.kept, true)) return;
  const Tensor kept = kept_slice(own_gradients_, bucket);
  add(kept, kept, own_slice(gradients_of(bucket)), stream);
}

void SharedBuffer::reduce(Stream& stream) {
  for (std::size_t i = 0; i < states_.size(); ++i) await_values(i);
  if (!is_trainable()) return;
  if (shards_gradients_) {
    for (std::size_t& there : gradients_at_)
      if (const std::size_t bucket = std::exchange(there, kNone); bucket != kNone)
        keep(bucket, stream);
    for (std::size_t bucket = 0; bucket < states_.size(); ++bucket)
      if (!states_[bucket].kept) set_zero(kept_slice(own_gradients_, bucket), stream);
    return sharers_.copies->all_reduce(own_gradients_).wait();
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].started) start(i);
    states_[i].started = false;
  }
  if (!distributed() || sharers_.copies->size() == 1) return;
  await_sums();
  for (std::size_t i = 0; i < states_.size(); ++i)
    states_[i].sum = sharers_.copies->all_reduce(own_slice(gradients_of(i)));
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

void SharedBuffer::gather_values(std::size_t bucket) {
  const Tensor all = values_of(bucket);
  states_[bucket].values = sharers_.tensors->all_gather(all, own_slice(all));
}

void SharedBuffer::gather(std::size_t turn) {
  if (!distributed()) return;
  if (gathers_by_buckets()) return gather_bucket(states_.size() - 1 - turn);
  if (shards_values_) {
    next_[used_] = kNone;
    return forget_values();
  }
  for (std::size_t i = states_.size(); i-- > 0;) gather_bucket(i);
  for (std::size_t i = 0; i < states_.size(); ++i) await_values(i);
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
  states_[bucket].values =
      sharers_.tensors->all_gather(values_of(bucket), kept_slice(own_values_, bucket));
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
  await_values(bucket);
}

void SharedBuffer::finish() {
  for (std::size_t i = 0; i < states_.size(); ++i) await_values(i);
  if (!std::exchange(is_partial_, false)) return;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].coded.empty()) continue;
    gather_values(i);
    await_values(i);
  }
}

void SharedBuffer::set_values(const std::function<void(const Param&)>& fill, Stream& stream) {
  finish();
  forget_values();
  if (weight_codes_ != nullptr) weight_codes_->forget();
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    fill(*rows_[row]);
    const std::size_t bucket = bucket_of_[row];
    const bool ends = row + 1 == rows_.size() || bucket_of_[row + 1] != bucket;
    if (!shards_values_ || !ends) continue;
    copy(kept_slice(own_values_, bucket), own_slice(values_of(bucket)), stream);
    stream.synchronize();  // before other rows are put at its place
  }
}

void SharedBuffer::read_values(const std::function<void(const Param&)>& read, Stream& stream) {
  finish();
  forget_values();
  stream.synchronize();
  for (const Param* row : rows_) {
    if (shards_values_) {
      bring(bucket_of(*row));
      finish();
      stream.synchronize();
    }
    read(*row);
  }
}

}  // namespace mt
