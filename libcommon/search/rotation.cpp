#include "search/rotation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "kernels/loops.h"
#include "kernels/near_rows.h"
#include "search/kmeans.h"
#include "search/product_quantizer.h"

namespace mt {
namespace {

constexpr std::int64_t kMostVectors = 65536;    // for a product quantizer
constexpr std::int64_t kMostOfAColumn = 1000;   // for components, as many for each column
constexpr std::int64_t kMostNumbers = 1 << 24;  // that are rotated at a time
constexpr int kRounds = 50, kFirstIterations = 40, kIterations = 4;
constexpr std::uint64_t kSeed = 12345;
constexpr std::uint32_t kPurpose = 0x6F7071;
constexpr double kEnough = 1e-7;  // of the largest value, which leaves more digits than f32 has

using Matrix = std::vector<double>;  // row after row

double* row_of(Matrix& matrix, std::int64_t row, std::int64_t columns) {
  return &matrix[static_cast<std::size_t>(row * columns)];
}

double dot(const double* a, const double* b, std::int64_t columns) {
  return cpu::sum<double>(columns, [&](std::int64_t i) { return a[i] * b[i]; });
}

Matrix drawn_matrix(std::int64_t rows, std::int64_t columns) {
  const RandomKey key = RandomKey::make(kSeed, kPurpose);
  Matrix matrix(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < matrix.size(); ++i) {  // Box and Muller's normal numbers
    const Counter words = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, key);
    matrix[i] = std::sqrt(-2 * std::log(to_unit(words[0]))) *
                std::cos(2 * std::numbers::pi * to_unit(words[1]));
  }
  return matrix;
}

// Makes rows orthonormal, one after another, by Gram and Schmidt, twice for the digits that the
// first pass loses.  A row of which nothing is left becomes what is left of the same row of
// `other`, or of the first unit vector that has something left.
void make_orthonormal(Matrix& matrix, std::int64_t rows, std::int64_t columns, Matrix other) {
  for (std::int64_t i = 0; i < rows; ++i) {
    double* const row = row_of(matrix, i, columns);
    for (std::int64_t attempt = -1;; ++attempt) {
      const double before = std::sqrt(dot(row, row, columns));
      for (int pass = 0; pass < 2; ++pass)
        for (std::int64_t j = 0; j < i; ++j) {
          const double* const done = row_of(matrix, j, columns);
          const double along = dot(row, done, columns);
          for (std::int64_t c = 0; c < columns; ++c) row[c] -= along * done[c];
        }
      const double length = std::sqrt(dot(row, row, columns));
      if (length > 1e-6 * before && length > 0) {
        for (std::int64_t c = 0; c < columns; ++c) row[c] /= length;
        break;
      }
      for (std::int64_t c = 0; c < columns; ++c)
        row[c] = attempt < 0 ? row_of(other, i, columns)[c] : static_cast<double>(c == attempt);
    }
  }
}

// A symmetric matrix a = Q T Q' with T tridiagonal, by Householder's reflections.
struct Tridiagonal {
  std::vector<double> diagonal, beside;  // [n]; the last beside it is 0
  Matrix turn;                           // Q'
};
Tridiagonal tridiagonal(Matrix a, std::int64_t n) {
  Tridiagonal t{.diagonal = std::vector<double>(static_cast<std::size_t>(n)),
                .beside = std::vector<double>(static_cast<std::size_t>(n)),
                .turn = Matrix(a.size())};
  std::vector<double> w(static_cast<std::size_t>(n)), twice_by_square(w);
  // Row k keeps its reflection's vector behind its diagonal, by which I - 2 v v' / v' v reflects.
  for (std::int64_t k = 0; k + 1 < n; ++k) {
    double* const v = row_of(a, k, n);
    const double square = dot(v + k + 1, v + k + 1, n - k - 1),
                 along = v[k + 1] > 0 ? -std::sqrt(square) : std::sqrt(square);
    t.beside[static_cast<std::size_t>(k)] = along;
    if (!(square > 0)) continue;
    v[k + 1] -= along;
    const double factor = 2 / dot(v + k + 1, v + k + 1, n - k - 1);
    twice_by_square[static_cast<std::size_t>(k)] = factor;
    for (std::int64_t i = k + 1; i < n; ++i)
      w[static_cast<std::size_t>(i)] = factor * dot(row_of(a, i, n) + k + 1, v + k + 1, n - k - 1);
    const double half = factor / 2 * dot(&w[static_cast<std::size_t>(k + 1)], v + k + 1, n - k - 1);
    for (std::int64_t i = k + 1; i < n; ++i) w[static_cast<std::size_t>(i)] -= half * v[i];
    for (std::int64_t i = k + 1; i < n; ++i) {
      double* const row = row_of(a, i, n);
      const double of_v = v[i], of_w = w[static_cast<std::size_t>(i)];
      for (std::int64_t c = k + 1; c < n; ++c)
        row[c] -= of_v * w[static_cast<std::size_t>(c)] + of_w * v[c];
    }
  }
  Matrix q(a.size());  // the product of the reflections, from the last on
  for (std::int64_t k = n - 1; k >= 0; --k) {
    t.diagonal[static_cast<std::size_t>(k)] = row_of(a, k, n)[k];
    row_of(q, k, n)[k] = 1;
    const double factor = twice_by_square[static_cast<std::size_t>(k)];
    if (factor == 0) continue;
    const double* const v = row_of(a, k, n);
    std::ranges::fill(w, 0);
    for (std::int64_t i = k + 1; i < n; ++i)
      for (std::int64_t c = k + 1; c < n; ++c)
        w[static_cast<std::size_t>(c)] += factor * v[i] * row_of(q, i, n)[c];
    for (std::int64_t i = k + 1; i < n; ++i)
      for (std::int64_t c = k + 1; c < n; ++c)
        row_of(q, i, n)[c] -= v[i] * w[static_cast<std::size_t>(c)];
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) row_of(t.turn, j, n)[i] = row_of(q, i, n)[j];
  return t;
}

// Eigenvalues of a symmetric matrix, and its eigenvectors as rows, by the QL algorithm with
// implicit shifts (Dubrulle, Martin, Wilkinson, "The implicit QL algorithm", 1968).
std::vector<double> eigen(Matrix a, std::int64_t n, Matrix& vectors) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  constexpr int kMostSteps = 64;  // of an eigenvalue, which takes two or three
  Tridiagonal t = tridiagonal(std::move(a), n);
  vectors = std::move(t.turn);
  double* const d = t.diagonal.data();
  double* const e = t.beside.data();
  for (std::int64_t first = 0; first < n; ++first)
    for (int step = 0; step < kMostSteps; ++step) {
      std::int64_t last = first;  // of a block that is not yet diagonal
      while (last + 1 < n &&
             !(std::abs(e[last]) <= kEpsilon * (std::abs(d[last]) + std::abs(d[last + 1]))))
        ++last;
      if (last == first) break;
      const double half = (d[first + 1] - d[first]) / (2 * e[first]);
      double g = d[last] - d[first] + e[first] / (half + std::copysign(std::hypot(half, 1), half));
      double s = 1, c = 1, shift = 0;
      std::int64_t i = last - 1;
      for (; i >= first; --i) {
        const double f = s * e[i], b = c * e[i], r = std::hypot(f, g);
        e[i + 1] = r;
        if (r == 0) break;
        s = f / r;
        c = g / r;
        const double before = d[i + 1] - shift, more = (d[i] - before) * s + 2 * c * b;
        shift = s * more;
        d[i + 1] = before + shift;
        g = c * more - b;
        double* const v = row_of(vectors, i, n);
        double* const w = row_of(vectors, i + 1, n);
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = v[k], y = w[k];
          w[k] = s * x + c * y;
          v[k] = c * x - s * y;
        }
      }
      if (i >= first) {  // the block parts here
        d[i + 1] -= shift;
      } else {
        d[first] -= shift;
        e[first] = g;
      }
      e[last] = 0;
    }
  return t.diagonal;
}

