#include "text/unigram.h"

#include <algorithm>
#include <cmath>

#include "text/utf8_length.h"

namespace mt {

template <class Real>
Unigram<Real>::Unigram(const std::vector<Piece>& pieces, const Options& options)
    : options_(options) {
  std::vector<ByteTrie::Entry> entries;
  for (const Piece& piece : pieces) {
    entries.emplace_back(piece.text, static_cast<std::int32_t>(scores_.size()));
    scores_.push_back(piece.score);
  }
  trie_ = ByteTrie(std::move(entries));
}

static constexpr std::size_t kNowhere = -1;  // where the path to a byte that none leads to is from

template <class Real>
void Unigram<Real>::encode(std::string_view text, Real& sum, std::vector<TextSegment>& segments,
                           Scratch& scratch, Margin* margin) const {
  constexpr Real kLowest = -std::numeric_limits<Real>::infinity();
  auto& nodes = scratch.nodes;
  nodes.assign(text.size() + 1, {0, kLowest, kNowhere, 0});
  nodes[0].sum = sum;
  std::size_t frontier = 0;  // the last byte that a path leads to
  for (std::size_t at = 0; at < text.size();) {
    if (std::abs(nodes[at].sum) > options_.rebase_beyond) {
      const Real base = nodes[at].sum;
      for (std::size_t i = at; i <= frontier; ++i)
        if (i == at || nodes[i].from != kNowhere) nodes[i].sum -= base;
    }
    const Real before = nodes[at].sum;
    const auto offer = [&](std::size_t end, std::int32_t id, Real score) {
      typename Scratch::Node& node = nodes[end];
      const Real candidate = score + before;
      frontier = std::max(frontier, end);
      if (margin) margin->largest = std::max(margin->largest, std::abs(candidate));
      if (node.from == kNowhere || candidate > node.sum) {
        if (node.from != kNowhere) node.second = node.sum;
        node.sum = candidate;
        node.from = at;
        node.id = id;
      } else {
        node.second = std::max(node.second, candidate);
      }
    };
    const std::size_t next = at + utf8_length(text[at]);
    bool whole_character = false;
    ByteTrie::Node state = ByteTrie::kRoot;
    for (std::size_t end = at; end < text.size() && trie_.step(state, text[end]);) {
      ++end;
      const std::int32_t id = trie_.value(state);
      if (id == ByteTrie::kNone) continue;
      offer(end, id, scores_[id]);
      whole_character |= end == next;
    }
    if (!whole_character) offer(next, kUnknownPiece, options_.unknown_score);
    at = next;
  }
  sum = nodes[text.size()].sum;
  segments.clear();
  for (std::size_t end = text.size(); end > 0; end = nodes[end].from) {
    segments.push_back({nodes[end].id, end});
    if (margin) margin->to_second = std::min(margin->to_second, nodes[end].sum - nodes[end].second);
  }
  std::ranges::reverse(segments);
}

template class Unigram<float>;
template class Unigram<double>;

}  // namespace mt
