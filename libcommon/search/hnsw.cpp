#include "search/hnsw.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

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

// From neighbour to neighbour, as long as one is nearer.
Hnsw::Found Hnsw::walk(std::span<const float> vectors, std::int64_t columns, const float* vector,
                       Found from, std::int32_t level) const {
  for (;;) {
    const Found before = from;
    for (const std::int32_t to : places(before.second, level)) {
      if (to < 0) break;
      const float far = distance(vectors, columns, vector, to);
      if (far < from.first) from = {far, to};
    }
    if (from.second == before.second) return from;
  }
}

// The `ef` nearest that are found from `from` on, nearest first.
std::vector<Hnsw::Found> Hnsw::around(std::span<const float> vectors, std::int64_t columns,
                                      const float* vector, Found from, std::int32_t level,
                                      std::size_t ef) const {
  thread_local std::vector<std::uint32_t> seen;  // in which search a vector was
  thread_local std::uint32_t search = 0;
  if (seen.size() < levels.size() || ++search == 0) {
    seen.assign(std::max(seen.size(), levels.size()), 0);
    search = 1;
  }
  std::priority_queue<Found> best({}, {from});  // the farthest on top
  std::priority_queue<Found, std::vector<Found>, std::greater<>> open({}, {from});
  seen[static_cast<std::size_t>(from.second)] = search;
  while (!open.empty()) {
    const Found next = open.top();
    if (best.size() >= ef && next.first > best.top().first) break;
    open.pop();
    for (const std::int32_t to : places(next.second, level)) {
      if (to < 0) break;
      if (std::exchange(seen[static_cast<std::size_t>(to)], search) == search) continue;
      const float far = distance(vectors, columns, vector, to);
      if (best.size() >= ef && far >= best.top().first) continue;
      open.emplace(far, to);
      best.emplace(far, to);
      if (best.size() > ef) best.pop();
    }
  }
  std::vector<Found> found(best.size());
  for (auto at = found.rbegin(); at != found.rend(); ++at, best.pop()) *at = best.top();
  return found;
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
