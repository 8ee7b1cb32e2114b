// The searches and the training of vector_index.h's kinds.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>

#include "kernels/code_sums.h"
#include "kernels/isa.h"
#include "kernels/near_rows.h"
#include "ops/nearest.h"
#include "search/kmeans.h"
#include "search/vector_index.h"

namespace mt {
namespace {

constexpr int kCentreIterations = 10, kCodeIterations = 25;
constexpr std::int64_t kRanged = 100000;  // vectors that ranges are told of
constexpr std::int64_t kMostRows = 1024;  // of a thread, that look through lists together
constexpr std::int64_t kVectors = 1024;   // decoded at once, for all that is asked

// The nearest so far, by distance and number.
class Nearest {
 public:
  using One = std::pair<float, std::int64_t>;
  explicit Nearest(std::int64_t count) : count_(static_cast<std::size_t>(count)) {}

  // What is no number is infinitely far.
  static float known(float distance) { return std::isnan(distance) ? INFINITY : distance; }

  bool takes(float distance) const {
    return ones_.size() < count_ || distance <= ones_.front().first;
  }
  void add(float distance, std::int64_t id) {
    distance = known(distance);
    if (ones_.size() == count_) {
      if (!(One(distance, id) < ones_.front())) return;
      std::ranges::pop_heap(ones_);
      ones_.back() = {distance, id};
    } else {
      ones_.emplace_back(distance, id);
    }
    std::ranges::push_heap(ones_);
  }
  // Of vectors id(0), id(1), …
  void add_all(std::span<const float> distances, const auto& id) {
    constexpr std::size_t kTogether = 64;  // most of which are all too far
    for (std::size_t begin = 0; begin < distances.size(); begin += kTogether) {
      const std::size_t end = std::min(begin + kTogether, distances.size());
      const float most = limit();
      std::int32_t near = ones_.size() < count_ ? 1 : 0;
      cpu::run([&] {
        for (std::size_t j = begin; j < end; ++j) near |= distances[j] <= most ? 1 : 0;
      });
      for (std::size_t j = begin; near != 0 && j < end; ++j)
        if (takes(distances[j])) add(distances[j], id(j));
    }
  }
  // What is farther is not taken.
  float limit() const { return ones_.size() < count_ ? INFINITY : ones_.front().first; }
  std::vector<One> sorted() {
    std::ranges::sort(ones_);
    return std::move(ones_);
  }

