#include "text/sentencepiece/scored_bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "text/unicode/utf8_length.h"

namespace mt {

static constexpr std::uint32_t kNone = 0xFFFFFFFF;
static constexpr ByteTrie::Node kNowhere = 0xFFFFFFFF;  // no piece begins with these bytes
static constexpr std::size_t kShort = 24;  // symbols up to which looking at all pairs is faster
static constexpr int kNeighbourBits = 18;  // log2 of the bits for pairs of characters
static constexpr int kMostPrefixes = 64;   // of nested whole pieces SentencePiece sees the shortest
static constexpr int kDeepest = 100;       // how often SentencePiece takes parts of a piece apart

// Falls as the score rises; -0 is below +0.
static std::uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  return bits >> 31 != 0 ? bits : 0x7FFFFFFF - bits;
}

// The bytes of the character of `size` bytes at text[at].
static std::uint32_t bytes_of(std::string_view text, std::size_t at, std::size_t size) {
  std::uint32_t bytes = 0;
  if (text.size() - at < sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, std::min(size, text.size() - at));
    return bytes;
  }
  std::memcpy(&bytes, text.data() + at, sizeof bytes);  // one load, and those behind it taken away
  return bytes & 0xFFFFFFFF >> (32 - 8 * size);
}

// The bit that stands for two neighbouring characters, given by their bytes; before a piece's first
// one stands 0.
static std::size_t neighbour_bit(std::uint32_t left, std::uint32_t right) {
  const std::uint64_t pair = std::uint64_t{left} << 32 | right;
  return (pair * 0x9E3779B97F4A7C15u) >> (64 - kNeighbourBits);  // 2^64 / golden ratio
}

void ScoredBpe::add_neighbours(std::string_view piece) {
  std::uint32_t before = 0;
  for (std::size_t at = 0; at < piece.size(); at += utf8_length(piece[at])) {
    const std::uint32_t character = bytes_of(piece, at, utf8_length(piece[at]));
    const std::size_t bit = neighbour_bit(before, character);
    neighbours_[bit / 64] |= std::uint64_t{1} << bit % 64;
    before = character;
  }
}

bool ScoredBpe::has_side_by_side(std::uint32_t left, std::uint32_t right) const {
  const std::size_t bit = neighbour_bit(left, right);
  return (neighbours_[bit / 64] >> bit % 64 & 1) != 0;
}

// The length of the whole piece at `at`; 0 where there is none.
std::size_t ScoredBpe::whole_length(std::string_view text, std::size_t at) const {
  return has_whole_ ? whole_.longest_prefix(text.substr(at), kMostPrefixes).length : 0;
}

// Where the run from `at` on ends: at a whole piece, which is a run by itself, or, if it is to end
// between pieces, between two characters that no piece has side by side.  How an unused piece is
// taken apart depends on all of the text.
std::size_t ScoredBpe::run_end(std::string_view text, std::size_t at, bool between_pieces) const {
  if (has_unused_ || (!has_whole_ && !between_pieces)) return text.size();
  if (const std::size_t size = whole_length(text, at); size != 0) return at + size;
  std::uint32_t before = 0;
  for (std::size_t end = at; end < text.size();) {
    const std::size_t size = utf8_length(text[end]);
    const std::uint32_t character = bytes_of(text, end, size);
    if (end > at &&
        ((between_pieces && !has_side_by_side(before, character)) || whole_length(text, end) != 0))
      return end;
    before = character;
    end += size;
  }
  return text.size();
}

ScoredBpe::ScoredBpe(const std::vector<Piece>& pieces)
    : neighbours_((std::size_t{1} << kNeighbourBits) / 64) {
  std::vector<ByteTrie::Entry> all, whole;
  for (const Piece& piece : pieces) {
    const auto id = static_cast<std::int32_t>(ranks_.size());
    all.emplace_back(piece.text, id);
    if (piece.whole) whole.emplace_back(piece.text, id);
    add_neighbours(piece.text);
    texts_.push_back(piece.text);
    ranks_.push_back(rank_of(piece.score));
    unused_.push_back(piece.unused);
    has_whole_ |= piece.whole;
    has_unused_ |= piece.unused;
  }
  trie_ = ByteTrie(std::move(all));
  whole_ = ByteTrie(std::move(whole));
}

// One text being encoded.
class ScoredBpe::Run {
 public:
  Run(const ScoredBpe& bpe, std::string_view text, Scratch& scratch)
      : bpe_(bpe), text_(text), scratch_(scratch), symbols_(scratch.symbols) {}

  // `stack`: for long runs; may be null.
  void encode(std::vector<TextSegment>& segments, const ScoredBpeStack* stack) {
    if (bpe_.has_unused_) scratch_.seams.clear();
    segments.clear();
    for (std::size_t at = 0, end = 0; at < text_.size(); at = end) {
      end = bpe_.run_end(text_, at, stack == nullptr);
      if (stack != nullptr && end - at > kShort && bpe_.whole_length(text_, at) == 0 &&
          stack->encode(text_, at, end, segments))
        continue;
      split(at, end);
      for (std::uint32_t i = 0; i < symbols_.size(); ++i) find_pair(i);
      symbols_.size() > kShort ? join_many() : join_few();
      for (std::uint32_t i = 0; i != kNone; i = symbols_[i].next)
        emit(symbols_[i].begin, symbols_[i].end, 0, segments);
    }
  }

 private:
  using Symbol = Scratch::Symbol;

