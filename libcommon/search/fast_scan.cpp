// The search of vector_index.h's codes of four bits by tables of bytes, as faiss's fast scan finds
// them.  What a code's parts add to a distance, t[p, j], with the least m_p of a part, is rounded:
//   q[p, j] = floor(a (t[p, j] - m_p) + 1/2),   a = min(255 / max_p w_p, 65535 / sum_p w_p)
// where w_p is the width of a part.  A distance is then sum_p m_p + (sum_p q[p, code_p]) / a. Codes
// of what vectors differ from their lists' centres by have tables for each list, the same a for all
// that a vector visits, and a start: what sum_p m_p of the list has above the least of them, times
// a.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/isa.h"
#include "kernels/nibble_sums.h"
#include "search/vector_index.h"

namespace mt {
namespace {

constexpr std::int64_t kMostRows = 1024;  // of a thread, that look through lists together
constexpr std::size_t kMostKept = std::size_t{1} << 22;  // numbers of tables of all lists
constexpr std::int64_t kFirstTiles = 2;  // that are looked through at once before anything is near
constexpr std::int64_t kEntries = cpu::kNibbleEntries;
constexpr std::uint32_t kMostSum = 65535;
constexpr std::int64_t kSurelyFit = 256;  // parts whose sums have 16 bits, however they round

// The nearest so far of one vector, by sum and number.
class NearestSums {
 public:
  explicit NearestSums(std::int64_t count)
      : count_(static_cast<std::size_t>(count)), most_(2 * count_ + 32) {
    keys_.reserve(most_);
  }

  std::uint16_t limit() const { return limit_; }  // what is above is not taken
  void add(std::uint32_t sum, std::int64_t id) {
    if (sum > limit_) return;
    keys_.push_back(static_cast<std::uint64_t>(sum) << kIdBits | static_cast<std::uint64_t>(id));
    if (keys_.size() < most_) return;
    std::ranges::nth_element(keys_, keys_.begin() + static_cast<std::ptrdiff_t>(count_ - 1));
    keys_.resize(count_);
    limit_ = static_cast<std::uint16_t>(keys_.back() >> kIdBits);
  }
  void put(FoundVectors& found, std::int64_t row, float least, float step) {
    std::ranges::sort(keys_);
    for (std::size_t i = 0; i < std::min(keys_.size(), count_); ++i) {
      const std::size_t at = static_cast<std::size_t>(row) * count_ + i;
      found.ids[at] = static_cast<std::int64_t>(keys_[i] & ((std::uint64_t{1} << kIdBits) - 1));
      found.distances[at] = least + static_cast<float>(keys_[i] >> kIdBits) * step;
    }
  }

 private:
  static constexpr int kIdBits = 48;  // as files have them at most

  std::size_t count_, most_;
  std::vector<std::uint64_t> keys_ = {};
  std::uint16_t limit_ = kMostSum;
};

// Of a table's parts.
struct Extents {
  std::vector<float> least;
  float sum = 0, widest = 0, width = 0;  // of the least; of all parts

  void of(std::span<const float> table) {
    const std::size_t parts = table.size() / kEntries;
    least.resize(parts);
    sum = widest = width = 0;
    cpu::run([&] {
      for (std::size_t p = 0; p < parts; ++p) {
        const float* const row = &table[p * kEntries];
        float low[kEntries], high[kEntries];
        std::copy_n(row, kEntries, low);
        std::copy_n(row, kEntries, high);
        for (std::int64_t half = kEntries / 2; half > 0; half /= 2)
          for (std::int64_t j = 0; j < half; ++j) {
            low[j] = low[j + half] < low[j] ? low[j + half] : low[j];
            high[j] = high[j + half] > high[j] ? high[j + half] : high[j];
          }
        least[p] = low[0];
        sum += low[0];
        width += high[0] - low[0];
        widest = high[0] - low[0] > widest ? high[0] - low[0] : widest;
      }
    });
  }
};

// How distances become sums; `a` is 0 where all are the same, or no numbers.
float scale_of(float widest, float width, std::int64_t parts) {
  const auto most = static_cast<float>(kMostSum - (parts <= kSurelyFit ? 0 : parts));
  const float a = std::min(255.0F / widest, most / width);
  return std::isfinite(a) && std::isfinite(width) ? a : 0;
}

float step_of(float a) { return a > 0 ? 1 / a : 0; }

std::uint16_t start_of(float above, float a) {
  const float sums = std::floor(above * a + 0.5F), most = kMostSum;
  return static_cast<std::uint16_t>(sums > 0 ? std::min(sums, most) : 0);  // no number is none
}

class Scan {
 public:
  Scan(const IvfIndex& index, std::span<const float> turned)
      : index_(index),
        turned_(turned),
        bytes_(index.product()->code_size()),
        entries_(static_cast<std::size_t>(index.product()->parts * kEntries)),
        rounded_(static_cast<std::size_t>(2 * bytes_ * kEntries)) {}

