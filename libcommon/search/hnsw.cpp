#include "search/hnsw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/near_rows.h"

namespace mt {

constexpr std::uint64_t kSeed = 12345;
constexpr std::uint32_t kPurpose = 0x686E7377;

Hnsw::Hnsw(std::int64_t links) {
  const double scale = 1 / std::log(static_cast<double>(links));
  std::int64_t places = 0;
  cumulative.push_back(0);
  for (int level = 0;; ++level) {
    const double p = std::exp(-level / scale) * (1 - std::exp(-1 / scale));
    if (p < 1e-9) break;
    probabilities.push_back(p);
    places += level == 0 ? 2 * links : links;
    cumulative.push_back(static_cast<std::int32_t>(places));
  }
}

std::span<std::int32_t> Hnsw::places(std::int32_t vector, std::int32_t level) {
  const auto begin = offsets[static_cast<std::size_t>(vector)] +
                     static_cast<std::uint64_t>(cumulative[static_cast<std::size_t>(level)]);
  const auto end = offsets[static_cast<std::size_t>(vector)] +
                   static_cast<std::uint64_t>(cumulative[static_cast<std::size_t>(level) + 1]);
  return std::span(neighbors).subspan(begin, end - begin);
}

std::span<const std::int32_t> Hnsw::places(std::int32_t vector, std::int32_t level) const {
  return const_cast<Hnsw*>(this)->places(vector, level);
}

// Of numbers that are none infinitely far.
static float distance(std::span<const float> vectors, std::int64_t columns, const float* vector,
                      std::int32_t other) {
  const float far =
      cpu::squared_distance(vector, &vectors[static_cast<std::size_t>(other * columns)], columns);
  return std::isnan(far) ? INFINITY : far;
}

// Distances of some of a graph's vectors from one, which come together.
class Distances {
 public:
  Distances(std::span<const float> vectors, std::int64_t columns, const float* from)
      : vectors_(vectors), columns_(columns), from_(from) {}

  // Where it is no guess whether one is asked for.
  void ask(std::int32_t vector, bool really = true) {
    if (count_ == asked_.size()) asked_.resize(2 * count_ + 64);
    asked_[count_] = vector;
    count_ += really ? 1 : 0;
  }
  // take(distance, vector) for each that was asked for, in that order.
  void take(const auto& each) {
    far_.resize(asked_.size());
    cpu::squared_distances_of(far_.data(), from_, vectors_.data(), asked_.data(),
                              static_cast<std::int64_t>(count_), columns_);
    for (std::size_t i = 0; i < count_; ++i)
      each(std::isnan(far_[i]) ? INFINITY : far_[i], asked_[i]);
    count_ = 0;
  }

 private:
  std::span<const float> vectors_;
  std::int64_t columns_;
  const float* from_;
  std::size_t count_ = 0;
  std::vector<std::int32_t> asked_;  // the first count_
  std::vector<float> far_;
};

// From neighbour to neighbour, as long as one is nearer.
Hnsw::Found Hnsw::walk(std::span<const float> vectors, std::int64_t columns, const float* vector,
                       Found from, std::int32_t level) const {
  Distances distances(vectors, columns, vector);
  for (;;) {
    const Found before = from;
    for (const std::int32_t to : places(before.second, level)) {
      if (to < 0) break;
      distances.ask(to);
    }
    distances.take([&](float far, std::int32_t to) {
      if (far < from.first) from = {far, to};
    });
    if (from.second == before.second) return from;
  }
}

// The nearest so far, at most `most`, nearest first, of which some were gone on from.  A number has
// a distance's bits, as none is negative, then a vector's, and at last whether it was.
class Nearest {
 public:
  explicit Nearest(std::size_t most) : most_(most) { ones_.reserve(most + 1); }

  void add(float far, std::int32_t vector) {
    if (ones_.size() == most_ && far >= distance_of(ones_.back())) return;
    const std::uint64_t one = std::uint64_t{std::bit_cast<std::uint32_t>(far)} << 32 |
                              static_cast<std::uint64_t>(vector) << 1;
    const std::size_t place = place_of(one);
    open_ = std::min(open_, place);
    if (ones_.size() == most_) ones_.pop_back();
    ones_.insert(ones_.begin() + static_cast<std::ptrdiff_t>(place), one);
  }
  // The nearest that was not gone on from: it is now.  -1: all were.
  std::int32_t next() {
    while (open_ < ones_.size() && (ones_[open_] & 1) != 0) ++open_;
    if (open_ == ones_.size()) return -1;
    return vector_of(ones_[open_++] |= 1);
  }
  std::vector<Hnsw::Found> found() const {
    std::vector<Hnsw::Found> all;
    for (const std::uint64_t one : ones_) all.emplace_back(distance_of(one), vector_of(one));
    return all;
  }

 private:
  // How many are before it, found by halves, but by no guess.
  std::size_t place_of(std::uint64_t one) const {
    std::size_t place = 0;
    for (std::size_t count = ones_.size(); count > 0; count /= 2) {
      const std::size_t half = (count + 1) / 2;
      const bool before = ones_[place + half - 1] < one;
      place += before ? half : 0;
    }
    return place;
  }
  static float distance_of(std::uint64_t one) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(one >> 32));
  }
  static std::int32_t vector_of(std::uint64_t one) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(one) >> 1);
  }

  std::size_t most_, open_ = 0;  // all before open_ were gone on from
  std::vector<std::uint64_t> ones_;
};

