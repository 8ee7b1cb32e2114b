#include "text/training/pair_merger.h"

#include <limits>

namespace mt {

static constexpr PairMerger::Token kNoToken = std::numeric_limits<PairMerger::Token>::min();

PairMerger::PairMerger(std::size_t tokens) : slots_{kNoToken}, lengths_(tokens, 1) {}

void PairMerger::add(std::span<const Token> piece, std::int64_t count) {
  const auto number = static_cast<std::uint32_t>(starts_.size());
  starts_.push_back(slots_.size());
  counts_.push_back(count);
  for (std::uint32_t i = 0; i < piece.size(); ++i) {
    slots_.push_back(piece[i]);
    if (i > 0) add_occurrence(piece[i - 1], piece[i], {number, i - 1}, count);
  }
  slots_.push_back(kNoToken);
}

void PairMerger::add_occurrence(Token left, Token right, Place place, std::int64_t count) {
  std::uint32_t& number = pair_numbers_.at(left, right);
  if (number == PairMap::kNone) {
    number = static_cast<std::uint32_t>(pairs_.size());
    pairs_.push_back({left, right, 0, {}});
  }
  pairs_[number].count += count;
  pairs_[number].places.push_back(place);
}

inline void PairMerger::merge_at(Place place, const Pair& pair, Token merged) {
  const std::size_t first = starts_[place.piece] + place.offset;
  if (slots_[first] != pair.left) return;
  const std::size_t second = first + lengths_[pair.left];
  if (slots_[second] != pair.right) return;
  const std::size_t next = second + lengths_[pair.right];
  const std::int64_t count = counts_[place.piece];
  if (Token previous = slots_[first - 1]; previous != kNoToken) {
    if (previous < 0) previous = ~previous;
    pairs_[pair_numbers_.find(previous, pair.left)].count -= count;
    add_occurrence(previous, merged, {place.piece, place.offset - lengths_[previous]}, count);
  }
  if (slots_[next] != kNoToken) {
    pairs_[pair_numbers_.find(pair.right, slots_[next])].count -= count;
    add_occurrence(merged, slots_[next], place, count);
  }
  slots_[second] = kNoToken;
  slots_[next - 1] = ~merged;
  slots_[first] = merged;
}

bool PairMerger::merge(std::size_t merges, const std::function<void()>& checkpoint) {
  while (merges_.size() < merges) {
    checkpoint();
    if (!merge_next()) return false;
  }
  return true;
}

bool PairMerger::merge_next() {
  // All pairs with a new token arise when it is made, so later their counts can only fall.
  for (; queued_ < pairs_.size(); ++queued_) {
    const Pair& pair = pairs_[queued_];
    if (pair.count > 0) queue_.push({pair.count, pair.left, pair.right, queued_});
  }
  while (!queue_.empty() && queue_.top().count != pairs_[queue_.top().pair].count) {
    Candidate candidate = queue_.top();
    queue_.pop();
    candidate.count = pairs_[candidate.pair].count;
    if (candidate.count > 0) queue_.push(candidate);
  }
  if (queue_.empty()) return false;
  const Pair pair = std::move(pairs_[queue_.top().pair]);
  queue_.pop();
  // This is a new token: between its ends tokens merge as they would alone, which happens in one
  // way.
  const auto merged = static_cast<Token>(lengths_.size());
  lengths_.push_back(lengths_[pair.left] + lengths_[pair.right]);
  merges_.emplace_back(pair.left, pair.right);
  for (const Place place : pair.places) merge_at(place, pair, merged);
  return true;
}

}  // namespace mt