// The matrix with orthonormal rows that is nearest to m [rows, columns]: U V' of its singular value
// decomposition U S V', as (m m')^-1/2 m; rows that m has nothing of are `other`'s.
Matrix nearest_rotation(const Matrix& m, std::int64_t rows, std::int64_t columns, Matrix other,
                        Products& products) {
  Matrix square(static_cast<std::size_t>(rows * rows)), u;
  products.each(rows, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < rows; ++j)
      row_of(square, i, rows)[j] = dot(&m[static_cast<std::size_t>(i * columns)],
                                       &m[static_cast<std::size_t>(j * columns)], columns);
  });
  const std::vector<double> values = eigen(std::move(square), rows, u);
  const auto [least, most] = std::ranges::minmax(values);
  Matrix v(m.size());  // V'
  products.each(rows, [&](std::int64_t k) {
    const double value = values[static_cast<std::size_t>(k)];
    if (value <= 1e-14 * most) return;
    for (std::int64_t i = 0; i < rows; ++i) {
      const double factor = row_of(u, k, rows)[i] / std::sqrt(value);
      for (std::int64_t c = 0; c < columns; ++c)
        row_of(v, k, columns)[c] += factor * m[static_cast<std::size_t>(i * columns + c)];
    }
  });
  // Rows of V' are orthonormal but for what their values have lost, of the largest's 16 digits.
  if (!(least > kEnough * most)) make_orthonormal(v, rows, columns, std::move(other));
  Matrix result(m.size());
  products.each(rows, [&](std::int64_t i) {
    for (std::int64_t k = 0; k < rows; ++k)
      for (std::int64_t c = 0; c < columns; ++c)
        row_of(result, i, columns)[c] += row_of(u, k, rows)[i] * row_of(v, k, columns)[c];
  });
  return result;
}

