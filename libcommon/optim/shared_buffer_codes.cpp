// What of SharedBuffer gathers codes of weights instead of their values, and awaits either.
#include <algorithm>
#include <utility>

#include "ops/ops.h"
#include "optim/shared_buffer.h"

namespace mt {

void SharedBuffer::gather_bucket(std::size_t bucket) {
  State& state = states_[bucket];
  if (state.coded.empty()) return gather_values(bucket);
  is_partial_ = true;
  weight_codes_->cast(state.coded, state.parts, *sharers_.tensors, *stream_);
  const Bucket& b = layout_.buckets[bucket];
  const Tensor codes = codes_.rows(b.begin, b.end);
  state.values = sharers_.tensors->all_gather(codes, own_slice(codes));
  const Tensor values = values_of(bucket);
  for (int rank = 0; rank < sharers_.tensors->size(); ++rank)
    for (const auto& [begin, end] : state.large[static_cast<std::size_t>(rank)])
      state.sent.push_back(sharers_.tensors->broadcast(values.rows(begin, end), rank));
  if (state.most == 0) return;
  const Tensor own = own_slice(state.packed);
  std::int64_t at = 0;
  for (const auto& [begin, end] :
       state.others[static_cast<std::size_t>(sharers_.tensors->rank())]) {
    copy(own.rows(at, at + end - begin), values.rows(begin, end), *stream_);
    at += end - begin;
  }
  state.sent.push_back(sharers_.tensors->all_gather(state.packed, own));
  state.unpacks = true;
}

void SharedBuffer::await_values(std::size_t bucket) {
  State& state = states_[bucket];
  state.values.wait();
  for (Pending& sent : state.sent) sent.wait();
  state.sent.clear();
  if (!std::exchange(state.unpacks, false)) return;
  const Tensor values = values_of(bucket);
  for (std::size_t rank = 0; rank < state.others.size(); ++rank) {
    auto at = static_cast<std::int64_t>(rank) * state.most;
    for (const auto& [begin, end] : state.others[rank]) {
      copy(values.rows(begin, end), state.packed.rows(at, at + end - begin), *stream_);
      at += end - begin;
    }
  }
}

void SharedBuffer::gather_codes(WeightCodes& codes, Buffer& storage, Stream& stream) {
  if (!distributed() || shards_values_) return;
  for (std::size_t row = 0; row < rows_.size(); ++row)
    if (codes.has(*rows_[row])) states_[bucket_of_[row]].coded.push_back(rows_[row]);
  if (std::ranges::all_of(states_, [](const State& state) { return state.coded.empty(); })) return;
  weight_codes_ = &codes;
  stream_ = &stream;
  std::int64_t packed = 0;
  for (std::size_t bucket = 0; bucket < states_.size(); ++bucket) {
    find_others(bucket);
    packed += states_[bucket].most * sharers_.tensors->size();
  }
  const auto elements = static_cast<std::size_t>(layout_.size());
  const DType dtype = flat_->values.dtype();
  code_bytes_ = elements + static_cast<std::size_t>(packed) * size_of(dtype);
  storage = Buffer(flat_->values.device(), code_bytes_);
  codes_ = storage.tensor(DType::u8, {layout_.size()});
  std::size_t at = elements;
  for (State& state : states_) {
    const std::int64_t count = state.most * sharers_.tensors->size();
    state.packed = storage.tensor(dtype, {count}, at);
    at += static_cast<std::size_t>(count) * size_of(dtype);
  }
  sharers_.tensors->reach(codes_);
  for (std::size_t row = 0; row < rows_.size(); ++row)
    if (codes.has(*rows_[row]))
      codes.put_at(*rows_[row],
                   codes_.rows(layout_.starts[row], layout_.starts[row] + counts_[row]));
  for (const OwnedRange& part : owned(sharers_.tensors->rank())) {
    const std::size_t row = number_[part.param];
    if (!codes.has(*rows_[row])) continue;
    const std::int64_t start = layout_.starts[row];
    states_[bucket_of_[row]].parts.push_back(
        {.row = rows_[row],
         .begin = part.begin,
         .values = value(part),
         .codes = codes_.rows(start + part.begin, start + part.end)});
  }
}

// The elements in each rank's slice of a bucket, one that has codes, of rows that have none.
void SharedBuffer::find_others(std::size_t bucket) {
  State& state = states_[bucket];
  if (state.coded.empty()) return;
  constexpr std::int64_t kLarge = 1 << 16;
  for (int rank = 0; rank < sharers_.tensors->size(); ++rank) {
    auto &large = state.large.emplace_back(), &others = state.others.emplace_back();
    std::int64_t count = 0;
    for (const OwnedRange& part : owned_ranges(layout_, counts_, rank, sharers_.tensors->size())) {
      if (bucket_of_[part.param] != bucket || weight_codes_->has(*rows_[part.param])) continue;
      const std::int64_t begin = layout_.starts[part.param] + part.begin -
                                 layout_.buckets[bucket].begin,
                         length = part.end - part.begin;
      (length < kLarge ? others : large).push_back({begin, begin + length});
      if (length < kLarge) count += length;
    }
    state.most = std::max(state.most, count);
  }
}

}  // namespace mt
