#include "text/sentencepiece/unigram.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "text/unicode/utf8_length.h"

namespace mt {

void check_segment_ends(std::string_view text) {
  if (text.size() >= std::numeric_limits<std::uint32_t>::max())
    fail(Exit::bad_data, "a text of ", text.size(), " bytes, expected less than 4 GiB");
}

template <class Real>
Unigram<Real>::Unigram(const std::vector<Piece>& pieces, const Options& options)
    : options_(options) {
  std::vector<ByteTrie::Entry> entries;
  for (const Piece& piece : pieces) {
    entries.emplace_back(piece.text, static_cast<std::int32_t>(scores_.size()));
    scores_.push_back(piece.score);
    longest_ = std::max(longest_, piece.text.size());
  }
  trie_ = ByteTrie(std::move(entries));
}

static constexpr std::size_t kWindow = 4096;  // bytes between two looks for where all paths meet
static constexpr std::size_t kCharacter = 4;  // bytes at most

// One text being encoded.
template <class Real>
template <bool kWithMargin>
class Unigram<Real>::Run {
 public:
  Run(const Unigram& unigram, std::string_view text, std::vector<TextSegment>& segments,
      Scratch& scratch, Margin* margin)
      : unigram_(unigram),
        text_(text),
        segments_(segments),
        nodes_(scratch.nodes),
        margin_(margin) {}

  Real encode(Real sum, const std::function<void()>& settled) {
    segments_.clear();
    nodes_.clear();
    make_room();
    nodes_[0].sum = sum;
    for (std::size_t at = 0; at < text_.size();) {
      if (at - begin_ >= window_) {
        settle(at);
        if (settled && !segments_.empty()) settled();
      }
      if (std::abs(node(at).sum) > unigram_.options_.rebase_beyond) rebase(at);
      at = offer_pieces(at);
    }
    sum = node(text_.size()).sum;
    put_path(text_.size());
    return sum;
  }

 private:
  using Node = typename Scratch::Node;

  Node& node(std::size_t at) { return nodes_[at - begin_]; }

  void make_room() {
    constexpr Real kLowest = -std::numeric_limits<Real>::infinity();
    const std::size_t left = text_.size() - begin_;
    const std::size_t size = window_ + kCharacter + std::max(unigram_.longest_, kCharacter);
    nodes_.resize(std::min(left, size) + 1, {kLowest, kLowest, 0, 0});
  }

  // Offers all pieces that begin at `at` as the last ones of paths; returns where the next
  // character begins.
  std::size_t offer_pieces(std::size_t at) {
    Node* const here = &node(at);
    const Real before = here->sum;
    const std::string_view text = text_.substr(at);
    const std::size_t character = utf8_length(text[0]);
    bool whole_character = false;
    std::size_t longest = character;
    ByteTrie::Node state = ByteTrie::kRoot;
    for (std::size_t length = 0;
         length < text.size() && unigram_.trie_.step(state, text[length]);) {
      ++length;
      const std::int32_t id = unigram_.trie_.value(state);
      if (id == ByteTrie::kNone) continue;
      offer(here[length], id, length, unigram_.scores_[id] + before);
      whole_character |= length == character;
      longest = std::max(longest, length);
    }
    if (!whole_character)
      offer(here[character], kUnknownPiece, character, unigram_.options_.unknown_score + before);
    frontier_ = std::max(frontier_, at + longest);
    return at + character;
  }

  void offer(Node& end, std::int32_t id, std::size_t length, Real sum) {
    const bool better = end.length == 0 || sum > end.sum;
    if constexpr (kWithMargin) {
      margin_->largest = std::max(margin_->largest, std::abs(sum));
      end.second = better ? end.sum : std::max(end.second, sum);
    }
    if (!better) return;
    end.sum = sum;
    end.id = id;
    end.length = static_cast<std::uint32_t>(length);
  }

  void rebase(std::size_t at) {
    const Real base = node(at).sum;
    for (std::size_t i = at; i <= frontier_; ++i)
      if (i == at || node(i).length != 0) node(i).sum -= base;
  }

  // Puts the pieces up to where all paths meet, and drops what is before; where that is too little,
  // makes the window larger, so that each look is followed by as many bytes as it has gone through.
  void settle(std::size_t at) {
    std::set<std::size_t> ends;
    for (std::size_t i = at; i <= frontier_; ++i)
      if (i == at || node(i).length != 0) ends.insert(i);
    while (ends.size() > 1) {
      const auto last = std::prev(ends.end());
      ends.insert(*last - node(*last).length);
      ends.erase(last);
    }
    const std::size_t meeting = *ends.begin();
    put_path(meeting);
    if (meeting - begin_ < window_ / 2) window_ *= 2;
    nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(meeting - begin_));
    begin_ = meeting;
    make_room();
  }

  // Appends the pieces from begin_ to `end`.
  void put_path(std::size_t end) {
    const auto first = static_cast<std::ptrdiff_t>(segments_.size());
    for (; end > begin_; end -= node(end).length) {
      segments_.push_back({node(end).id, static_cast<std::uint32_t>(end)});
      if constexpr (kWithMargin)
        margin_->to_second = std::min(margin_->to_second, node(end).sum - node(end).second);
    }
    std::reverse(segments_.begin() + first, segments_.end());
  }

  const Unigram& unigram_;
  std::string_view text_;
  std::vector<TextSegment>& segments_;
  std::vector<Node>& nodes_;  // from begin_ on
  Margin* margin_;
  std::size_t begin_ = 0, window_ = kWindow;
  std::size_t frontier_ = 0;  // the last byte that a path leads to
};

template <class Real>
void Unigram<Real>::encode(std::string_view text, Real& sum, std::vector<TextSegment>& segments,
                           Scratch& scratch, Margin* margin,
                           const std::function<void()>& settled) const {
  check_segment_ends(text);
  sum = margin != nullptr ? Run<true>(*this, text, segments, scratch, margin).encode(sum, settled)
                          : Run<false>(*this, text, segments, scratch, margin).encode(sum, settled);
}

template class Unigram<float>;
template class Unigram<double>;

}  // namespace mt