// Takes the mean from all, and returns it.
std::vector<double> centre(std::vector<float>& vectors, std::int64_t columns, Products& products) {
  constexpr std::int64_t kTogether = 64;  // columns, and then rows
  const std::int64_t rows = std::ssize(vectors) / columns;
  const auto in_blocks = [&](std::int64_t all, const auto& body) {
    products.each((all + kTogether - 1) / kTogether, [&](std::int64_t block) {
      body(block * kTogether, std::min(all, (block + 1) * kTogether));
    });
  };
  std::vector<double> means(static_cast<std::size_t>(columns));
  in_blocks(columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t c = begin; c < end; ++c)
        means[static_cast<std::size_t>(c)] +=
            static_cast<double>(vectors[static_cast<std::size_t>(i * columns + c)]);
  });
  for (double& mean : means) mean /= static_cast<double>(rows);
  in_blocks(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t c = 0; c < columns; ++c)
        vectors[static_cast<std::size_t>(i * columns + c)] -=
            static_cast<float>(means[static_cast<std::size_t>(c)]);
  });
  return means;
}

std::vector<float> transposed(std::span<const float> m, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(m.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      result[static_cast<std::size_t>(j * rows + i)] = m[static_cast<std::size_t>(i * columns + j)];
  return result;
}

}  // namespace

// As faiss's fvec_renorm_L2().
static void make_length_1(std::span<float> vectors, std::int64_t columns, Products& products) {
  products.each(std::ssize(vectors) / columns, [&](std::int64_t row) {
    float* const x = &vectors[static_cast<std::size_t>(row * columns)];
    const float square = cpu::inner_product(x, x, columns);
    if (!(square > 0)) return;
    const float factor = 1 / std::sqrt(square);
    for (std::int64_t c = 0; c < columns; ++c) x[c] *= factor;
  });
}

std::vector<float> Rotation::apply(std::span<const float> vectors, Products& products) const {
  const std::int64_t rows = std::ssize(vectors) / in,
                     most = std::max<std::int64_t>(1, kMostNumbers / std::max(in, out));
  std::vector<float> result(static_cast<std::size_t>(rows * out));
  for (std::int64_t begin = 0; begin < rows; begin += most) {
    products.poll();
    const std::int64_t some = std::min(most, rows - begin);
    const Tensor y = products.scratch(Products::kTurned, DType::f32, {some, out});
    apply(y,
          products.rows(Products::kVectors,
                        vectors.subspan(static_cast<std::size_t>(begin * in),
                                        static_cast<std::size_t>(some * in)),
                        in),
          products);
    products.get(&result[static_cast<std::size_t>(begin * out)], y);
  }
  return result;
}

