#include "kernels/near_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "kernels/code_products.h"
#include "kernels/loops.h"
#include "kernels/unrolled.h"

namespace mt {
namespace {

static_assert(RowCodes::kTile == cpu::kCodeTile);

// What is said of one vector beside its codes.
struct Coded {
  float scale, coded, error, length;  // s, |s q|, |e|, |y|: the last three are at least that
  std::int32_t sum;                   // of q
};

float loss_of(std::int64_t columns, float length) {
  return 4 * (static_cast<float>(columns) / 16 + 32) * 0x1p-23F * length * length;
}

using Lanes [[gnu::vector_size(cpu::kLanes * sizeof(float))]] = float;
using Whole [[gnu::vector_size(cpu::kLanes * sizeof(float))]] = std::int32_t;

using Bytes [[gnu::vector_size(cpu::kLanes)]] = std::int8_t;

template <class T, class From>
[[gnu::always_inline]] inline T load(const From* from) {
  T lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

// The first `count` of kLanes, and zeros.
[[gnu::always_inline]] inline Lanes load_some(const float* from, std::int64_t count) {
  if (count >= cpu::kLanes) return load<Lanes>(from);
  Lanes lanes = {};
  std::memcpy(&lanes, from, static_cast<std::size_t>(count) * sizeof(float));
  return lanes;
}

[[gnu::always_inline]] inline float largest(Lanes of) {
  float most = of[0];
  for (int lane = 1; lane < cpu::kLanes; ++lane) most = of[lane] > most ? of[lane] : most;
  return most;
}

[[gnu::always_inline]] inline bool any(Whole of) {
  std::uint64_t words[cpu::kLanes / 2], all = 0;
  std::memcpy(words, &of, sizeof words);
  for (const std::uint64_t word : words) all |= word;
  return all != 0;
}

// Writes the codes of y = x - m, and zeros up to a multiple of kLanes, in both.
[[gnu::always_inline]] inline Coded code_row(std::int8_t* codes, float* y, const float* x,
                                             const float* middle, std::int64_t columns) {
  constexpr float kMost = 127, kToInteger = 0x1.8p23F, kLargest = std::numeric_limits<float>::max();
  const float more = 1 + (static_cast<float>(columns) / 16 + 16) * 0x1p-22F;
  Lanes most = {};
  Whole odd = {};
  for (std::int64_t c = 0; c < columns; c += cpu::kLanes) {
    const Lanes now = load_some(x + c, columns - c) - load_some(middle + c, columns - c),
                size = now < 0 ? -now : now;
    std::memcpy(y + c, &now, sizeof now);
    odd |= ~(size <= kLargest);
    most = size > most ? size : most;
  }
  const bool finite = !any(odd) && columns <= RowCodes::kMostColumns;
  const float top = largest(most), inverse = kMost / top;
  const bool coded = finite && top > 0 && inverse <= kLargest;
  const float scale = coded ? top / kMost : 0, by = coded ? inverse : 0;
  Lanes sums[3] = {};
  Whole of_codes = {};
  for (std::int64_t c = 0; c < columns; c += cpu::kLanes) {
    const Lanes now = load<Lanes>(y + c);
    const Lanes whole = coded ? (now * by + kToInteger) - kToInteger : Lanes{};
    const Lanes near = scale * whole, rest = now - near;
    const Whole numbers = __builtin_convertvector(whole, Whole);
    const Bytes bytes = __builtin_convertvector(numbers, Bytes);
    std::memcpy(codes + c, &bytes, sizeof bytes);
    of_codes += numbers;
    sums[0] += near * near;
    sums[1] += rest * rest;
    sums[2] += now * now;
  }
  const auto length = [&](Lanes of) {
    float sum = static_cast<float>(columns) * std::numeric_limits<float>::min();  // underflows
    for (int lane = 0; lane < cpu::kLanes; ++lane) sum += of[lane];
    return std::sqrt(sum) * more;
  };
  std::int32_t sum = 0;
  for (int lane = 0; lane < cpu::kLanes; ++lane) sum += of_codes[lane];
  // A product of codes is exact, but s q and y are rounded: |y| 2^-22 more of an error.
  const float of_y = length(sums[2]);
  return {scale, length(sums[0]),
          finite ? length(sums[1]) + of_y * 0x1p-22F : std::numeric_limits<float>::infinity(), of_y,
          sum};
}

// Means of some of the vectors, which need not be exact.
std::vector<float> some_middle(const float* vectors, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSome = 1024;
  std::vector<float> sums(static_cast<std::size_t>(columns));
  const std::int64_t step = std::max<std::int64_t>(1, rows / kSome);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < rows; i += step, ++count)
    for (std::int64_t c = 0; c < columns; ++c)
      sums[static_cast<std::size_t>(c)] += vectors[i * columns + c];
  for (float& sum : sums) {
    sum /= static_cast<float>(std::max<std::int64_t>(1, count));
    if (!std::isfinite(sum)) sum = 0;
  }
  return sums;
}

}  // namespace

RowCodes::RowCodes(const float* vectors, std::int64_t rows_of, std::int64_t columns_of,
                   bool by_products)
    : rows(rows_of), columns(columns_of), inner(by_products) {
  const std::int64_t tiles = (rows + kTile - 1) / kTile;
  middle = inner ? std::vector<float>(static_cast<std::size_t>(columns))
                 : some_middle(vectors, rows, columns);
  codes.resize(static_cast<std::size_t>(tiles * depth() * kTile * 4));
  const auto places = static_cast<std::size_t>(tiles * kTile);
  for (std::vector<float>* const all : {&scales, &errors, &lengths, &losses}) all->resize(places);
  halves.assign(places, std::numeric_limits<float>::infinity());
  cpu::for_blocks(tiles, 1, [&](std::int64_t tile, std::int64_t) {
    std::vector<float> y(static_cast<std::size_t>(columns + cpu::kLanes));
    std::vector<std::int8_t> row(y.size());
    std::uint8_t* const to = &codes[static_cast<std::size_t>(tile * depth() * kTile * 4)];
    for (std::int64_t i = tile * kTile; i < std::min(rows, (tile + 1) * kTile); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const Coded coded =
          code_row(row.data(), y.data(), vectors + i * columns, middle.data(), columns);
      scales[at] = coded.scale;
      errors[at] = coded.error;
      lengths[at] = coded.length;
      halves[at] = inner ? 0 : coded.length * coded.length / 2;
      losses[at] = loss_of(columns, coded.length);
      for (std::int64_t d = 0; d < depth(); ++d) {
        std::uint8_t four[4];
        for (std::int64_t b = 0; b < 4; ++b)
          four[b] = static_cast<std::uint8_t>(row[static_cast<std::size_t>(4 * d + b)] + 128);
        std::memcpy(to + (d * kTile + i % kTile) * 4, four, sizeof four);
      }
    }
  });
}

}  // namespace mt

