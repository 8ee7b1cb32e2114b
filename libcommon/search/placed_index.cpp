#include "search/placed_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::int64_t kMostProducts = 1LL << 28;   // in memory at once, but for one row's
constexpr std::int64_t kMostDistances = 1LL << 28;  // likewise
constexpr std::int64_t kMostVisits = 1LL << 24;     // of lists, likewise

// What was found, nearest first, of equal ones the smaller number.
void put(FoundVectors& found, std::int64_t row, std::int64_t count,
         std::vector<std::pair<float, std::int64_t>>& ones, float sign) {
  std::ranges::sort(ones);
  for (std::size_t i = 0; i < ones.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(row * count) + i;
    found.ids[at] = ones[i].second;
    found.distances[at] = sign * ones[i].first;
  }
}

FoundVectors none(std::int64_t vectors, std::int64_t count) {
  const auto places = static_cast<std::size_t>(vectors * count);
  return {std::vector<std::int64_t>(places, -1),
          std::vector<float>(places, std::numeric_limits<float>::max())};
}

}  // namespace

template <class T>
Tensor PlacedIndex::keep(std::span<const T> values, const Shape& shape) {
  Buffer& memory = memory_.emplace_back(products_.buffer(values.size_bytes()));
  const Tensor tensor = memory.tensor(dtype_of<T>(), shape);
  products_.put(tensor, values.data());
  products_.stream().synchronize();  // the values may go
  return tensor;
}

PlacedIndex::PlacedIndex(const VectorIndex& index, Products& products)
    : index_(index), products_(products) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (index.size() > kMost)
    fail(Exit::bad_config, "an index of ", index.size(), " vectors: on a GPU at most ", kMost,
         " are searched; see --device cpu");
  std::visit(
      [&](const auto& kind) {
        products.expect_room(static_cast<std::size_t>(index.size() * kind.code_size()),
                             concat("searching ", index.size(), " vectors"));
        place(kind);
      },
      index.kind);
}

void PlacedIndex::place(const FlatIndex& index) {
  centres_ = keep(std::span(index.vectors), {index.size(), index.columns});
  halves_ = keep(std::span<const float>(std::vector<float>(static_cast<std::size_t>(index.size()))),
                 {index.size()});
  if (!index.inner) half_squares(halves_, centres_, products_.stream());
}

void PlacedIndex::place_codes(std::span<const IvfIndex::List* const> lists) {
  begins_ = {0};
  std::vector<std::uint8_t> codes;
  std::vector<std::int64_t> ids;
  for (const IvfIndex::List* const list : lists) {
    codes.insert(codes.end(), list->codes.begin(), list->codes.end());
    ids.insert(ids.end(), list->ids.begin(), list->ids.end());
    begins_.push_back(std::ssize(ids));
  }
  ids_ = ids;
  std::ranges::sort(ids_);
  std::vector<std::int32_t> numbers(ids.size());
  products_.each((std::ssize(ids) + 4095) / 4096, [&](std::int64_t block) {
    const auto end = std::min(ids.size(), static_cast<std::size_t>(block + 1) * 4096);
    for (auto i = static_cast<std::size_t>(block) * 4096; i < end; ++i)
      numbers[i] = static_cast<std::int32_t>(std::ranges::lower_bound(ids_, ids[i]) - ids_.begin());
  });
  if (std::ranges::adjacent_find(ids_) != ids_.end()) {  // equal ones stand in places of their own
    std::vector<std::int32_t> before(ids.size());
    for (std::int32_t& number : numbers) {
      const auto first = static_cast<std::size_t>(number);
      number += before[first]++;
    }
  }
  lists_.codes = keep(std::span(std::as_const(codes)), {std::ssize(codes)}).as<std::uint8_t>();
  lists_.begins = keep(std::span(std::as_const(begins_)), {std::ssize(begins_)}).as<std::int64_t>();
  numbers_ = keep(std::span(std::as_const(numbers)), {std::ssize(numbers)}).as<std::int32_t>();
}

// Codes of numbers in lists around these centres, or around none.
static CodeLists lists_of(const ScalarQuantizer& quantizer) {
  return {.kind = ListCodes::numbers,
          .lists = 1,
          .columns = quantizer.columns,
          .bytes = quantizer.code_size(),
          .numbers = {.kind = quantizer.kind, .columns = quantizer.columns}};
}

void PlacedIndex::place(const ScalarIndex& index) {
  lists_ = lists_of(index.quantizer);
  IvfIndex::List all = {.codes = index.codes,
                        .ids = std::vector<std::int64_t>(static_cast<std::size_t>(index.size()))};
  std::iota(all.ids.begin(), all.ids.end(), std::int64_t{0});
  const IvfIndex::List* const one = &all;
  place_codes({&one, 1});
  const std::vector<float>& ranges = index.quantizer.ranges;
  if (!ranges.empty())
    lists_.numbers.ranges = keep(std::span(ranges), {std::ssize(ranges)}).as<float>();
}

