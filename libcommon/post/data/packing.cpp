#include "post/data/packing.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"

namespace mt {
namespace {

struct Named {
  const char* name;
  Packing packing;
};
constexpr auto kNames =
    std::to_array<Named>({{"none", Packing::none},
                          {"mffd", Packing::mffd},
                          {"modified_first_fit_decreasing", Packing::mffd},
                          {"bfd", Packing::bfd},
                          {"knapsack", Packing::knapsack},
                          {"first_fit_decreasing", Packing::first_fit_decreasing},
                          {"concatenative", Packing::concatenative},
                          {"line", Packing::line},
                          {"wrapped", Packing::wrapped}});

using Lengths = std::span<const std::int64_t>;
using Bins = std::vector<std::vector<std::size_t>>;  // of texts

std::vector<std::size_t> longest_first(Lengths lengths) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return lengths[i]; });
  return order;
}

// Among bins with the same room, the one that has had it for longest.
Bins best_fit(Lengths lengths, std::int64_t capacity) {
  Bins bins;
  std::map<std::int64_t, std::deque<std::size_t>> by_room;
  for (const std::size_t text : longest_first(lengths)) {
    const auto found = by_room.lower_bound(lengths[text]);
    std::size_t bin = bins.size();
    std::int64_t room = capacity;
    if (found == by_room.end()) {
      bins.emplace_back();
    } else {
      room = found->first;
      bin = found->second.front();
      found->second.pop_front();
      if (found->second.empty()) by_room.erase(found);
    }
    bins[bin].push_back(text);
    by_room[room - lengths[text]].push_back(bin);
  }
  return bins;
}

// Among texts of the same length, the last.
Bins knapsack(Lengths lengths, std::int64_t capacity) {
  std::multimap<std::int64_t, std::size_t> left;
  for (std::size_t i = 0; i < lengths.size(); ++i) left.emplace(lengths[i], i);
  Bins bins;
  while (!left.empty()) {
    auto& bin = bins.emplace_back();
    for (std::int64_t room = capacity;;) {
      auto next = left.upper_bound(room);
      if (next == left.begin()) break;
      --next;
      bin.push_back(next->second);
      room -= next->first;
      left.erase(next);
    }
  }
  return bins;
}

Bins in_order(Lengths lengths, std::int64_t capacity) {
  Bins bins;
  std::int64_t room = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (bins.empty() || lengths[i] > room) {
      bins.emplace_back();
      room = capacity;
    }
    bins.back().push_back(i);
    room -= lengths[i];
  }
  return bins;
}

// The first bin with room is found in a tree of the most room under each node.
Bins first_fit(Lengths lengths, std::int64_t capacity) {
  std::size_t leaves = 1;
  while (leaves < lengths.size()) leaves *= 2;
  std::vector<std::int64_t> room(2 * leaves, capacity);
  Bins bins;
  for (const std::size_t text : longest_first(lengths)) {
    std::size_t node = 1;
    while (node < leaves) node = 2 * node + (room[2 * node] < lengths[text] ? 1 : 0);
    const std::size_t bin = node - leaves;
    if (bin == bins.size()) bins.emplace_back();
    bins[bin].push_back(text);
    room[node] -= lengths[text];
    for (node /= 2; node > 0; node /= 2) room[node] = std::max(room[2 * node], room[2 * node + 1]);
  }
  return bins;
}

class ModifiedFirstFit {
 public:
  ModifiedFirstFit(Lengths lengths, std::int64_t capacity)
      : lengths_(lengths), capacity_(capacity) {}

  Bins pack() {
    sort_into_classes();
    take_one_medium();
    take_two_small();
    take_what_fits();
    pack_rest();
    return std::move(bins_);
  }

 private:
  // Longest first, of the same length in order; so what fits into some room begins at (-room, 0).
  using Longest = std::set<std::pair<std::int64_t, std::size_t>>;

  // Large texts, of more than half of a bin, have a bin each.
  void sort_into_classes() {
    for (const std::size_t text : longest_first(lengths_)) {
      const std::int64_t length = lengths_[text];
      if (2 * length > capacity_) {
        bins_.push_back({text});
        room_.push_back(capacity_ - length);
      } else if (3 * length > capacity_) {
        medium_.emplace(-length, text);
      } else if (6 * length > capacity_) {
        small_.emplace(length, text);
      } else {
        rest_.emplace(-length, text);
      }
    }
    has_medium_.assign(bins_.size(), false);
  }

  void put(std::size_t bin, std::size_t text) {
    bins_[bin].push_back(text);
    room_[bin] -= lengths_[text];
  }