namespace mt::cpu {
namespace {

constexpr std::int64_t kRows = 48;       // of x that meet a tile of codes in the first cache
constexpr std::int64_t kVectors = 1024;  // whose products with these are in the second
static_assert(kRows % kCodeRows == 0 && kVectors % kCodeTile == 0);
// So many vectors may wait for their distances to a row, as all would where bounds leave out next
// to nothing.
constexpr std::size_t kMostMay = 1 << 14;

[[gnu::always_inline]] inline float distance(const float* a, const float* b, std::int64_t columns) {
  return sum<float>(
      columns, [&](std::int64_t c)
                   __attribute__((always_inline)) { return (a[c] - b[c]) * (a[c] - b[c]); });
}

[[gnu::always_inline]] inline float product(const float* a, const float* b, std::int64_t columns) {
  return sum<float>(
      columns, [&](std::int64_t c) __attribute__((always_inline)) { return a[c] * b[c]; });
}

using One = std::pair<float, std::int64_t>;  // a distance or a bound, a number

// The vectors that may be near to one, so far.
struct Found {
  // The largest lower bounds, of one vector in four at most: a heap, the least in front.
  std::vector<float> lowest = {};
  std::vector<One> may = {};   // upper bounds
  std::vector<One> told = {};  // distances of those that were made, the nearest first
  float floor = -INFINITY;     // as many have lower bounds of this

  void clear() {
    for (std::vector<One>* const all : {&may, &told}) all->clear();
    lowest.clear();
    floor = -INFINITY;
  }
};

class Block {  // of rows of x
 public:
  // products: room for kRows kVectors;  found: for kRows.
  Block(const NearRows& p, std::span<std::int32_t> products, std::span<Found> found)
      : p_(p),
        codes_(*p.codes),
        width_(4 * codes_.depth()),
        x_(static_cast<std::size_t>(kRows * width_ + kLanes)),
        y_(static_cast<std::size_t>(codes_.columns + kLanes)),
        products_(products),
        found_(found) {
    for (Found& of : found_) of.clear();
  }