void Rotation::apply(Tensor y, ConstTensor vectors, Products& products) const {
  if (!to_length_1) products.dot(y, vectors, products.rows(Products::kMatrix, matrix, in));
  if (!to_length_1 && bias.empty()) return;
  std::vector<float> all = products.values<float>(to_length_1 ? vectors : y);
  if (to_length_1) make_length_1(all, in, products);
  for (auto row = all.begin(); !bias.empty() && row != all.end(); row += out)
    for (std::int64_t i = 0; i < out; ++i) row[i] += bias[static_cast<std::size_t>(i)];
  products.put(y, all.data());
}

std::int64_t Rotation::fewest_vectors() const {
  if (to_length_1) return 1;
  return parts > 0 ? ProductQuantizer().part_centres() : out + 1;
}

std::int64_t Rotation::training_numbers(std::int64_t vectors) const {
  if (to_length_1) return 0;
  return parts > 0 ? std::min(vectors, kMostVectors) * (in + 2 * out)
                   : 2 * std::min(vectors, kMostOfAColumn * in) * in;
}

void Rotation::train(std::span<const float> vectors, Products& products) {
  if (parts > 0)
    train_for_parts(vectors, products);
  else
    train_components(vectors, products);
}

void Rotation::train_for_parts(std::span<const float> vectors, Products& products) {
  std::vector<float> points = drawn_rows(vectors, in, kMostVectors, kSeed);
  centre(points, in, products);
  const Products::Rows all = products.rows(points, in);
  Matrix now = drawn_matrix(out, in);
  make_orthonormal(now, out, in, drawn_matrix(out, in));
  ProductQuantizer quantizer{.columns = out, .parts = parts};
  const Buffer memory[] = {products.buffer(points.size() / in * out * sizeof(float)),
                           products.buffer(points.size() / in * out * sizeof(float))};
  const Shape shape = {all.tensor.shape()[0], out};
  const Tensor rotated = memory[0].tensor(DType::f32, shape),
               said = memory[1].tensor(DType::f32, shape);
  for (int round = 0; round < kRounds; ++round) {
    matrix.assign(now.begin(), now.end());
    products.dot(rotated, all.tensor, products.rows(Products::kMatrix, matrix, in));
    quantizer.train(rotated, round == 0 ? kFirstIterations : kIterations, products);
    quantizer.decode_codes_of(said, rotated, products);
    const std::vector<float> m = products.sum_of_outer(said, all.tensor);  // [out, in]
    now = nearest_rotation(Matrix(m.begin(), m.end()), out, in, now, products);
  }
  matrix.assign(now.begin(), now.end());
}

void Rotation::train_components(std::span<const float> vectors, Products& products) {
  std::vector<float> points = drawn_rows(vectors, in, kMostOfAColumn * in, kSeed);
  const std::vector<double> means = centre(points, in, products);
  const std::int64_t count = std::ssize(points) / in;
  const std::vector<float> columns_of = transposed(points, count, in);
  const std::vector<float> covariance = products.dot(columns_of, columns_of, count);
  Matrix vectors_of;
  const std::vector<double> variances =
      eigen(Matrix(covariance.begin(), covariance.end()), in, vectors_of);
  std::vector<std::int64_t> order(variances.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::int64_t i) { return variances[static_cast<std::size_t>(i)]; });
  Matrix components(static_cast<std::size_t>(out * in));
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i)];
    // faiss's sums of squares, which no count divides.
    const double variance = variances[static_cast<std::size_t>(from)];
    if (power < 0 && !(variance > 0))
      fail(Exit::bad_config, "PCAW", out, ": the vectors that it is trained on differ in ", i,
           " directions alone");
    const double factor = std::pow(variance, static_cast<double>(power));
    for (std::int64_t c = 0; c < in; ++c)
      row_of(components, i, in)[c] = factor * row_of(vectors_of, from, in)[c];
  }
  if (turned) {
    Matrix turn = drawn_matrix(out, out), all(components.size());
    make_orthonormal(turn, out, out, drawn_matrix(out, out));
    for (std::int64_t i = 0; i < out; ++i)
      for (std::int64_t k = 0; k < out; ++k)
        for (std::int64_t c = 0; c < in; ++c)
          row_of(all, i, in)[c] += row_of(turn, i, out)[k] * row_of(components, k, in)[c];
    components = std::move(all);
  }
  for (std::int64_t i = 0; i < out; ++i)
    bias.push_back(static_cast<float>(-dot(row_of(components, i, in), means.data(), in)));
  matrix.assign(components.begin(), components.end());
}

}  // namespace mt
