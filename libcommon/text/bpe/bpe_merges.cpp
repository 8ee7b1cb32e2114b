#include "text/bpe/bpe_merges.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <queue>

#include "base/error.h"

namespace mt {

static constexpr std::uint32_t kNone = PairMap::kNone;
static constexpr std::size_t kShort = 64;  // symbols up to which a quadratic loop is the faster one

void BpeMerges::add(Symbol left, Symbol right, Symbol result, std::size_t rank) {
  ranks_.at(left, right) = static_cast<std::uint32_t>(rank);
  if (merges_.size() <= rank) merges_.resize(rank + 1, {kNone, kNone, kNone});
  merges_[rank] = {left, right, result};
  stack_.reset();
}

void BpeMerges::prepare() {
  std::vector<BpeStack::Merge> merges;
  merges.reserve(merges_.size());
  for (std::size_t i = 0; i < merges_.size(); ++i)  // all but what moved to another rank
    if (rank(merges_[i].left, merges_[i].right) == i) merges.push_back(merges_[i]);
  stack_.emplace(merges);
  for (const std::vector<Symbol>& text : stack_->doubtful()) {
    std::vector<Symbol> fast = text, slow = text;
    fast.resize(stack_->apply(fast));
    slow.resize(apply_by_ranks(slow));
    if (fast != slow) return stack_.reset();
  }
}

void BpeMerges::apply(std::vector<Symbol>& symbols, std::size_t begin) const {
  const std::span<Symbol> piece(symbols.data() + begin, symbols.size() - begin);
  if (piece.size() >= std::numeric_limits<std::uint32_t>::max())
    fail(Exit::bad_data, "a word of ", piece.size(), " symbols, expected less than 2^32 - 1");
  std::size_t left = stack_ && piece.size() > 2 ? stack_->apply(piece) : BpeStack::kCannot;
  if (left == BpeStack::kCannot) left = apply_by_ranks(piece);
  symbols.resize(begin + left);
}

std::size_t BpeMerges::apply_by_ranks(std::span<Symbol> symbols) const {
  return symbols.size() <= kShort ? apply_short(symbols) : apply_long(symbols);
}

std::size_t BpeMerges::apply_short(std::span<Symbol> symbols) const {
  Symbol* const symbol = symbols.data();
  std::uint32_t pair_rank[kShort];  // of symbol[i] and symbol[i + 1]
  std::size_t n = symbols.size();
  const auto rank_at = [&](std::size_t i) {
    return i + 1 < n ? rank(symbol[i], symbol[i + 1]) : kNone;
  };
  for (std::size_t i = 0; i < n; ++i) pair_rank[i] = rank_at(i);
  while (n > 1) {
    const std::uint32_t lowest = *std::min_element(pair_rank, pair_rank + n);
    if (lowest == kNone) break;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      if (pair_rank[i] != lowest) continue;
      symbol[i] = merges_[lowest].result;
      --n;
      std::copy(symbol + i + 2, symbol + n + 1, symbol + i + 1);
      std::copy(pair_rank + i + 1, pair_rank + n + 1, pair_rank + i);
      pair_rank[i] = rank_at(i);
      if (i > 0) pair_rank[i - 1] = rank_at(i - 1);
      const bool lower = pair_rank[i] < lowest || (i > 0 && pair_rank[i - 1] < lowest);
      if (lower && order_ == Order::by_step) break;
    }
  }
  return n;
}

// The symbols of a long piece as a doubly linked list, one node for each first symbol that still
// starts one.
struct Node {
  std::uint32_t symbol, previous, next;  // kNone past either end
  std::uint32_t pair_rank;               // of this symbol and the next; kNone also once merged away
};

std::size_t BpeMerges::apply_long(std::span<Symbol> symbols) const {
  const auto size = static_cast<std::uint32_t>(symbols.size());
  std::vector<Node> nodes(size);
  const auto update_rank = [&](std::uint32_t i) {
    const std::uint32_t next = nodes[i].next;
    nodes[i].pair_rank = next == kNone ? kNone : rank(nodes[i].symbol, nodes[next].symbol);
    return nodes[i].pair_rank;
  };
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t next = i + 1 < size ? i + 1 : kNone;
    nodes[i] = {symbols[i], i == 0 ? kNone : i - 1, next, kNone};
  }
  // Pairs to merge as rank << 32 | node: lowest rank first, then from the left.  An entry whose
  // rank is no longer its node's is out of date.
  std::vector<std::uint64_t> entries;
  for (std::uint32_t i = 0; i < size; ++i)
    if (update_rank(i) != kNone) entries.push_back(std::uint64_t{nodes[i].pair_rank} << 32 | i);
  std::priority_queue queue(std::greater<>(), std::move(entries));
  // Pairs that a merge of rank r makes and whose rank is lower: by rank, they wait until all of
  // rank r are done.
  std::vector<std::uint64_t> waiting;
  while (!queue.empty() || !waiting.empty()) {
    const std::uint32_t lowest = queue.empty() ? kNone : queue.top() >> 32;
    for (; !queue.empty() && queue.top() >> 32 == lowest;) {
      const auto i = static_cast<std::uint32_t>(queue.top());
      queue.pop();
      if (nodes[i].pair_rank != lowest) continue;
      Node& first = nodes[i];
      Node& second = nodes[first.next];
      first.symbol = merges_[lowest].result;
      first.next = second.next;
      second.pair_rank = kNone;
      if (first.next != kNone) nodes[first.next].previous = i;
      for (const std::uint32_t changed : {first.previous, i}) {
        if (changed == kNone || update_rank(changed) == kNone) continue;
        const std::uint64_t entry = std::uint64_t{nodes[changed].pair_rank} << 32 | changed;
        if (nodes[changed].pair_rank < lowest && order_ == Order::by_rank)
          waiting.push_back(entry);
        else
          queue.push(entry);
      }
    }
    for (const std::uint64_t entry : waiting) queue.push(entry);
    waiting.clear();
  }
  std::size_t count = 0;
  for (std::uint32_t i = 0; i != kNone; i = nodes[i].next) symbols[count++] = nodes[i].symbol;
  return count;
}

}  // namespace mt