  // done(row, its candidates), nearest first where there are several, as distances say.
  template <class Done>
  [[gnu::always_inline]] inline void run(std::int64_t begin, std::int64_t end, bool distances,
                                         const Done& done) {
    for (std::int64_t i = begin; i < end; ++i) code(i - begin, p_.x + i * codes_.columns);
    const std::int64_t rows = (end - begin + kCodeRows - 1) / kCodeRows * kCodeRows;
    for (std::int64_t first = 0; first < codes_.rows; first += kVectors) {
      const std::int64_t some = std::min(kVectors, codes_.rows - first);
      for (std::int64_t j = 0; j < some; j += kCodeTile)
        code_products({.out = &products_[static_cast<std::size_t>(j)],
                       .stride = kVectors,
                       .x = x_.data(),
                       .starts = starts_,
                       .rows = rows,
                       .depth = codes_.depth(),
                       .tile = &codes_.codes[static_cast<std::size_t>((first + j) * width_)]});
      for (std::int64_t i = begin; i < end; ++i) {
        choose(i - begin, first, some);
        if (Found& found = found_of(i - begin); found.may.size() > kMostMay)
          tell(found, p_.x + i * codes_.columns, own_of(i - begin), true);
      }
    }
    for (std::int64_t i = begin; i < end; ++i) {
      Found& found = found_of(i - begin);
      tell(found, p_.x + i * codes_.columns, own_of(i - begin), distances);
      done(i, std::as_const(found.told));
    }
  }

 private:
  [[gnu::always_inline]] inline void code(std::int64_t i, const float* x) {
    std::int8_t* const codes = &x_[static_cast<std::size_t>(i * width_)];
    of_[i] = code_row(codes, y_.data(), x, codes_.middle.data(), codes_.columns);
    starts_[i] = -128 * of_[i].sum;
  }

  Found& found_of(std::int64_t i) { return found_[static_cast<std::size_t>(i)]; }

  // Twice a row's own part of the bounds, which is in none of those that are kept.
  float own_of(std::int64_t i) const { return 2 * loss_of(codes_.columns, of_[i].length); }

  // What the vectors' own bounds say of vectors first, first + 1, … for row i.
  [[gnu::always_inline]] inline void choose(std::int64_t i, std::int64_t first, std::int64_t some) {
    const std::int32_t* const products = &products_[static_cast<std::size_t>(i * kVectors)];
    const auto at = static_cast<std::size_t>(first);
    const float *const scales = &codes_.scales[at], *const halves = &codes_.halves[at],
                       *const errors = &codes_.errors[at], *const lengths = &codes_.lengths[at],
                       *const losses = &codes_.losses[at];
    const Coded of = of_[i];
    const std::int64_t tiles = (some + kCodeTile - 1) / kCodeTile;
    Found& found = found_of(i);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      Lanes top = Lanes{} - INFINITY;
      for (std::int64_t j = tile * kCodeTile; j < (tile + 1) * kCodeTile; j += kLanes) {
        const Lanes middle = __builtin_convertvector(load<Whole>(products + j), Lanes) *
                                 load<Lanes>(scales + j) * of.scale -
                             load<Lanes>(halves + j),
                    wide = load<Lanes>(losses + j) + of.coded * load<Lanes>(errors + j) +
                           of.error * load<Lanes>(lengths + j),
                    upper = middle + wide, low = middle - wide;
        std::memcpy(upper_ + j, &upper, sizeof upper);
        top = low > top ? low : top;
      }
      if (!any(top > Lanes{} + found.floor)) continue;
      for (int lane = 0; lane < kLanes; ++lane) raise(found, top[lane]);
    }
    const float own = own_of(i);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const Lanes least = Lanes{} + (found.floor - own);
      Whole takes = {};
      for (std::int64_t j = tile * kCodeTile; j < (tile + 1) * kCodeTile; j += kLanes)
        takes |= ~(load<Lanes>(upper_ + j) < least);
      if (!any(takes)) continue;
      for (std::int64_t j = tile * kCodeTile; j < std::min(some, (tile + 1) * kCodeTile); ++j) {
        if (upper_[j] < found.floor - own) continue;
        found.may.emplace_back(upper_[j], first + j);
      }
    }
  }