  // visits: [rows, visited] of lists, less than 0 for none.
  void rows(FoundVectors& found, std::int64_t first, std::span<const float> of,
            std::span<const std::int64_t> visits, std::int64_t count) {
    const std::int64_t columns = index_.centres.columns, rows = std::ssize(of) / columns,
                       visited = std::ssize(visits) / rows;
    const auto size = static_cast<std::size_t>(cpu::nibble_table_size(bytes_));
    std::vector<std::uint8_t> tables(static_cast<std::size_t>(rows) * size);
    std::vector<float> least(static_cast<std::size_t>(rows)), steps = least;
    Extents extents;
    std::vector<NearestSums> best;
    best.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) best.emplace_back(count);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      fill(&of[row * static_cast<std::size_t>(columns)], entries_);
      extents.of(entries_);
      const float a = scale_of(extents.widest, extents.width, index_.product()->parts);
      round(&tables[row * size], entries_, extents, a);
      least[row] = known(extents.sum);
      steps[row] = step_of(a);
    }
    // The nearest list of each first, few codes at a time: it tells how near the others' must be.
    const auto look_through_all = [&](std::int64_t from, std::int64_t to,
                                      std::int64_t tiles_first) {
      std::vector<std::int64_t> by_list;  // kMostRows times the list, and the row
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = row * visited + from; i < row * visited + to; ++i)
          if (visits[static_cast<std::size_t>(i)] >= 0)
            by_list.push_back(visits[static_cast<std::size_t>(i)] * kMostRows + row);
      sort_by_list(by_list);
      for (auto begin = by_list.begin(); begin != by_list.end();) {
        const std::int64_t number = *begin / kMostRows;
        const auto end = std::lower_bound(begin, by_list.end(), (number + 1) * kMostRows);
        const IvfIndex::List& list = index_.lists[static_cast<std::size_t>(number)];
        for_tiles(list, tiles_first, [&](std::int64_t tile, std::int64_t tiles) {
          for (auto some = begin; some != end;) {
            cpu::NibbleSums sums = {.count = tiles};
            NearestSums* of_table[cpu::kMostNibbleTables];
            for (; some != end && sums.table_count < cpu::kMostNibbleTables; ++some) {
              const auto row = static_cast<std::size_t>(*some % kMostRows);
              of_table[sums.table_count] = &best[row];
              sums.tables[sums.table_count++] = &tables[row * size];
            }
            look_through(list, tile, sums, of_table, 0);
          }
        });
        begin = end;
      }
    };
    look_through_all(0, 1, kFirstTiles);
    look_through_all(1, visited, cpu::kMostNibbleTiles);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
      best[row].put(found, first + static_cast<std::int64_t>(row), least[row], steps[row]);
  }

  // One vector, by what it differs from its lists' centres by.  far: of these.
  void residuals(FoundVectors& found, std::int64_t row, const float* x,
                 std::span<const std::int64_t> visits, std::span<const float> far,
                 std::int64_t count) {
    const auto visited = static_cast<std::size_t>(std::ranges::find(visits, -1) - visits.begin());
    const bool keep = visited * entries_.size() <= kMostKept;
    kept_.resize((keep ? visited : 1) * entries_.size());
    const auto table_of = [&](std::size_t i, bool is_there) {
      const std::span<float> table =
          std::span(kept_).subspan((keep ? i : 0) * entries_.size(), entries_.size());
      if (!is_there) fill_residual(x, visits[i], table);
      return std::span<const float>(table);
    };
    extents_.resize(std::max(extents_.size(), visited));
    float widest = 0, width = 0, least = INFINITY,
          nearest = visited > 0 ? *std::ranges::min_element(far.first(visited)) : 0;
    for (std::size_t i = 0; i < visited; ++i) {
      extents_[i].of(table_of(i, false));
      widest = std::max(widest, extents_[i].widest);
      width = std::max(width, far[i] - nearest + extents_[i].width);
      least = std::min(least, extents_[i].sum);
    }
    const float a = scale_of(widest, width, index_.product()->parts);
    NearestSums best(count);
    table_.resize(static_cast<std::size_t>(cpu::nibble_table_size(bytes_)));
    for (std::size_t i = 0; i < visited; ++i) {
      round(table_.data(), table_of(i, keep), extents_[i], a);
      const std::uint16_t start = start_of(extents_[i].sum - least, a);
      const IvfIndex::List& list = index_.lists[static_cast<std::size_t>(visits[i])];
      for_tiles(list, i == 0 ? kFirstTiles : cpu::kMostNibbleTiles,
                [&](std::int64_t tile, std::int64_t tiles) {
                  if (start > best.limit()) return;
                  cpu::NibbleSums sums = {
                      .count = tiles, .tables = {table_.data()}, .table_count = 1};
                  NearestSums* one = &best;
                  look_through(list, tile, sums, &one, start);
                });
    }
    best.put(found, row, known(least), step_of(a));
  }

 private:
  // Keys of kMostRows times a list, and a row, whose rows rise already: by lists, a digit after the
  // other from the last on.
  void sort_by_list(std::vector<std::int64_t>& keys) const {
    constexpr int kBits = 10;
    static_assert(kMostRows == 1 << kBits);
    std::vector<std::int64_t> sorted(keys.size());
    const auto lists = static_cast<std::uint64_t>(std::ssize(index_.lists) - 1);
    for (int shift = kBits; lists >> (shift - kBits) != 0; shift += kBits) {
      const auto digit = [&](std::int64_t key) {
        return static_cast<std::size_t>(key >> shift & (kMostRows - 1));
      };
      std::size_t begins[kMostRows + 1] = {};
      for (const std::int64_t key : keys) ++begins[digit(key) + 1];
      for (std::int64_t i = 0; i < kMostRows; ++i) begins[i + 1] += begins[i];
      for (const std::int64_t key : keys) sorted[begins[digit(key)]++] = key;
      keys.swap(sorted);
    }
  }

  // What is no number is infinitely far.
  static float known(float distance) { return std::isfinite(distance) ? distance : INFINITY; }
  static std::int64_t tiles_of(const IvfIndex::List& list) {
    return (std::ssize(list.ids) + cpu::kNibbleTile - 1) / cpu::kNibbleTile;
  }

  // Calls body(tile, count) for `first` of the list's tiles, and then as many as can be.
  static void for_tiles(const IvfIndex::List& list, std::int64_t first, const auto& body) {
    for (std::int64_t tile = 0, next = first, all = tiles_of(list); tile < all;
         tile += std::exchange(next, cpu::kMostNibbleTiles))
      body(tile, std::min(next, all - tile));
  }

  void fill(const float* x, std::span<float> table) const {
    index_.product()->fill_table(x, false, turned_, table);
  }
  void fill_residual(const float* x, std::int64_t list, std::span<float> table) {
    const std::int64_t columns = index_.centres.columns;
    const float* const centre = &index_.centres.vectors[static_cast<std::size_t>(list * columns)];
    left_.resize(static_cast<std::size_t>(columns));
    for (std::int64_t c = 0; c < columns; ++c)
      left_[static_cast<std::size_t>(c)] = x[c] - centre[c];
    fill(left_.data(), table);
  }
  void round(std::uint8_t* to, std::span<const float> table, const Extents& extents, float a) {
    std::ranges::fill(rounded_, std::uint8_t{0});
    if (a > 0)
      cpu::run([&] {
        for (std::size_t p = 0; p < table.size() / kEntries; ++p) {
          std::int32_t whole[kEntries];
          const float least = extents.least[p];
          for (std::size_t j = 0; j < kEntries; ++j) {
            const float q = (table[p * kEntries + j] - least) * a + 0.5F;
            whole[j] = static_cast<std::int32_t>(q < 255 ? q : 255);
          }
          for (std::size_t j = 0; j < kEntries; ++j)
            rounded_[p * kEntries + j] = static_cast<std::uint8_t>(whole[j]);
        }
      });
    cpu::put_nibble_table(to, rounded_.data(), bytes_);
  }

  // sums: of so many tiles from `tile` on, by these tables.
  void look_through(const IvfIndex::List& list, std::int64_t tile, cpu::NibbleSums& sums,
                    NearestSums* const* best, std::uint32_t start) {
    const std::int64_t tiles = tiles_of(list);
    sums.bytes = bytes_;
    sums.tiles = list.by_parts.data() + tile * cpu::nibble_tile_size(bytes_);
    for (std::int64_t t = 0; t < sums.table_count; ++t)
      sums.limits[t] = static_cast<std::uint16_t>(best[t]->limit() - start);
    std::uint16_t all[cpu::kMostNibbleTables * cpu::kMostNibbleTiles * cpu::kNibbleTile];
    std::uint32_t near[cpu::kMostNibbleTables * cpu::kMostNibbleTiles];
    const std::int64_t rest = std::ssize(list.ids) - (tiles - 1) * cpu::kNibbleTile;
    for (std::uint32_t some = cpu::nibble_sums(all, near, sums); some != 0; some &= some - 1) {
      const std::int64_t t = std::countr_zero(some);
      for (std::int64_t i = 0; i < sums.count; ++i) {
        const std::int64_t place = t * sums.count + i;
        std::uint32_t found = near[place];
        if (tile + i == tiles - 1) found &= ~std::uint32_t{0} >> (cpu::kNibbleTile - rest);
        for (; found != 0; found &= found - 1) {
          const std::int64_t code = std::countr_zero(found);
          best[t]->add(std::min(start + all[place * cpu::kNibbleTile + code], kMostSum),
                       list.ids[static_cast<std::size_t>((tile + i) * cpu::kNibbleTile + code)]);
        }
      }
    }
  }

  const IvfIndex& index_;
  std::span<const float> turned_;
  std::int64_t bytes_;
  std::vector<float> entries_, kept_ = {}, left_ = {};
  std::vector<std::uint8_t> rounded_, table_ = {};
  std::vector<Extents> extents_ = {};  // of the lists that a vector visits
};

}  // namespace