// The `ef` nearest that are found from `from` on, nearest first.
std::vector<Hnsw::Found> Hnsw::around(std::span<const float> vectors, std::int64_t columns,
                                      const float* vector, Found from, std::int32_t level,
                                      std::size_t ef) const {
  thread_local std::vector<std::uint32_t> all_seen;  // in which search a vector was
  thread_local std::uint32_t searches = 0;
  if (all_seen.size() < levels.size() || ++searches == 0) {
    all_seen.assign(std::max(all_seen.size(), levels.size()), 0);
    searches = 1;
  }
  const std::span seen = all_seen;
  const std::uint32_t search = searches;
  Distances distances(vectors, columns, vector);
  Nearest nearest(std::min(ef, levels.size()));
  nearest.add(from.first, from.second);
  seen[static_cast<std::size_t>(from.second)] = search;
  for (std::int32_t next = nearest.next(); next >= 0; next = nearest.next()) {
    for (const std::int32_t to : places(next, level)) {
      if (to < 0) break;
      distances.ask(to, std::exchange(seen[static_cast<std::size_t>(to)], search) != search);
    }
    distances.take([&](float far, std::int32_t to) { nearest.add(far, to); });
  }
  return nearest.found();
}

// Those of `near`, nearest first, that are nearer to the vector than to one that was taken.
static std::vector<Hnsw::Found> apart(std::span<const float> vectors, std::int64_t columns,
                                      std::span<const Hnsw::Found> near, std::size_t most) {
  std::vector<Hnsw::Found> taken;
  for (const Hnsw::Found& one : near) {
    if (taken.size() == most) break;
    const float* const here = &vectors[static_cast<std::size_t>(one.second * columns)];
    if (std::ranges::all_of(taken, [&](const Hnsw::Found& other) {
          return distance(vectors, columns, here, other.second) >= one.first;
        }))
      taken.push_back(one);
  }
  return taken;
}

// A way from one vector to another; where it has no room for it, the best of all stay.
void Hnsw::link(std::span<const float> vectors, std::int64_t columns, std::int32_t from,
                std::int32_t to, std::int32_t level) {
  const std::span<std::int32_t> room = places(from, level);
  if (const auto free = std::ranges::find(room, -1); free != room.end()) {
    *free = to;
    return;
  }
  const float* const here = &vectors[static_cast<std::size_t>(from * columns)];
  std::vector<Found> near = {{distance(vectors, columns, here, to), to}};
  for (const std::int32_t other : room)
    near.emplace_back(distance(vectors, columns, here, other), other);
  std::ranges::sort(near);
  const std::vector<Found> taken = apart(vectors, columns, near, room.size());
  std::ranges::fill(room, -1);
  for (std::size_t i = 0; i < taken.size(); ++i) room[i] = taken[i].second;
}

void Hnsw::build(std::span<const float> vectors, std::int64_t columns) {
  const auto count = static_cast<std::int32_t>(std::ssize(vectors) / columns);
  const RandomKey key = RandomKey::make(kSeed, kPurpose);
  for (std::int32_t i = 0; i < count; ++i) {
    double draw = to_unit(philox({static_cast<std::uint32_t>(i), 0, 0, 0}, key)[0]);
    std::size_t level = 0;
    while (level + 1 < probabilities.size() && draw >= probabilities[level])
      draw -= probabilities[level++];
    levels.push_back(static_cast<std::int32_t>(level + 1));
    offsets.push_back(offsets.back() + static_cast<std::uint64_t>(cumulative[level + 1]));
  }
  expect_memory(offsets.back() * sizeof neighbors[0], concat("a graph of ", count, " centres"));
  neighbors.assign(offsets.back(), -1);
  std::vector<std::int32_t> order;  // those of high levels first, as faiss has it
  for (std::int32_t i = 0; i < count; ++i) order.push_back(i);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::int32_t i) { return levels[static_cast<std::size_t>(i)]; });
  for (const std::int32_t i : order) {
    const std::int32_t top = levels[static_cast<std::size_t>(i)] - 1;
    if (entry < 0) {
      entry = i;
      max_level = top;
      continue;
    }
    const float* const here = &vectors[static_cast<std::size_t>(i * columns)];
    Found from = {distance(vectors, columns, here, entry), entry};
    for (std::int32_t level = max_level; level > top; --level)
      from = walk(vectors, columns, here, from, level);
    for (std::int32_t level = std::min(top, max_level); level >= 0; --level) {
      const std::vector<Found> near =
          around(vectors, columns, here, from, level, static_cast<std::size_t>(ef_construction));
      from = near.front();
      for (const Found& one : apart(vectors, columns, near, places(i, level).size())) {
        link(vectors, columns, i, one.second, level);
        link(vectors, columns, one.second, i, level);
      }
    }
  }
}

std::vector<Hnsw::Found> Hnsw::search(std::span<const float> vectors, std::int64_t columns,
                                      const float* vector, std::int64_t count,
                                      std::int64_t ef) const {
  if (entry < 0) return {};
  Found from = {distance(vectors, columns, vector, entry), entry};
  for (std::int32_t level = max_level; level > 0; --level)
    from = walk(vectors, columns, vector, from, level);
  std::vector<Found> found =
      around(vectors, columns, vector, from, 0, static_cast<std::size_t>(std::max(count, ef)));
  if (std::ssize(found) > count) found.resize(static_cast<std::size_t>(count));
  return found;
}

}  // namespace mt
