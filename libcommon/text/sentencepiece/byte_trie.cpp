#include "text/sentencepiece/byte_trie.h"

#include <algorithm>
#include <string>

namespace mt {

// Gives the children of one node after another their cells.  Free cells form a ring through their
// `next` and `previous`, headed by a cell past the last one.
class ByteTrie::Builder {
 public:
  Builder(std::vector<Cell>& cells, const std::vector<Entry>& entries)
      : cells_(cells), entries_(entries) {
    std::size_t most = 2 * kBlock;  // nodes, of keys that share nothing
    for (const Entry& entry : entries) most += entry.first.size();
    cells_.clear();
    cells_.reserve(most);
    links_.reserve(most);
    links_.assign(1, {0, 0});
    add_block();
    take(kRoot);
  }

  void build() {
    std::vector<Range> open{{kRoot, 0, entries_.size(), 0}};
    while (!open.empty()) {
      const Range range = open.back();
      open.pop_back();
      place(range, open);
    }
  }

 private:
  // The keys from `begin` to `end` share their first `depth` bytes, which lead to `node`.
  struct Range {
    Node node;
    std::size_t begin, end, depth;
  };
  struct Link {  // of cell i at links_[i + 1]; links_[0] is the ring's head
    std::uint32_t previous, next;
  };
  static constexpr int kTries = 64;  // places to look at before a new block is begun

  void add_block() {
    const auto first = static_cast<std::uint32_t>(cells_.size() + 1);
    cells_.resize(cells_.size() + kBlock);
    links_.resize(cells_.size() + 1);
    for (std::uint32_t i = first; i < links_.size(); ++i) {
      const std::uint32_t last = links_[0].previous;
      links_[i] = {last, 0};
      links_[last].next = i;
      links_[0].previous = i;
    }
    taken_.resize(cells_.size());
  }

  void take(Node cell) {
    const Link link = links_[cell + 1];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
    taken_[cell] = true;
  }

  // Where all of labels_ find a free cell.  The newest cells come first: the oldest are what others
  // did not fit into; only single children fill those.
  Node find_base() {
    const auto first = static_cast<unsigned char>(labels_.front());
    if (labels_.size() == 1 && links_[0].next != 0) return (links_[0].next - 1) ^ first;
    std::uint32_t link = links_[0].previous;
    for (int tries = 0; link != 0 && tries < kTries; ++tries, link = links_[link].previous) {
      const Node base = (link - 1) ^ first;
      if (std::ranges::none_of(labels_, [&](char label) {
            return taken_[base ^ static_cast<unsigned char>(label)];
          }))
        return base;
    }
    add_block();
    return static_cast<Node>(cells_.size() - kBlock);
  }

  void place(Range range, std::vector<Range>& open) {
    while (range.begin < range.end && entries_[range.begin].first.size() == range.depth)
      cells_[range.node].value = entries_[range.begin++].second;
    if (range.begin == range.end) return;
    const auto label = [&](std::size_t i) { return entries_[i].first[range.depth]; };
    labels_.clear();
    for (std::size_t i = range.begin; i < range.end; ++i)
      if (labels_.empty() || labels_.back() != label(i)) labels_ += label(i);
    const Node base = find_base();
    cells_[range.node].base = base;
    for (std::size_t i = range.begin; i < range.end;) {
      const Node child = base ^ static_cast<unsigned char>(label(i));
      take(child);
      cells_[child].parent = range.node;
      const std::size_t begin = i;
      while (i < range.end && label(i) == label(begin)) ++i;
      open.push_back({child, begin, i, range.depth + 1});
    }
  }

  std::vector<Cell>& cells_;
  const std::vector<Entry>& entries_;
  std::vector<Link> links_;
  std::vector<bool> taken_;
  std::string labels_;  // of the children that are being placed
};

// By key, and equal keys as they came.  Most comparisons are of the first bytes, as a number.
static std::vector<ByteTrie::Entry> sorted(const std::vector<ByteTrie::Entry>& entries) {
  struct Place {
    std::uint64_t first = 0;
    std::size_t entry;
  };
  std::vector<Place> places;
  places.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string_view key = entries[i].first;
    if (key.empty()) continue;
    Place place{.entry = i};
    for (std::size_t at = 0; at < sizeof place.first; ++at)
      place.first = place.first << 8 | (at < key.size() ? static_cast<unsigned char>(key[at]) : 0);
    places.push_back(place);
  }
  std::ranges::sort(places, [&](const Place& a, const Place& b) {
    if (a.first != b.first) return a.first < b.first;
    const int order = entries[a.entry].first.compare(entries[b.entry].first);
    return order != 0 ? order < 0 : a.entry < b.entry;
  });
  std::vector<ByteTrie::Entry> result;
  result.reserve(places.size());
  for (const Place& place : places) result.push_back(entries[place.entry]);
  return result;
}

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  entries = sorted(entries);
  Builder(cells_, entries).build();
}

ByteTrie::Match ByteTrie::longest_prefix(std::string_view text, int at_most) const {
  Match longest;
  Node node = kRoot;
  for (std::size_t at = 0; at < text.size() && at_most > 0 && step(node, text[at]); ++at) {
    if (value(node) == kNone) continue;
    longest = {at + 1, value(node)};
    --at_most;
  }
  return longest;
}

}  // namespace mt