FoundVectors IvfIndex::fast_search(std::span<const float> of, const FoundVectors& coarse,
                                   std::int64_t count, Products& products) {
  const std::int64_t columns = centres.columns, rows = std::ssize(of) / columns;
  const auto places = static_cast<std::size_t>(rows * count);
  FoundVectors found = {std::vector<std::int64_t>(places, -1),
                        std::vector<float>(places, std::numeric_limits<float>::max())};
  if (rows == 0) return found;
  const std::int64_t visited = std::ssize(coarse.ids) / rows;
  products.each(std::ssize(lists), [&](std::int64_t number) {
    List& list = lists[static_cast<std::size_t>(number)];
    if (list.by_parts.empty()) list.by_parts = cpu::nibble_tiles(list.codes, bytes_in_list());
  });
  const std::vector<float> turned = product()->turned();
  const std::int64_t together =
      std::clamp<std::int64_t>((rows + products.threads() - 1) / products.threads(), 1, kMostRows);
  products.each((rows + together - 1) / together, [&](std::int64_t block) {
    const std::int64_t begin = block * together, some = std::min(together, rows - begin);
    const auto visits = [&](std::int64_t row, std::int64_t number, const auto& all) {
      return std::span(all).subspan(static_cast<std::size_t>(row * visited),
                                    static_cast<std::size_t>(number * visited));
    };
    Scan scan(*this, turned);
    if (of_whole)
      return scan.rows(found, begin,
                       of.subspan(static_cast<std::size_t>(begin * columns),
                                  static_cast<std::size_t>(some * columns)),
                       visits(begin, some, coarse.ids), count);
    for (std::int64_t row = begin; row < begin + some; ++row)
      scan.residuals(found, row, &of[static_cast<std::size_t>(row * columns)],
                     visits(row, 1, coarse.ids), visits(row, 1, coarse.distances), count);
  });
  return found;
}

}  // namespace mt