  // Overwrites symbols_ with those from `at` on, up to `run_end`.
  void split(std::size_t at, std::size_t run_end) {
    symbols_.clear();
    while (at < run_end) {
      const std::size_t whole = bpe_.whole_length(text_, at);
      const std::size_t size = whole != 0 ? whole : utf8_length(text_[at]);
      ByteTrie::Node node = ByteTrie::kRoot;
      if (!bpe_.trie_.walk(node, text_.substr(at, size))) node = kNowhere;
      const auto i = static_cast<std::uint32_t>(symbols_.size());
      const auto end = static_cast<std::uint32_t>(at + size);
      symbols_.push_back({.begin = static_cast<std::uint32_t>(at),
                          .end = end,
                          .previous = i - 1,  // of the first one: kNone
                          .next = i + 1,      // of the last one: kNone, below
                          .node = node,
                          .pair_rank = kNone,
                          .pair_node = kNowhere,
                          .whole = whole != 0});
      at = end;
    }
    symbols_.back().next = kNone;
  }

  // What symbol i and the one after it are together.
  void find_pair(std::uint32_t i) {
    Symbol& left = symbols_[i];
    left.pair_rank = kNone;
    if (left.next == kNone || left.whole || left.node == kNowhere) return;
    const Symbol& right = symbols_[left.next];
    ByteTrie::Node node = left.node;
    if (right.whole || !bpe_.trie_.walk(node, bytes(right.begin, right.end))) return;
    const std::int32_t id = bpe_.trie_.value(node);
    if (id == ByteTrie::kNone) return;
    left.pair_node = node;
    left.pair_rank = bpe_.ranks_[id];
    if (bpe_.unused_[id])
      scratch_.seams.insert_or_assign(bytes(left.begin, right.end), left.end - left.begin);
  }

  void join(std::uint32_t i) {
    Symbol& left = symbols_[i];
    Symbol& right = symbols_[left.next];
    left.end = right.end;
    left.node = left.pair_node;
    left.next = right.next;
    right.pair_rank = kNone;
    if (left.next != kNone) symbols_[left.next].previous = i;
    if (left.previous != kNone) find_pair(left.previous);
    find_pair(i);
  }

  void join_few() {
    while (true) {
      std::uint32_t best = 0;
      for (std::uint32_t i = symbols_[0].next; i != kNone; i = symbols_[i].next)
        if (symbols_[i].pair_rank < symbols_[best].pair_rank) best = i;
      if (symbols_[best].pair_rank == kNone) return;
      join(best);
    }
  }

  // Pairs as rank << 32 | symbol in a heap; one whose rank is no longer its symbol's is out of
  // date.
  void join_many() {
    std::vector<std::uint64_t>& pairs = scratch_.pairs;
    pairs.clear();
    const auto entry = [&](std::uint32_t i) {
      return std::uint64_t{symbols_[i].pair_rank} << 32 | i;
    };
    for (std::uint32_t i = 0; i < symbols_.size(); ++i)
      if (symbols_[i].pair_rank != kNone) pairs.push_back(entry(i));
    std::ranges::make_heap(pairs, std::greater<>());
    while (!pairs.empty()) {
      std::ranges::pop_heap(pairs, std::greater<>());
      const std::uint64_t pair = pairs.back();
      pairs.pop_back();
      const auto i = static_cast<std::uint32_t>(pair);
      if (entry(i) != pair) continue;
      join(i);
      for (const std::uint32_t changed : {symbols_[i].previous, i}) {
        if (changed == kNone || symbols_[changed].pair_rank == kNone) continue;
        pairs.push_back(entry(changed));
        std::ranges::push_heap(pairs, std::greater<>());
      }
    }
  }

  void emit(std::uint32_t begin, std::uint32_t end, int depth, std::vector<TextSegment>& segments) {
    const std::int32_t id = bpe_.trie_.find(bytes(begin, end));
    if (id == ByteTrie::kNone) return segments.push_back({kUnknownPiece, end});
    if (!bpe_.unused_[id] || depth > kDeepest) return segments.push_back({id, end});
    const auto seam = scratch_.seams.find(bytes(begin, end));
    if (seam == scratch_.seams.end()) return segments.push_back({kUnknownPiece, end});
    const std::uint32_t middle = begin + seam->second;
    emit(begin, middle, depth + 1, segments);
    emit(middle, end, depth + 1, segments);
  }

  std::string_view bytes(std::size_t begin, std::size_t end) const {
    return text_.substr(begin, end - begin);
  }

  const ScoredBpe& bpe_;
  std::string_view text_;
  Scratch& scratch_;
  std::vector<Symbol>& symbols_;
};

void ScoredBpe::encode(std::string_view text, std::vector<TextSegment>& segments,
                       Scratch& scratch) const {
  check_segment_ends(text);
  Run(*this, text, scratch).encode(segments, text.size() > kShort ? stack() : nullptr);
}

const ScoredBpeStack* ScoredBpe::stack() const {
  std::call_once(stack_->made, [&] { stack_->stack = make_stack(); });
  return stack_->stack ? &*stack_->stack : nullptr;
}

// Nothing where a piece is cut differently.
std::optional<ScoredBpeStack> ScoredBpe::make_stack() const {
  if (has_unused_) return std::nullopt;
  std::optional<ScoredBpeStack> stack(std::in_place, texts_, ranks_, trie_);
  Scratch scratch;
  std::vector<TextSegment> slow, fast;
  for (const std::string& text : texts_) {
    if (text.empty() || whole_length(text, 0) != 0) continue;
    if (run_end(text, 0, false) < text.size()) continue;  // with a whole one: in no run
    Run(*this, text, scratch).encode(slow, nullptr);
    fast.clear();
    if (!stack->encode(text, 0, text.size(), fast) || fast != slow) return std::nullopt;
  }
  return stack;
}

}  // namespace mt
