#include "text/bpe_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

namespace mt {

static constexpr std::size_t kShort = 64;   // symbols of a piece that need no memory from the heap
static constexpr std::size_t kLong = 4096;  // symbols of one that is worth a Memory
static constexpr int kFilterShift = 3;      // log2 of the filter's bits for a slot

BpeSearch::BpeSearch(const std::vector<Merge>& merges) {
  if (number_symbols(merges) && number_merges(merges))
    make_trie();
  else
    first_merge_ = kNone;
}

// False where a result is ranked before its parts.
bool BpeSearch::number_symbols(const std::vector<Merge>& merges) {
  Symbol most = 0;
  for (const Merge& merge : merges) most = std::max({most, merge.left, merge.right, merge.result});
  numbers_.resize(std::size_t{most} + 1);
  for (const Merge& merge : merges) numbers_[merge.result] = kUnmade;
  std::vector<bool> used(numbers_.size());
  for (const Merge& merge : merges) {
    for (const Symbol part : {merge.left, merge.right}) {
      if (numbers_[part] == kNone) numbers_[part] = first_merge_++;
      used[part] = true;
    }
    if (used[merge.result]) return false;
  }
  return true;
}

// Leaves out merges that never happen: where one of the parts is merged with a neighbour before, or
// never made.  False where a result has two merges that do.
bool BpeSearch::number_merges(const std::vector<Merge>& merges) {
  const std::size_t slots = std::bit_ceil(2 * merges.size() + 64);
  slots_.resize(slots);
  filter_.resize(slots >> (6 - kFilterShift));
  hash_shift_ = 64 - std::countr_zero(slots);
  results_.resize(first_merge_);
  parts_.resize(first_merge_);
  tokens_.resize(first_merge_);
  for (const Merge& merge : merges) {
    const Parts parts = {numbers_[merge.left], numbers_[merge.right]};
    const auto number = static_cast<Number>(parts_.size());
    if (parts.left == kUnmade || parts.right == kUnmade) continue;
    if (!may_meet(parts.left, parts.right, number)) continue;
    if (numbers_[merge.result] != kUnmade) return false;
    numbers_[merge.result] = number;
    results_.push_back(merge.result);
    add_merge(parts);
  }
  return true;
}

static std::uint64_t hash(std::uint32_t left, std::uint32_t right) {
  return (std::uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
}

void BpeSearch::add_merge(Parts parts) {
  const std::uint64_t mixed = hash(parts.left, parts.right);
  std::size_t slot = mixed >> hash_shift_;
  while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = static_cast<Number>(parts_.size());
  const std::size_t bit = mixed >> (hash_shift_ - kFilterShift);
  filter_[bit / 64] |= std::uint64_t{1} << bit % 64;
  parts_.push_back(parts);
  tokens_.push_back({.length = tokens_[parts.left].length + tokens_[parts.right].length});
}

inline BpeSearch::Number BpeSearch::merge_of(Parts parts) const {
  const std::uint64_t mixed = hash(parts.left, parts.right);
  const std::size_t bit = mixed >> (hash_shift_ - kFilterShift);
  if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return kNone;
  std::size_t slot = mixed >> hash_shift_;
  while (slots_[slot] != kNone && parts_[slots_[slot]] != parts)
    slot = (slot + 1) & (slots_.size() - 1);
  return slots_[slot];
}

// Do two tokens that stand side by side stay as they are until the merge `before`?  Undoes their
// merges, the last one first: at each time the two symbols at the boundary are there until one of
// them is merged at `before`.
inline bool BpeSearch::may_meet(Number left, Number right, Number before) const {
  for (;;) {
    const Number merge = merge_of({left, right});
    if (merge != kNone && merge < before) return false;
    const bool left_is_last = left > right;  // moves, not branches, which nobody could predict
    const Number last = left_is_last ? left : right;
    if (last < first_merge_) return true;
    const Parts parts = parts_[last];
    before = left_is_last ? last : last + 1;  // of equal pairs the left one is merged first
    left = left_is_last ? parts.right : left;
    right = left_is_last ? right : parts.left;
  }
}

inline void BpeSearch::write_code(Number symbol, char* to) const {
  for (std::size_t i = 0; i < width_; ++i) to[i] = static_cast<char>(symbol >> (8 * i));
}

void BpeSearch::make_trie() {
  while ((first_merge_ - 1) >> (8 * width_) != 0) ++width_;
  std::vector<std::string> texts(parts_.size());
  for (Number symbol = kNone + 1; symbol < first_merge_; ++symbol) {
    texts[symbol].resize(width_);
    write_code(symbol, texts[symbol].data());
  }
  std::vector<ByteTrie::Entry> entries;
  for (Number token = first_merge_; token < parts_.size(); ++token) {
    texts[token].append(texts[parts_[token].left]).append(texts[parts_[token].right]);
    entries.emplace_back(texts[token], static_cast<std::int32_t>(token));
  }
  trie_ = ByteTrie(entries);
  longest_.assign(trie_.nodes(), kNone);
  for (const auto& [text, token] : entries) {
    Number first = static_cast<Number>(token);
    while (first >= first_merge_) first = parts_[first].left;
    Number longest = first;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (const char byte : text) {
      tokens_[token].shorter = longest;  // in the end, of all but the last
      trie_.step(node, byte);
      if (trie_.value(node) != ByteTrie::kNone) longest = static_cast<Number>(trie_.value(node));
      if (longest != first) longest_[node] = longest;
    }
  }
}

// The longest token that begins `text`, whose first symbol is `first`.
inline BpeSearch::Number BpeSearch::longest(Number first, std::string_view text) const {
  ByteTrie::Node node = ByteTrie::kRoot;
  for (std::size_t i = 0; i < text.size() && trie_.step(node, text[i]);) ++i;
  return longest_[node] == kNone ? first : longest_[node];
}

// What may_meet() has said of pairs in a long text: each in one place, until another takes it.
class BpeSearch::Memory {
 public:
  bool may_meet(const BpeSearch& search, Number left, Number right) {
    const std::uint64_t pair = std::uint64_t{left} << 32 | std::uint64_t{right} << 1;
    std::uint64_t& known = pairs_[hash(left, right) >> (64 - kBits)];
    if ((known & ~std::uint64_t{1}) != pair)
      known = pair | (search.may_meet(left, right, kUnmade) ? 1 : 0);
    return (known & 1) != 0;
  }

 private:
  static constexpr int kBits = 14;
  std::vector<std::uint64_t> pairs_ = std::vector<std::uint64_t>(1 << kBits, ~std::uint64_t{0});
};

// With room for the text's codes, for the tokens so far, and for a bit for each place between
// symbols: is it known that nothing goes on from there?
inline std::size_t BpeSearch::search(std::span<Symbol> symbols, char* codes, Number* row,
                                     std::uint64_t* left_behind, Memory* memory) const {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const Number number = number_of(symbols[i]);
    if (number >= first_merge_) return kCannot;
    write_code(number, codes + i * width_);
  }
  const std::string_view text(codes, symbols.size() * width_);
  std::size_t count = 0;
  for (std::size_t at = 0; at < symbols.size();) {
    Number token = longest(number_of(symbols[at]), text.substr(at * width_));
    bool tried = false;  // all that begin here
    const auto fits = [&] {
      const std::size_t end = at + tokens_[token].length;
      return (left_behind[end / 64] >> end % 64 & 1) == 0 &&
             (count == 0 || (memory == nullptr ? may_meet(row[count - 1], token, kUnmade)
                                               : memory->may_meet(*this, row[count - 1], token)));
    };
    while (tried || !fits()) {
      if (tried) {
        left_behind[at / 64] |= std::uint64_t{1} << at % 64;
        token = row[--count];
        at -= tokens_[token].length;
      }
      tried = tokens_[token].length == 1;
      token = tokens_[token].shorter;
    }
    row[count++] = token;
    at += tokens_[token].length;
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Number token = row[i];
    symbols[i] = token < first_merge_ ? symbols[at] : results_[token];
    at += tokens_[token].length;
  }
  return count;
}

std::size_t BpeSearch::apply(std::span<Symbol> symbols) const {
  if (symbols.size() <= kShort) {
    std::array<char, kShort * sizeof(Number)> text;
    std::array<Number, kShort> row;
    std::array<std::uint64_t, kShort / 64 + 1> left_behind{};
    return search(symbols, text.data(), row.data(), left_behind.data(), nullptr);
  }
  const auto text = std::make_unique_for_overwrite<char[]>(symbols.size() * width_);
  const auto row = std::make_unique_for_overwrite<Number[]>(symbols.size());
  std::vector<std::uint64_t> left_behind(symbols.size() / 64 + 1);
  if (symbols.size() < kLong)
    return search(symbols, text.get(), row.get(), left_behind.data(), nullptr);
  Memory memory;
  return search(symbols, text.get(), row.get(), left_behind.data(), &memory);
}

}  // namespace mt