 private:
  std::size_t count_;
  std::vector<One> ones_;
};

FoundVectors none(std::int64_t vectors, std::int64_t count) {
  const auto places = static_cast<std::size_t>(vectors * count);
  return {std::vector<std::int64_t>(places, -1),
          std::vector<float>(places, std::numeric_limits<float>::max())};
}

void put(FoundVectors& found, std::int64_t row, std::int64_t count, const auto& ones, float sign) {
  for (std::size_t i = 0; i < ones.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(row * count) + i;
    found.ids[at] = ones[i].second;
    found.distances[at] = sign * ones[i].first;
  }
}

}  // namespace

FoundVectors FlatIndex::search(std::span<const float> of, std::int64_t count,
                               Products& products) const {
  const std::int64_t rows = std::ssize(of) / columns;
  FoundVectors found = none(rows, count);
  products.run([&] {
    if (coded.rows != size()) coded = RowCodes(vectors.data(), size(), columns, inner);
    cpu::near_rows(
        found.ids.data(), found.distances.data(),
        {.x = of.data(), .rows = rows, .vectors = vectors.data(), .codes = &coded, .count = count});
  });
  for (std::size_t i = 0; inner && i < found.ids.size(); ++i)
    if (found.ids[i] >= 0) found.distances[i] = -found.distances[i];
  return found;
}

FoundVectors ScalarIndex::search(std::span<const float> of, const IndexSearch& options,
                                 Products& products) const {
  const std::int64_t columns = quantizer.columns, rows = std::ssize(of) / columns;
  FoundVectors found = none(rows, options.count);
  std::vector<Nearest> nearest(static_cast<std::size_t>(rows), Nearest(options.count));
  constexpr std::int64_t kTogether = 16;  // of what is asked
  std::vector<float> vectors(static_cast<std::size_t>(std::min(kVectors, size()) * columns));
  for (std::int64_t first = 0; first < size(); first += kVectors) {
    const std::int64_t these = std::min(kVectors, size() - first);
    const auto vector = [&](std::int64_t i) {
      return &vectors[static_cast<std::size_t>(i * columns)];
    };
    products.each(these, [&](std::int64_t i) {
      quantizer.decode(&codes[static_cast<std::size_t>((first + i) * code_size())], vector(i));
    });
    products.each((rows + kTogether - 1) / kTogether, [&](std::int64_t group) {
      const std::int64_t begin = group * kTogether, some = std::min(kTogether, rows - begin);
      std::vector<float> far(static_cast<std::size_t>(some * these));
      cpu::squared_distances(far.data(), &of[static_cast<std::size_t>(begin * columns)], some,
                             vectors.data(), these, columns);
      for (std::int64_t i = 0; i < some; ++i)
        nearest[static_cast<std::size_t>(begin + i)].add_all(
            std::span(far).subspan(static_cast<std::size_t>(i * these),
                                   static_cast<std::size_t>(these)),
            [&](std::size_t j) { return first + static_cast<std::int64_t>(j); });
    });
  }
  for (std::int64_t row = 0; row < rows; ++row)
    put(found, row, options.count, nearest[static_cast<std::size_t>(row)].sorted(), 1.0F);
  return found;
}

std::int64_t IvfIndex::training_numbers(std::int64_t vectors) const {
  constexpr std::int64_t kOfCentre = 1 + sizeof(double) / sizeof(float);  // itself and its sums
  return std::min(std::min(vectors, kPointsPerCentre * wanted) * centres.columns, kPieceNumbers) +
         kOfCentre * wanted * centres.columns;
}

void IvfIndex::train(std::span<const float> vectors, Products& products) {
  const std::int64_t columns = centres.columns;
  if (in_lists)
    centres.vectors =
        k_means({.centres = wanted, .columns = columns, .iterations = kCentreIterations}, vectors,
                products);
  else
    centres.vectors.assign(static_cast<std::size_t>(columns), 0);
  lists.resize(static_cast<std::size_t>(wanted));
  std::future<void> built;  // beside a GPU, where assign() asks no graph
  if (graph && products.device() == Device::cpu)
    graph->build(centres.vectors, columns);
  else if (graph)
    built = std::async(std::launch::async, [&] { graph->build(centres.vectors, columns); });
  std::vector<float> drawn;
  const auto left_of = [&](std::int64_t most) -> ConstTensor {
    drawn = drawn_rows(vectors, columns, most, 1234);
    const ConstTensor rows = products.rows(Products::kVectors, drawn, columns);
    return of_whole ? rows : assign(rows, true, products).residuals;
  };
  if (auto* const product = std::get_if<ProductQuantizer>(&quantizer))
    product->train(left_of(kPointsPerCentre * product->part_centres()), kCodeIterations, products);
  if (auto* const scalar = std::get_if<ScalarQuantizer>(&quantizer))
    scalar->train(products.values<float>(left_of(kRanged)));
  if (built.valid()) built.get();
  trained = true;
}

IvfIndex::Assigned IvfIndex::assign(ConstTensor vectors, bool with_residuals,
                                    Products& products) const {
  const std::int64_t columns = centres.columns, rows = vectors.shape()[0];
  const ConstTensor c = products.rows(Products::kListCentres, centres.vectors, columns);
  Assigned result;
  const Tensor found = products.scratch(Products::kListsOf, DType::i32, {1, rows});
  if (graph && products.device() == Device::cpu) {
    const std::vector<std::int64_t> ids = near(vectors.span<float>(), 1, {}, products).ids;
    result.lists.assign(ids.begin(), ids.end());
    products.put(found, result.lists.data());
  } else {
    products.nearest(found, vectors, c.reshape({1, std::ssize(lists), columns}));
    result.lists = products.values<std::int32_t>(found);
  }
  if (!with_residuals) return result;
  result.residuals = products.scratch(Products::kResiduals, DType::f32, {rows, columns});
  row_residuals(result.residuals, vectors, c, found.reshape({rows}), products.stream());
  return result;
}

FoundVectors IvfIndex::near(std::span<const float> vectors, std::int64_t count,
                            std::optional<std::int64_t> ef_search, Products& products) const {
  if (!graph) return centres.search(vectors, count, products);
  const std::int64_t columns = centres.columns, rows = std::ssize(vectors) / columns;
  FoundVectors found = none(rows, count);
  products.each(rows, [&](std::int64_t i) {
    put(found, i, count,
        graph->search(centres.vectors, columns, &vectors[static_cast<std::size_t>(i * columns)],
                      count, ef_search.value_or(graph->ef_search)),
        1.0F);
  });
  return found;
}

// A code's distance from a vector x is that of x - c - r, with its list's centre c, or 0 where
// codes are of whole vectors, and the quantizer's r: |x - c|^2 + (|r|^2 + 2 c r) - 2 x r.  The
// middle term depends on the code alone.
void IvfIndex::make_terms(Products& products) {
  const ProductQuantizer& of = *product();
  products.each(std::ssize(lists), [&](std::int64_t number) {
    List& list = lists[static_cast<std::size_t>(number)];
    if (list.terms.size() == list.ids.size()) return;
    const float* const centre =
        &centres.vectors[static_cast<std::size_t>(number * centres.columns)];
    std::vector<float> r(static_cast<std::size_t>(centres.columns));
    list.terms.clear();
    const auto size = static_cast<std::size_t>(of.code_size());
    for (std::size_t at = 0; at < list.codes.size(); at += size) {
      of.decode(&list.codes[at], r.data());
      const float own = cpu::inner_product(r.data(), r.data(), centres.columns);
      list.terms.push_back(
          of_whole ? own : own + 2 * cpu::inner_product(centre, r.data(), centres.columns));
    }
    list.largest_term = 0;
    for (const float term : list.terms)
      list.largest_term = std::max(list.largest_term, Nearest::known(std::abs(term)));
    if (cpu::sums_bytes()) list.by_parts = cpu::by_parts(list.codes, of.code_size());
  });
}

namespace {

// One vector's way through lists of a product quantizer's codes.
class Visit {
 public:
  // turned: ProductQuantizer::turned().
  Visit(const ProductQuantizer& quantizer, std::span<const float> turned, const float* vector,
        std::int64_t count)
      : bytes_(static_cast<std::size_t>(quantizer.code_size())),
        best_(count),
        table_(static_cast<std::size_t>(quantizer.parts * quantizer.part_centres())) {
    quantizer.fill_table(vector, true, turned, table_);
    for (float& product : table_) product *= -2;
    table_ = quantizer.of_bytes(std::move(table_));
    if (cpu::sums_bytes()) bounds_.fill(table_);
  }