  // Sorts those whose upper bounds are high enough among the nearest by their distances, but for
  // one alone that nobody asks the distance of.
  [[gnu::always_inline]] inline void tell(Found& found, const float* x, float own,
                                          bool distances) const {
    std::erase_if(found.may, [&](const One& one) { return one.first < found.floor - own; });
    const bool alone = found.told.empty() && found.may.size() == 1 && !distances;
    for (auto& [far, id] : found.may) {
      if (alone) break;
      const float* const other = p_.vectors + id * codes_.columns;
      far = codes_.inner ? -product(x, other, codes_.columns) : distance(x, other, codes_.columns);
      if (std::isnan(far)) far = INFINITY;
    }
    found.told.insert(found.told.end(), found.may.begin(), found.may.end());
    found.may.clear();
    const auto count = std::min(p_.count, std::ssize(found.told));
    std::ranges::partial_sort(found.told, found.told.begin() + count);
    found.told.resize(static_cast<std::size_t>(count));
  }

  // With a lower bound of one more vector.
  void raise(Found& found, float low) const {
    if (!(low > found.floor)) return;
    found.lowest.push_back(low);
    std::ranges::push_heap(found.lowest, std::greater<>());
    if (std::ssize(found.lowest) > p_.count) {
      std::ranges::pop_heap(found.lowest, std::greater<>());
      found.lowest.pop_back();
    }
    if (std::ssize(found.lowest) == p_.count) found.floor = found.lowest.front();
  }

  const NearRows& p_;
  const RowCodes& codes_;
  std::int64_t width_;
  std::vector<std::int8_t> x_;  // codes
  std::vector<float> y_;
  std::span<std::int32_t> products_;
  std::span<Found> found_;
  Coded of_[kRows] = {};
  std::int32_t starts_[kRows] = {};
  float upper_[kVectors] = {};
};

// done(row, candidates) for all rows, some at a time on several threads.
template <class Done>
void for_rows(const NearRows& p, bool distances, const Done& done) {
  for_blocks(p.rows, kRows, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<std::int32_t> products(kRows * kVectors);
    thread_local std::vector<Found> found(kRows);
    Block block(p, products, found);
    block.run(begin, end, distances, done);
  });
}

}  // namespace

float squared_distance(const float* a, const float* b, std::int64_t columns) {
  float far = 0;
  run([&] { far = distance(a, b, columns); });
  return far;
}

float inner_product(const float* a, const float* b, std::int64_t columns) {
  float near = 0;
  run([&] { near = product(a, b, columns); });
  return near;
}

// Cuts each block of kWide lanes in two halves, p's blocks before q's, and adds these halves.
template <int kWide, int... kPlaces>
[[gnu::always_inline]] static inline Lanes halves_of(Lanes p, Lanes q,
                                                     std::integer_sequence<int, kPlaces...>) {
  constexpr auto first = [](int place) {
    return place / (kWide / 2) * kWide + place % (kWide / 2);
  };
  return __builtin_shufflevector(p, q, first(kPlaces)...) +
         __builtin_shufflevector(p, q, first(kPlaces) + kWide / 2 ...);
}

// What sum() makes of the lanes of kLanes registers, a number each; of the first 32 / kWide blocks
// of kWide / 2 lanes each.
template <int kWide = 2>
[[gnu::always_inline]] static inline Lanes sums_of(const Lanes* lanes) {
  constexpr auto places = std::make_integer_sequence<int, kLanes>();
  if constexpr (kWide == kLanes)
    return halves_of<kWide>(lanes[0], lanes[1], places);
  else
    return halves_of<kWide>(sums_of<2 * kWide>(lanes), sums_of<2 * kWide>(lanes + kLanes / kWide),
                            places);
}

// add(column, of) for each kLanes of a row's numbers, which of(place of the first) loads.
template <class Add>
[[gnu::always_inline]] static inline void over_lanes(std::int64_t columns, const Add& add) {
  std::int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) add(c, load<Lanes, float>);
  if (c < columns)
    add(
        c, [&](const float* from)
               __attribute__((always_inline)) { return load_some(from, columns - c); });
}