void PlacedIndex::place(const IvfIndex& index) {
  const std::int64_t columns = index.centres.columns;
  if (index.scalar()) lists_ = lists_of(*index.scalar());
  lists_.lists = std::ssize(index.lists);
  lists_.columns = columns;
  lists_.bytes = index.bytes_in_list();
  std::vector<const IvfIndex::List*> all;
  for (const IvfIndex::List& list : index.lists) all.push_back(&list);
  place_codes(all);
  centres_ = keep(std::span(index.centres.vectors), {lists_.lists, columns});
  Buffer& memory = memory_.emplace_back(
      products_.buffer(static_cast<std::size_t>(lists_.lists) * sizeof(float)));
  halves_ = memory.tensor(DType::f32, {lists_.lists});
  half_squares(halves_, centres_, products_.stream());
  if (index.quantizer.index() != 0) lists_.centres = centres_.as<float>();
  if (index.scalar() && index.scalar()->has_ranges()) {
    const std::vector<float>& ranges = index.scalar()->ranges;
    lists_.numbers.ranges = keep(std::span(ranges), {std::ssize(ranges)}).as<float>();
  }
  if (!index.product()) return;
  lists_.kind = ListCodes::products;
  const std::vector<float>& of_parts = index.product()->centres;
  lists_.part_centres = keep(std::span(of_parts), {std::ssize(of_parts)}).as<float>();
  Buffer& of_terms =
      memory_.emplace_back(products_.buffer(static_cast<std::size_t>(index.count) * sizeof(float)));
  const Tensor terms = of_terms.tensor(DType::f32, {index.count});
  code_terms(terms, lists_, products_.stream());
  lists_.terms = terms.as<float>();
}

FoundVectors PlacedIndex::search(const FlatIndex& index, std::span<const float> of,
                                 std::int64_t count) {
  const std::int64_t rows = std::ssize(of) / index.columns, all = index.size();
  FoundVectors found = none(rows, count);
  if (all == 0) return found;
  const std::int64_t some = std::max<std::int64_t>(1, kMostProducts / all);
  const Products::Rows x = products_.rows(of, index.columns);
  for (std::int64_t first = 0; first < rows; first += some) {
    products_.poll();
    const std::int64_t here = std::min(some, rows - first);
    const Tensor products = products_.scratch(Products::kProducts, DType::f32, {here, all}),
                 numbers = products_.scratch(Products::kNumbers, DType::i32, {here, count}),
                 distances = products_.scratch(Products::kDistances, DType::f32, {here, count});
    products_.dot(products, x.tensor.rows(first, first + here), centres_);
    smallest(numbers, distances,
             {.values = products.as<float>(),
              .from = halves_.as<float>(),
              .rows = here,
              .cols = all,
              .count = count},
             products_.stream());
    const std::vector<std::int32_t> ids = products_.values<std::int32_t>(numbers);
    // The distances themselves, without what the difference of large products loses.
    products_.each(here, [&](std::int64_t row) {
      std::vector<std::pair<float, std::int64_t>> ones;
      for (std::int64_t i = row * count; i < (row + 1) * count; ++i) {
        const std::int64_t id = ids[static_cast<std::size_t>(i)];
        if (id < 0) break;
        const float far =
            index.distance(&of[static_cast<std::size_t>((first + row) * index.columns)], id);
        ones.emplace_back(std::isnan(far) ? INFINITY : index.inner ? -far : far, id);
      }
      put(found, first + row, count, ones, index.inner ? -1.0F : 1.0F);
    });
  }
  return found;
}

Tensor PlacedIndex::nearest_lists(ConstTensor x, std::int64_t visited) {
  const std::int64_t rows = x.shape()[0];
  const Tensor which = products_.scratch(Products::kLists, DType::i32, {rows, visited});
  if (visited == lists_.lists) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(rows * visited));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % visited);
    products_.put(which, all.data());
    products_.stream().synchronize();
    return which;
  }
  const Tensor products = products_.scratch(Products::kProducts, DType::f32, {rows, lists_.lists}),
               distances = products_.scratch(Products::kDistances, DType::f32, {rows, visited});
  products_.dot(products, x, centres_);
  smallest(which, distances,
           {.values = products.as<float>(),
            .from = halves_.as<float>(),
            .rows = rows,
            .cols = lists_.lists,
            .count = visited},
           products_.stream());
  return which;
}