  // far_of: its centre's distance, or that of zero where codes are of whole vectors.
  void look_through(const IvfIndex::List& list, float far_of) {
    if (!bounds_.bytes.empty()) return look_through_near(list, far_of);
    constexpr std::size_t kTogether = 8;  // sums that do not wait for each other
    const std::size_t count = list.ids.size();
    const std::uint8_t* code = list.codes.data();
    std::size_t j = 0;
    for (; j + kTogether <= count; j += kTogether, code += kTogether * bytes_) {
      float far[kTogether];
      for (std::size_t k = 0; k < kTogether; ++k) far[k] = far_of + list.terms[j + k];
      const float* part = table_.data();
      for (std::size_t p = 0; p < bytes_; ++p, part += ProductQuantizer::kByte)
        for (std::size_t k = 0; k < kTogether; ++k) far[k] += part[code[k * bytes_ + p]];
      for (std::size_t k = 0; k < kTogether; ++k) add(far[k], list.ids[j + k]);
    }
    for (; j < count; ++j) add_code(list, j, far_of);
  }

  Nearest& best() { return best_; }

 private:
  void add(float far, std::int64_t id) {
    if (best_.takes(far)) best_.add(far, id);
  }
  void add_code(const IvfIndex::List& list, std::size_t j, float far_of) {
    const std::uint8_t* const code = &list.codes[j * bytes_];
    float far = far_of + list.terms[j];
    for (std::size_t p = 0; p < bytes_; ++p) far += table_[p * ProductQuantizer::kByte + code[p]];
    add(far, list.ids[j]);
  }
  // Those alone whose lower bounds, less what the sums of both may lose, are near enough.
  void look_through_near(const IvfIndex::List& list, float far_of) {
    constexpr auto kTogether = static_cast<std::size_t>(cpu::kCodesTogether);
    const float lost = static_cast<float>(bytes_ + 8) * 0x1p-21F *
                       (std::abs(far_of) + list.largest_term + bounds_.largest),
                least = far_of + bounds_.low - lost;
    const std::size_t count = list.ids.size();
    for (std::size_t begin = 0; begin < count; begin += kTogether) {
      std::uint16_t sums[kTogether];
      cpu::byte_sums(sums, &list.by_parts[begin * bytes_], bounds_);
      const float* const terms = &list.terms[begin];
      const std::size_t some = std::min(kTogether, count - begin);
      std::int32_t near[kTogether] = {};
      const float limit = best_.limit(), step = bounds_.step;
      cpu::run([&] {
        for (std::size_t j = 0; j < some; ++j)
          near[j] = least + terms[j] + step * static_cast<float>(sums[j]) > limit ? 0 : 1;
      });
      for (std::size_t j = 0; j < some; ++j)
        if (near[j] != 0) add_code(list, begin + j, far_of);
    }
  }

