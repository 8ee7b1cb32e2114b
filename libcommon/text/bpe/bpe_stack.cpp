#include "text/bpe/bpe_stack.h"

#include <algorithm>
#include <array>
#include <memory>

namespace mt {

static constexpr std::size_t kShort = 64;  // symbols of a piece that need no memory from the heap

BpeStack::BpeStack(const std::vector<Merge>& merges) : merges_(merges.size()) {
  if (!number_symbols(merges) || !number_merges(merges)) first_merge_ = kNone;
}

// False where the numbers are too few.
bool BpeStack::number_symbols(const std::vector<Merge>& merges) {
  Symbol most = 0;
  for (const Merge& merge : merges) most = std::max({most, merge.left, merge.right, merge.result});
  numbers_.resize(std::size_t{most} + 1);
  for (const Merge& merge : merges) numbers_[merge.result] = kUnmade;
  results_.push_back(0);
  for (const Merge& merge : merges)
    for (const Symbol part : {merge.left, merge.right})
      if (numbers_[part] == kNone) {
        numbers_[part] = first_merge_++;
        results_.push_back(part);
      }
  return first_merge_ + merges.size() <= kUnmade;
}

// Leaves out merges that never happen: where one of the parts is merged with a neighbour before, or
// not made.  False where a result has two merges that do.
bool BpeStack::number_merges(const std::vector<Merge>& merges) {
  results_.reserve(first_merge_ + merges.size());
  parts_.reserve(first_merge_ + merges.size());
  parts_.resize(first_merge_);
  std::vector<Merge> early;
  for (const Merge& merge : merges) {
    const Parts parts = {numbers_[merge.left], numbers_[merge.right]};
    const auto number = static_cast<Number>(parts_.size());
    if (parts.left == kUnmade || parts.right == kUnmade) {
      early.push_back(merge);
      continue;
    }
    if (!may_meet(parts.left, parts.right, number)) continue;
    if (numbers_[merge.result] != kUnmade) return false;
    numbers_[merge.result] = number;
    results_.push_back(merge.result);
    parts_.push_back(parts);
    merges_.add(parts.left, parts.right, number);
  }
  for (const Merge& merge : early) {
    if (numbers_[merge.left] == kUnmade || numbers_[merge.right] == kUnmade) continue;
    append_text(numbers_[merge.left], doubtful_.emplace_back());
    append_text(numbers_[merge.right], doubtful_.back());
  }
  return true;
}

void BpeStack::append_text(Number token, std::vector<Symbol>& text) const {
  if (token < first_merge_) return text.push_back(results_[token]);
  append_text(parts_[token].left, text);
  append_text(parts_[token].right, text);
}

// Do two tokens that stand side by side stay as they are until the merge `before`?  Undoes their
// merges, the last one first: at each time the two symbols at the boundary are there until one of
// them is merged at `before`.
bool BpeStack::may_meet(Number left, Number right, Number before) const {
  while (merges_.find(left, right) >= before) {
    const bool left_is_last = left > right;
    const Number last = left_is_last ? left : right;
    if (last < first_merge_) return true;
    before = left_is_last ? last : last + 1;  // of equal pairs the left one is merged first
    (left_is_last ? left : right) = left_is_last ? parts_[last].right : parts_[last].left;
  }
  return false;
}

// Has the token on top of the stack been made of what `coming`, to the right of it, was to get?
inline bool BpeStack::in_the_way(Number token, Number coming) const {
  while (token > coming && token >= first_merge_) {
    const Number right = parts_[token].right;
    if (merges_.find(right, coming) < token) return true;
    token = right;
  }
  return false;
}

// Puts what `numbers` become on `stack`, above one entry, and returns how many there are.
inline std::size_t BpeStack::merge(std::span<Number> numbers, Entry* stack) const {
  Entry* top = stack;
  *top = {kNone, kUnmade};
  std::size_t next = 0, seen = 0;  // numbers[next, seen) come from the stack
  for (;;) {
    const Number coming = next < numbers.size() ? numbers[next] : kNone;
    if (next < seen && in_the_way(top->token, coming)) {
      const Parts parts = parts_[top->token];
      numbers[--next] = parts.right;
      numbers[--next] = parts.left;
      --top;
      continue;
    }
    const Number rank = merges_.find(top->token, coming);
    if (top->rank <= rank && top->rank != kUnmade) {
      numbers[--next] = top->rank;
      top -= 2;
    } else if (next < numbers.size()) {
      *++top = {coming, rank};
      seen = std::max(seen, ++next);
    } else {
      return static_cast<std::size_t>(top - stack);
    }
  }
}

std::size_t BpeStack::apply(std::span<Symbol> symbols) const {
  const auto is_result = [&](Symbol symbol) { return number_of(symbol) >= first_merge_; };
  if (std::ranges::any_of(symbols, is_result)) return kCannot;
  std::array<Entry, kShort + 1> few;
  std::unique_ptr<Entry[]> many;  // no more of its memory is touched than the tokens need
  if (symbols.size() > kShort) many = std::make_unique_for_overwrite<Entry[]>(symbols.size() + 1);
  Entry* const stack = many ? many.get() : few.data();
  std::size_t count = 0;
  for (std::size_t at = 0; at < symbols.size();) {
    std::size_t end = at;
    for (; end < symbols.size() && number_of(symbols[end]) != kNone; ++end)
      symbols[end] = number_of(symbols[end]);
    const std::size_t tokens = merge(symbols.subspan(at, end - at), stack);
    for (std::size_t i = 1; i <= tokens; ++i) symbols[count++] = results_[stack[i].token];
    at = end;
    if (at < symbols.size()) symbols[count++] = symbols[at++];
  }
  return count;
}

}  // namespace mt