// Finds what is near to the rows of x, of which `first` is the number of the first.  which: the
// lists that they visit, and `sizes` how many vectors these have.
void PlacedIndex::scan(FoundVectors& found, std::int64_t first, ConstTensor x, ConstTensor which,
                       std::span<const std::int64_t> sizes, std::int64_t count) {
  const std::int64_t rows = x.shape()[0], visited = which.shape()[1];
  std::vector<std::int64_t> places, begins;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < sizes.size(); all += sizes[i++]) {
    if (static_cast<std::int64_t>(i) % visited == 0) begins.push_back(all);
    places.push_back(all);
  }
  begins.push_back(all);
  const Products::Copy of_places = products_.copy(places), of_begins = products_.copy(begins);
  const Tensor far = products_.scratch(Products::kProducts, DType::f32, {all}),
               of = products_.scratch(Products::kAll, DType::i32, {all}),
               numbers = products_.scratch(Products::kNumbers, DType::i32, {rows, count}),
               distances = products_.scratch(Products::kDistances, DType::f32, {rows, count});
  ListScan scan = {.lists = lists_,
                   .ids = numbers_,
                   .x = x.as<float>(),
                   .rows = rows,
                   .visited = visited,
                   .which = which.as<std::int32_t>(),
                   .places = of_places.tensor.as<std::int64_t>()};
  if (lists_.kind == ListCodes::products)
    scan.tables =
        products_.scratch(Products::kPart, DType::f32, {rows, lists_.parts() * kPartCentres})
            .as<float>();
  scan_lists(far, of, scan, products_.stream());
  smallest(numbers, distances,
           {.values = far.as<float>(),
            .begins = of_begins.tensor.as<std::int64_t>(),
            .numbers = of.as<std::int32_t>(),
            .rows = rows,
            .count = count},
           products_.stream());
  const std::vector<std::int32_t> of_row = products_.values<std::int32_t>(numbers);
  const std::vector<float> of_far = products_.values<float>(distances);
  products_.each(rows, [&](std::int64_t row) {
    std::vector<std::pair<float, std::int64_t>> ones;
    for (std::int64_t i = row * count; i < (row + 1) * count; ++i) {
      const std::int32_t number = of_row[static_cast<std::size_t>(i)];
      if (number < 0) break;
      ones.emplace_back(of_far[static_cast<std::size_t>(i)],
                        ids_[static_cast<std::size_t>(number)]);
    }
    put(found, first + row, count, ones, 1.0F);
  });
}

FoundVectors PlacedIndex::search_lists(std::span<const float> of, std::int64_t visited,
                                       std::int64_t count) {
  const std::int64_t rows = std::ssize(of) / lists_.columns;
  FoundVectors found = none(rows, count);
  const Products::Rows x = products_.rows(of, lists_.columns);
  const std::int64_t table = lists_.kind == ListCodes::products ? lists_.parts() * kPartCentres : 0,
                     some = std::max<std::int64_t>(
                         1, std::min(kMostProducts / std::max(lists_.lists, table),
                                     kMostVisits / visited));
  for (std::int64_t first = 0; first < rows; first += some) {
    const std::int64_t end = std::min(rows, first + some);
    const Tensor which = nearest_lists(x.tensor.rows(first, end), visited);
    std::vector<std::int64_t> sizes;
    for (const std::int32_t list : products_.values<std::int32_t>(which))
      sizes.push_back(begins_[static_cast<std::size_t>(list) + 1] -
                      begins_[static_cast<std::size_t>(list)]);
    const auto of_row = [&](std::int64_t row) {
      return std::span(sizes).subspan(static_cast<std::size_t>((row - first) * visited),
                                      static_cast<std::size_t>(visited));
    };
    for (std::int64_t row = first; row < end;) {
      products_.poll();
      std::int64_t last = row, all = 0;
      for (; last < end; ++last) {
        const std::span<const std::int64_t> here = of_row(last);
        all += std::reduce(here.begin(), here.end());
        if (last > row && all > kMostDistances) break;
      }
      scan(found, row, x.tensor.rows(row, last), which.rows(row - first, last - first),
           std::span(sizes).subspan(static_cast<std::size_t>((row - first) * visited),
                                    static_cast<std::size_t>((last - row) * visited)),
           count);
      row = last;
    }
  }
  return found;
}

FoundVectors PlacedIndex::search(std::span<const float> of, const IndexSearch& options) {
  return index_.search_by(
      of, options, products_,
      [&](std::span<const float> vectors, const IndexSearch& first) -> FoundVectors {
        if (const auto* const flat = std::get_if<FlatIndex>(&index_.kind))
          return search(*flat, vectors, first.count);
        const auto* const ivf = std::get_if<IvfIndex>(&index_.kind);
        const std::int64_t visited =
            ivf ? std::min(first.lists.value_or(ivf->default_lists), lists_.lists) : 1;
        return search_lists(vectors, visited, first.count);
      });
}

IndexSearcher::IndexSearcher(VectorIndex& index, Products& products)
    : index_(index), products_(products) {
  const auto* const ivf = std::get_if<IvfIndex>(&index.kind);
  const bool can_be_placed =
      ivf == nullptr || !ivf->product() || (ivf->product()->bits == 8 && !ivf->of_whole);
  if (products.device() != Device::cpu && can_be_placed) placed_.emplace(index, products);
}

FoundVectors IndexSearcher::search(std::span<const float> of, const IndexSearch& options) {
  return placed_ ? placed_->search(of, options) : index_.search(of, options, products_);
}

}  // namespace mt