// `to` gets the lanes of the distances, [kOthers, kFew], of kFew rows of a from kOthers of b, each
// of which is read once.
template <int kFew, int kOthers>
[[gnu::always_inline]] static inline void add_squares(Lanes* to, const float* a, const float* b,
                                                      std::int64_t columns) {
  Lanes lanes[kOthers * kFew] = {};
  const auto add = [&](std::int64_t c, const auto& of) __attribute__((always_inline)) {
    Lanes theirs[kOthers];
    MT_UNROLLED for (int j = 0; j < kOthers; ++j) theirs[j] = of(b + j * columns + c);
    MT_UNROLLED for (int i = 0; i < kFew; ++i) {
      const Lanes ours = of(a + i * columns + c);
      MT_UNROLLED for (int j = 0; j < kOthers; ++j) {
        const Lanes apart = ours - theirs[j];
        lanes[j * kFew + i] += apart * apart;
      }
    }
  };
  over_lanes(columns, add);
  MT_UNROLLED for (int k = 0; k < kOthers * kFew; ++k) to[k] = lanes[k];
}

// The distances of kFew rows of a from all of b, kOthers of these at a time.
template <int kFew, int kOthers>
[[gnu::always_inline]] static inline void few_distances(float* far, const float* a, const float* b,
                                                        std::int64_t n, std::int64_t columns) {
  constexpr std::int64_t kTogether = kLanes / kFew;  // whose sums are made at once
  Lanes lanes[kLanes] = {};
  for (std::int64_t first = 0; first < n; first += kTogether) {
    const std::int64_t some = std::min(kTogether, n - first);
    std::int64_t j = 0;
    for (; j + kOthers <= some; j += kOthers)
      add_squares<kFew, kOthers>(lanes + j * kFew, a, b + (first + j) * columns, columns);
    for (; j < some; ++j)
      add_squares<kFew, 1>(lanes + j * kFew, a, b + (first + j) * columns, columns);
    const Lanes sums = sums_of(lanes);
    for (j = 0; j < some; ++j)
      for (std::int64_t i = 0; i < kFew; ++i) far[i * n + first + j] = sums[j * kFew + i];
  }
}

void squared_distances(float* far, const float* a, std::int64_t m, const float* b, std::int64_t n,
                       std::int64_t columns) {
  run([&] {
    std::int64_t i = 0;
    for (; isa() == Isa::avx512 && i + 4 <= m; i += 4)
      few_distances<4, 4>(far + i * n, a + i * columns, b, n, columns);
    for (; i + 4 <= m; i += 4) few_distances<4, 1>(far + i * n, a + i * columns, b, n, columns);
    for (; i < m; ++i) few_distances<1, 1>(far + i * n, a + i * columns, b, n, columns);
  });
}

void squared_distances_of(float* far, const float* x, const float* b, const std::int32_t* numbers,
                          std::int64_t count, std::int64_t columns) {
  constexpr std::int64_t kFew = 4;  // that do not wait for each other
  run([&] {
    Lanes lanes[kLanes] = {};
    for (std::int64_t first = 0; first < count; first += kLanes) {
      const std::int64_t some = std::min<std::int64_t>(kLanes, count - first);
      for (std::int64_t k = 0; k < some; k += kFew) {
        const float* rows[kFew];
        for (std::int64_t j = 0; j < kFew; ++j)
          rows[j] = b + numbers[first + std::min(k + j, some - 1)] * columns;
        Lanes here[kFew] = {};
        const auto add = [&](std::int64_t c, const auto& of) __attribute__((always_inline)) {
          const Lanes ours = of(x + c);
          MT_UNROLLED for (int j = 0; j < kFew; ++j) {
            const Lanes apart = ours - of(rows[j] + c);
            here[j] += apart * apart;
          }
        };
        over_lanes(columns, add);
        MT_UNROLLED for (int j = 0; j < kFew; ++j) lanes[k + j] = here[j];
      }
      const Lanes sums = sums_of(lanes);
      for (std::int64_t k = 0; k < some; ++k) far[first + k] = sums[k];
    }
  });
}

void near_rows(std::int64_t* numbers, float* distances, const NearRows& p) {
  for_rows(p, true, [&](std::int64_t row, const std::vector<One>& found) {
    std::int64_t at = row * p.count;
    for (const auto& [far, id] : found) {
      numbers[at] = id;
      distances[at++] = far;
    }
    std::fill(numbers + at, numbers + (row + 1) * p.count, -1);
    std::fill(distances + at, distances + (row + 1) * p.count, std::numeric_limits<float>::max());
  });
}

void nearest_rows(std::int32_t* numbers, const NearRows& p) {
  for_rows(p, false, [&](std::int64_t row, const std::vector<One>& found) {
    numbers[row] = static_cast<std::int32_t>(found.front().second);
  });
}

}  // namespace mt::cpu
