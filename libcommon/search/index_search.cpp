// The searches and the training of vector_index.h's kinds.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/isa.h"
#include "ops/nearest.h"
#include "search/kmeans.h"
#include "search/vector_index.h"

namespace mt {
namespace {

constexpr int kCentreIterations = 10, kCodeIterations = 25;
constexpr std::int64_t kRanged = 100000;                    // vectors that ranges are told of
constexpr std::int64_t kRows = 256;                         // whose products are in memory at once
constexpr std::size_t kMostTerms = std::size_t{512} << 20;  // of tables, in memory

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
  const std::int64_t rows = std::ssize(of) / columns, all = std::ssize(vectors) / columns;
  FoundVectors found = none(rows, count);
  std::vector<float> lengths(static_cast<std::size_t>(all));
  if (!inner)
    products.each(all, [&](std::int64_t i) {
      const float* const row = &vectors[static_cast<std::size_t>(i * columns)];
      lengths[static_cast<std::size_t>(i)] = inner_product(row, row, columns) / 2;
    });
  constexpr std::int64_t kVectors = 16384;
  for (std::int64_t begin = 0; begin < rows; begin += kRows) {
    const std::int64_t some = std::min(kRows, rows - begin);
    const std::span<const float> here = of.subspan(static_cast<std::size_t>(begin * columns),
                                                   static_cast<std::size_t>(some * columns));
    std::vector<Nearest> nearest(static_cast<std::size_t>(some), Nearest(count));
    for (std::int64_t first = 0; first < all; first += kVectors) {
      const std::int64_t these = std::min(kVectors, all - first);
      const std::vector<float> dots =
          products.dot(here,
                       std::span(vectors).subspan(static_cast<std::size_t>(first * columns),
                                                  static_cast<std::size_t>(these * columns)),
                       columns);
      products.each(some, [&](std::int64_t i) {
        Nearest& best = nearest[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < these; ++j) {
          const float far = lengths[static_cast<std::size_t>(first + j)] -
                            dots[static_cast<std::size_t>(i * these + j)];
          if (best.takes(far)) best.add(far, first + j);
        }
      });
    }
    products.each(some, [&](std::int64_t i) {
      auto ones = nearest[static_cast<std::size_t>(i)].sorted();
      const float* const vector = &here[static_cast<std::size_t>(i * columns)];
      // The distances themselves, without what the difference of large products loses.
      for (auto& [far, id] : ones) {
        far = Nearest::known(inner ? -distance(vector, id) : distance(vector, id));
      }
      std::ranges::sort(ones);
      put(found, begin + i, count, ones, inner ? -1.0F : 1.0F);
    });
  }
  return found;
}

FoundVectors ScalarIndex::search(std::span<const float> of, const IndexSearch& options,
                                 Products& products) const {
  const std::int64_t columns = quantizer.columns, rows = std::ssize(of) / columns;
  FoundVectors found = none(rows, options.count);
  std::vector<Nearest> nearest(static_cast<std::size_t>(rows), Nearest(options.count));
  constexpr std::int64_t kVectors = 4096;  // decoded at once, for all that is asked
  std::vector<float> vectors(static_cast<std::size_t>(std::min(kVectors, size()) * columns));
  for (std::int64_t first = 0; first < size(); first += kVectors) {
    const std::int64_t these = std::min(kVectors, size() - first);
    const auto vector = [&](std::int64_t i) {
      return &vectors[static_cast<std::size_t>(i * columns)];
    };
    products.each(these, [&](std::int64_t i) {
      quantizer.decode(&codes[static_cast<std::size_t>((first + i) * code_size())], vector(i));
    });
    products.each(rows, [&](std::int64_t row) {
      Nearest& best = nearest[static_cast<std::size_t>(row)];
      for (std::int64_t i = 0; i < these; ++i) {
        const float far =
            squared_distance(&of[static_cast<std::size_t>(row * columns)], vector(i), columns);
        if (best.takes(far)) best.add(far, first + i);
      }
    });
  }
  for (std::int64_t row = 0; row < rows; ++row)
    put(found, row, options.count, nearest[static_cast<std::size_t>(row)].sorted(), 1.0F);
  return found;
}

std::int64_t IvfIndex::training_numbers(std::int64_t vectors) const {
  const std::int64_t count = std::ssize(lists);
  constexpr std::int64_t kOfCentre = 1 + sizeof(double) / sizeof(float);  // itself and its sums
  return std::min(std::min(vectors, kPointsPerCentre * count) * centres.columns, kPieceNumbers) +
         kOfCentre * count * centres.columns;
}

void IvfIndex::train(std::span<const float> vectors, Products& products) {
  const std::int64_t columns = centres.columns;
  centres.vectors =
      k_means({.centres = std::ssize(lists), .columns = columns, .iterations = kCentreIterations},
              vectors, products);
  if (graph) graph->build(centres.vectors, columns);
  const auto left_of = [&](std::int64_t most) {
    return products.values<float>(
        assign(drawn_rows(vectors, columns, most, 1234), true, products).residuals);
  };
  if (auto* const product = std::get_if<ProductQuantizer>(&quantizer))
    product->train(left_of(kPointsPerCentre * ProductQuantizer::kCentres), kCodeIterations,
                   products);
  if (auto* const scalar = std::get_if<ScalarQuantizer>(&quantizer))
    scalar->train(left_of(kRanged));
  trained = true;
}

IvfIndex::Assigned IvfIndex::assign(std::span<const float> vectors, bool with_residuals,
                                    Products& products) const {
  const std::int64_t columns = centres.columns, rows = std::ssize(vectors) / columns;
  const Products::Rows x = products.rows(vectors, columns),
                       c = products.rows(centres.vectors, columns);
  Assigned result;
  const Buffer memory = products.buffer(static_cast<std::size_t>(rows) * sizeof(std::int32_t));
  const Tensor found = memory.tensor(DType::i32, {1, rows});
  if (graph && products.device() == Device::cpu) {
    const std::vector<std::int64_t> ids = near(vectors, 1, {}, products).ids;
    result.lists.assign(ids.begin(), ids.end());
    products.put(found, result.lists.data());
  } else {
    products.nearest(found, x.tensor, c.tensor.reshape({1, std::ssize(lists), columns}));
    result.lists = products.values<std::int32_t>(found);
  }
  if (!with_residuals) return result;
  result.memory = products.buffer(vectors.size_bytes());
  result.residuals = result.memory.tensor(DType::f32, {rows, columns});
  row_residuals(result.residuals, x.tensor, c.tensor, found.reshape({rows}), products.stream());
  products.stream().synchronize();  // what it was made of goes
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

// A code's distance from a vector x is that of x - c - r, with its list's centre c and the
// quantizer's r: |x - c|^2 + (|r|^2 + 2 c r) - 2 x r.  The middle term depends on neither vector
// nor code: [lists, parts, 256] of them are made once, where they are not too many.
void IvfIndex::make_terms(std::span<const float> turned, Products& products) {
  const ProductQuantizer& quantizer_of = *product();
  const auto table = static_cast<std::size_t>(quantizer_of.parts * ProductQuantizer::kCentres);
  if (!terms.empty() || lists.size() * table > kMostTerms / sizeof(float)) return;
  terms.resize(lists.size() * table);
  const std::vector<float> zeros(static_cast<std::size_t>(quantizer_of.columns));
  std::vector<float> lengths(table);
  quantizer_of.fill_table(zeros.data(), false, turned, lengths);
  products.each(std::ssize(lists), [&](std::int64_t list) {
    const auto here = std::span(terms).subspan(static_cast<std::size_t>(list) * table, table);
    quantizer_of.fill_table(&centres.vectors[static_cast<std::size_t>(list * centres.columns)],
                            true, turned, here);
    for (std::size_t i = 0; i < table; ++i) here[i] = lengths[i] + 2 * here[i];
  });
}

namespace {

// One vector's way through an index's lists.
class Visit {
 public:
  // turned: ProductQuantizer::turned(), if there is one.
  Visit(const IvfIndex& index, std::span<const float> turned, const float* vector,
        std::int64_t count)
      : index_(index),
        turned_(turned),
        vector_(vector),
        columns_(index.centres.columns),
        bytes_(static_cast<std::size_t>(index.bytes_in_list())),
        best_(count),
        residual_(static_cast<std::size_t>(columns_)),
        other_(residual_.size()) {
    if (!index.product()) return;
    products_with_.resize(bytes_ * ProductQuantizer::kCentres);
    table_.resize(products_with_.size());
    index.product()->fill_table(vector, true, turned, products_with_);
  }

  // `far`: its centre's distance.
  void look_through(std::size_t number, float far) {
    const IvfIndex::List& list = index_.lists[number];
    if (list.ids.empty()) return;
    if (index_.product()) return look_up(list, fill_table(number, far));
    const ScalarQuantizer* const scalar = index_.scalar();
    const float* const from = scalar ? residual(number) : vector_;
    for (std::size_t j = 0; j < list.ids.size(); ++j) {
      if (scalar)
        scalar->decode(&list.codes[j * bytes_], other_.data());
      else
        std::memcpy(other_.data(), &list.codes[j * bytes_], bytes_);
      add(squared_distance(from, other_.data(), columns_), list.ids[j]);
    }
  }

  Nearest& best() { return best_; }

 private:
  void add(float far, std::int64_t id) {
    if (best_.takes(far)) best_.add(far, id);
  }
  const float* residual(std::size_t number) {
    for (std::size_t c = 0; c < residual_.size(); ++c)
      residual_[c] = vector_[c] - index_.centres.vectors[number * residual_.size() + c];
    return residual_.data();
  }
  // Of distances of codes' parts; returns what all codes of the list have besides.
  float fill_table(std::size_t number, float far) {
    if (index_.terms.empty()) {
      index_.product()->fill_table(residual(number), false, turned_, table_);
      return 0;
    }
    const float* const term = &index_.terms[number * table_.size()];
    cpu::run([&] {
      for (std::size_t t = 0; t < table_.size(); ++t) table_[t] = term[t] - 2 * products_with_[t];
    });
    return far;
  }
  void look_up(const IvfIndex::List& list, float begin) {
    constexpr std::size_t kTogether = 8;  // sums that do not wait for each other
    const std::size_t count = list.ids.size();
    const std::uint8_t* code = list.codes.data();
    std::size_t j = 0;
    for (; j + kTogether <= count; j += kTogether, code += kTogether * bytes_) {
      float far[kTogether];
      std::fill_n(far, kTogether, begin);
      const float* part = table_.data();
      for (std::size_t p = 0; p < bytes_; ++p, part += ProductQuantizer::kCentres)
        for (std::size_t k = 0; k < kTogether; ++k) far[k] += part[code[k * bytes_ + p]];
      for (std::size_t k = 0; k < kTogether; ++k) add(far[k], list.ids[j + k]);
    }
    for (; j < count; ++j, code += bytes_) {
      float far = begin;
      for (std::size_t p = 0; p < bytes_; ++p) far += table_[p * 256 + code[p]];
      add(far, list.ids[j]);
    }
  }

  const IvfIndex& index_;
  std::span<const float> turned_;
  const float* vector_;
  std::int64_t columns_;
  std::size_t bytes_;
  Nearest best_;
  std::vector<float> residual_, other_, products_with_, table_;
};

}  // namespace

FoundVectors IvfIndex::search(std::span<const float> of, const IndexSearch& options,
                              Products& products) {
  const std::int64_t columns = centres.columns, rows = std::ssize(of) / columns;
  const std::int64_t visited = std::min(options.lists.value_or(default_lists), std::ssize(lists));
  const FoundVectors coarse = near(of, visited, options.ef_search, products);
  FoundVectors found = none(rows, options.count);
  std::vector<float> turned;
  if (product()) {
    turned = product()->turned();
    make_terms(turned, products);
  }
  products.each(rows, [&](std::int64_t row) {
    Visit visit(*this, turned, &of[static_cast<std::size_t>(row * columns)], options.count);
    for (std::int64_t i = 0; i < visited; ++i) {
      const auto at = static_cast<std::size_t>(row * visited + i);
      if (coarse.ids[at] < 0) break;
      visit.look_through(static_cast<std::size_t>(coarse.ids[at]), coarse.distances[at]);
    }
    put(found, row, options.count, visit.best().sorted(), 1.0F);
  });
  return found;
}

}  // namespace mt