  std::size_t bytes_;
  Nearest best_;
  std::vector<float> table_;  // of what bytes of codes add to a distance
  cpu::ByteTables bounds_ = {};
};

// The vectors' nearest so far from the lists that they visit, of vectors or of numbers' codes:
// list after list, for all that visit it.  coarse: [vectors, visited].
void look_through(const IvfIndex& index, std::span<const float> of,
                  std::span<const std::int64_t> coarse, std::span<Nearest> best) {
  const std::int64_t columns = index.centres.columns,
                     visited = std::ssize(coarse) / std::ssize(best);
  const ScalarQuantizer* const scalar = index.scalar();
  std::vector<std::pair<std::int64_t, std::int64_t>> visits;  // list, vector
  for (std::int64_t i = 0; i < std::ssize(coarse); ++i)
    if (coarse[static_cast<std::size_t>(i)] >= 0)
      visits.emplace_back(coarse[static_cast<std::size_t>(i)], i / visited);
  std::ranges::sort(visits);
  std::vector<float> asked, decoded, far;
  for (auto begin = visits.begin(); begin != visits.end();) {
    const std::int64_t number = begin->first;
    const auto end = std::ranges::find_if(begin, visits.end(),
                                          [&](const auto& visit) { return visit.first != number; });
    const IvfIndex::List& list = index.lists[static_cast<std::size_t>(number)];
    const auto count = std::ssize(list.ids);
    const float* const centre = &index.centres.vectors[static_cast<std::size_t>(number * columns)];
    asked.clear();
    for (auto visit = begin; visit != end; ++visit) {
      const auto x = of.subspan(static_cast<std::size_t>(visit->second * columns),
                                static_cast<std::size_t>(columns));
      asked.insert(asked.end(), x.begin(), x.end());
      for (std::int64_t c = 0; scalar && c < columns; ++c) asked.end()[c - columns] -= centre[c];
    }
    for (std::int64_t first = 0; first < count; first += kVectors) {
      const std::int64_t some = std::min(kVectors, count - first);
      decoded.resize(static_cast<std::size_t>(some * columns));
      for (std::int64_t j = 0; scalar && j < some; ++j)
        scalar->decode(&list.codes[static_cast<std::size_t>((first + j) * scalar->code_size())],
                       &decoded[static_cast<std::size_t>(j * columns)]);
      if (!scalar)
        std::memcpy(decoded.data(),
                    &list.codes[static_cast<std::size_t>(first * columns) * sizeof(float)],
                    decoded.size() * sizeof(float));
      far.resize(static_cast<std::size_t>((end - begin) * some));
      cpu::squared_distances(far.data(), asked.data(), end - begin, decoded.data(), some, columns);
      const float* distances = far.data();
      for (auto visit = begin; visit != end; ++visit, distances += some)
        best[static_cast<std::size_t>(visit->second)].add_all(
            std::span(distances, static_cast<std::size_t>(some)),
            [&](std::size_t j) { return list.ids[static_cast<std::size_t>(first) + j]; });
    }
    begin = end;
  }
}

}  // namespace

FoundVectors IvfIndex::search(std::span<const float> of, const IndexSearch& options,
                              Products& products) {
  const std::int64_t columns = centres.columns, rows = std::ssize(of) / columns;
  const std::int64_t visited = std::min(options.lists.value_or(default_lists), std::ssize(lists));
  const FoundVectors coarse = near(of, visited, options.ef_search, products);
  FoundVectors found = none(rows, options.count);
  const auto of_row = [&](std::int64_t row) {
    return of.subspan(static_cast<std::size_t>(row * columns));
  };
  if (fast) return fast_search(of, coarse, options.count, products);
  if (product()) {
    const std::vector<float> turned = product()->turned();
    make_terms(products);
    products.each(rows, [&](std::int64_t row) {
      const float* const x = of_row(row).data();
      Visit visit(*product(), turned, x, options.count);
      const float length = of_whole ? cpu::inner_product(x, x, columns) : 0;
      for (std::int64_t i = row * visited; i < (row + 1) * visited; ++i) {
        const std::int64_t list = coarse.ids[static_cast<std::size_t>(i)];
        if (list < 0) break;
        visit.look_through(lists[static_cast<std::size_t>(list)],
                           of_whole ? length : coarse.distances[static_cast<std::size_t>(i)]);
      }
      put(found, row, options.count, visit.best().sorted(), 1.0F);
    });
    return found;
  }
  const std::int64_t together =
      std::clamp<std::int64_t>((rows + products.threads() - 1) / products.threads(), 1, kMostRows);
  products.each((rows + together - 1) / together, [&](std::int64_t block) {
    const std::int64_t begin = block * together, some = std::min(together, rows - begin);
    std::vector<Nearest> best(static_cast<std::size_t>(some), Nearest(options.count));
    look_through(*this, of_row(begin),
                 std::span(coarse.ids)
                     .subspan(static_cast<std::size_t>(begin * visited),
                              static_cast<std::size_t>(some * visited)),
                 best);
    for (std::int64_t i = 0; i < some; ++i)
      put(found, begin + i, options.count, best[static_cast<std::size_t>(i)].sorted(), 1.0F);
  });
  return found;
}

}  // namespace mt