  void take_one_medium() {
    for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
      const auto found = medium_.lower_bound({-room_[bin], 0});
      if (found == medium_.end()) continue;
      put(bin, found->second);
      has_medium_[bin] = true;
      medium_.erase(found);
    }
  }

  void take_two_small() {
    for (std::size_t bin = bins_.size(); bin-- > 0;) {
      if (has_medium_[bin] || small_.size() < 2) continue;
      const auto first = *small_.begin();
      if (first.first + std::next(small_.begin())->first > room_[bin]) continue;
      small_.erase(small_.begin());
      const auto second =
          std::prev(small_.upper_bound({room_[bin] - first.first, lengths_.size()}));
      put(bin, first.second);
      put(bin, second->second);
      small_.erase(second);
    }
  }

  void take_what_fits() {
    rest_.merge(medium_);
    for (const auto& [length, text] : small_) rest_.emplace(-length, text);
    for (std::size_t bin = 0; bin < bins_.size(); ++bin)
      for (auto found = rest_.lower_bound({-room_[bin], 0}); found != rest_.end();
           found = rest_.lower_bound({-room_[bin], 0})) {
        put(bin, found->second);
        rest_.erase(found);
      }
  }

  // Each goes into the emptiest of the bins that are begun here, or begins one.
  void pack_rest() {
    std::multimap<std::int64_t, std::vector<std::size_t>> more;  // by tokens in them
    for (const auto& [length, text] : rest_) {
      std::vector<std::size_t> bin;
      std::int64_t tokens = 0;
      if (!more.empty() && more.begin()->first - length <= capacity_) {
        tokens = more.begin()->first;
        bin = std::move(more.begin()->second);
        more.erase(more.begin());
      }
      bin.push_back(text);
      more.emplace(tokens - length, std::move(bin));
    }
    for (auto& [tokens, bin] : more) bins_.push_back(std::move(bin));
  }

  Lengths lengths_;
  std::int64_t capacity_;
  Bins bins_;
  std::vector<std::int64_t> room_;  // of each bin
  std::vector<bool> has_medium_;
  Longest medium_, rest_;
  std::set<std::pair<std::int64_t, std::size_t>> small_;  // shortest first
};

std::vector<Bin> wrap(Lengths lengths, std::int64_t capacity) {
  std::vector<Bin> bins;
  std::int64_t room = 0;
  for (std::size_t text = 0; text < lengths.size(); ++text)
    for (std::int64_t begin = 0; begin < lengths[text];) {
      if (room == 0) {
        bins.emplace_back();
        room = capacity;
      }
      const std::int64_t size = std::min(room, lengths[text] - begin);
      bins.back().push_back({text, begin, begin + size});
      begin += size;
      room -= size;
    }
  return bins;
}

Bins whole_texts(Packing how, Lengths lengths, std::int64_t capacity) {
  switch (how) {
    case Packing::mffd:
      return ModifiedFirstFit(lengths, capacity).pack();
    case Packing::bfd:
      return best_fit(lengths, capacity);
    case Packing::knapsack:
      return knapsack(lengths, capacity);
    case Packing::first_fit_decreasing:
      return first_fit(lengths, capacity);
    case Packing::concatenative:
      return in_order(lengths, capacity);
    default:
      break;
  }
  Bins alone;
  for (std::size_t i = 0; i < lengths.size(); ++i) alone.push_back({i});
  return alone;
}

}  // namespace

std::vector<std::string> packing_names() {
  std::vector<std::string> names;
  for (const Named& one : kNames) names.emplace_back(one.name);
  return names;
}

Packing packing_of(const std::string& name) {
  return std::ranges::find(kNames, name, &Named::name)->packing;
}

bool cuts_texts(const std::string& packing) {
  const Packing how = packing_of(packing);
  return how == Packing::wrapped || how == Packing::line;
}

std::vector<Bin> pack_lines(std::span<const std::int64_t> lengths,
                            std::span<const std::int64_t> lines, std::int64_t capacity) {
  std::vector<Bin> bins;
  std::int64_t room = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i == 0 || lines[i] != lines[i - 1]) {
      bins.emplace_back();
      room = capacity;
    }
    const std::int64_t size = std::min(room, lengths[i]);
    if (size > 0) bins.back().push_back({i, 0, size});
    room -= size;
  }
  return bins;
}

std::vector<Bin> pack(Packing how, std::span<const std::int64_t> lengths, std::int64_t capacity) {
  if (how == Packing::wrapped) return wrap(lengths, capacity);
  std::vector<Bin> bins;
  for (const auto& texts : whole_texts(how, lengths, capacity)) {
    Bin& bin = bins.emplace_back();
    for (const std::size_t text : texts) bin.push_back({text, 0, lengths[text]});
  }
  return bins;
}

}  // namespace mt
