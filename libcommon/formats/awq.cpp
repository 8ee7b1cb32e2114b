#include "formats/awq.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/threads.h"
#include "formats/hugging_face/weight_quantizer.h"
#include "formats/smoothing.h"

namespace mt {
namespace {

constexpr std::int64_t kRead = LayerInputs::kMostKept;  // inputs of a layer that errors are of

// w_j of every column.
std::vector<double> shares_of(const std::vector<float>& matrix, std::int64_t in) {
  constexpr float kTiny = 1e-30F;
  std::vector<double> shares(static_cast<std::size_t>(in));
  for (std::size_t at = 0; at < matrix.size(); at += kGroupOfFourBits) {
    const auto group = std::span(matrix).subspan(at, kGroupOfFourBits);
    float largest = kTiny;
    for (const float x : group) largest = std::max(largest, std::fabs(x));
    for (std::size_t i = 0; i < group.size(); ++i)
      shares[(at + i) % static_cast<std::size_t>(in)] += std::fabs(group[i]) / largest;
  }
  for (double& share : shares) share /= static_cast<double>(std::ssize(matrix) / in);
  return shares;
}

std::vector<float> scales_of(const LayerInputs& inputs, const std::vector<double>& shares,
                             double p) {
  std::vector<double> s(shares.size());
  for (std::size_t j = 0; j < s.size(); ++j) {
    const double a = inputs.sums[j] / static_cast<double>(inputs.tokens);
    s[j] = shares[j] > 0 ? std::clamp(std::pow(a, p) / std::pow(shares[j], 1 - p), 1e-4, 1e4) : 1;
  }
  const auto [least, most] = std::ranges::minmax(s);
  std::vector<float> scales;
  for (const double x : s) scales.push_back(static_cast<float>(x / std::sqrt(least * most)));
  return scales;
}

// The squared error of what a row of the matrix makes of the inputs.
double error_of_row(std::span<const float> row, const std::vector<float>& s, const LayerInputs& x) {
  std::vector<float> scaled(row.size()), sums(kRead);
  for (std::size_t j = 0; j < row.size(); ++j) scaled[j] = row[j] * s[j];
  for (std::size_t at = 0; at < row.size(); at += kGroupOfFourBits) {
    const float scale = scale_of_four_bits(std::span(scaled).subspan(at, kGroupOfFourBits));
    for (std::size_t j = at; j < at + kGroupOfFourBits; ++j) {
      const float off = static_cast<float>(four_bits_of(scaled[j], scale)) * scale / s[j] - row[j];
      const float* const channel = &x.some[j * kRead];
      for (std::int64_t i = 0; i < kRead; ++i)
        sums[static_cast<std::size_t>(i)] += off * channel[i];
    }
  }
  double error = 0;
  for (const float sum : sums) error += static_cast<double>(sum) * sum;
  return error;
}

}  // namespace

std::vector<float> awq_scales(const ModelSource& source, const Param& row,
                              const LayerInputs& inputs) {
  const std::vector<float> matrix = matrix_of(source, row);
  const std::int64_t out = row.shape[0], in = row.shape[1];
  const std::vector<double> shares = shares_of(matrix, in);
  std::vector<float> best;
  double least = INFINITY;
  for (int tenths = 0; tenths <= 10; ++tenths) {
    std::vector<float> s = scales_of(inputs, shares, tenths / 10.0);
    std::vector<double> errors(static_cast<std::size_t>(out));
    parallel_for(out, [&](std::int64_t r) {
      errors[static_cast<std::size_t>(r)] = error_of_row(
          std::span(matrix).subspan(static_cast<std::size_t>(r * in), static_cast<std::size_t>(in)),
          s, inputs);
    });
    double error = 0;
    for (const double one : errors) error += one;
    if (error >= least) continue;
    least = error;
    best = std::move(s);
  }
  return best;
}

}  // namespace mt
