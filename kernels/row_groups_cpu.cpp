#include "kernels/row_groups.h"

#include <algorithm>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {

namespace {

// Adds some columns of each row to those of its group; kCount: 0, or how many.
template <std::int64_t kCount>
[[gnu::always_inline]] inline void add_columns(double* sums, const std::int32_t* found,
                                               const float* x, std::int64_t stride,
                                               std::int64_t rows, std::int64_t count) {
  const std::int64_t columns = kCount > 0 ? kCount : count;
  for (std::int64_t i = 0; i < rows; ++i, x += stride) {
    double* const sum = sums + found[i] * columns;
    for (std::int64_t c = 0; c < columns; ++c) sum[c] += static_cast<double>(x[c]);
  }
}

}  // namespace

void add_to_groups(double* sums, std::int32_t* sizes, const RowGroups& p) {
  constexpr std::int64_t kColumns = 64;   // of one task, which reads all rows
  constexpr std::int64_t kTogether = 16;  // columns of narrow parts, that a cache line has
  constexpr std::int64_t kRows = 1024;    // whose numbers are in the first cache for these
  const std::int64_t slices = (p.width + kColumns - 1) / kColumns,
                     parts = std::clamp<std::int64_t>(kTogether / p.width, 1, p.parts),
                     stride = p.parts * p.width;
  for_blocks(p.parts, parts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      for (std::int64_t i = 0; i < p.rows; ++i)
        ++sizes[part * p.groups + p.found[part * p.rows + i]];
  });
  for_blocks((p.parts + parts - 1) / parts * slices, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t begin = task / slices * parts, end = std::min(begin + parts, p.parts),
                       first = task % slices * kColumns,
                       count = std::min(kColumns, p.width - first);
    std::vector<double> some(static_cast<std::size_t>((end - begin) * p.groups * count));
    const auto for_groups = [&](const auto& copy) {
      for (std::int64_t group = begin * p.groups; group < end * p.groups; ++group)
        copy(sums + group * p.width + first,
             &some[static_cast<std::size_t>((group - begin * p.groups) * count)]);
    };
    for_groups([&](double* all, double* here) { std::copy_n(all, count, here); });
    for (std::int64_t row = 0; row < p.rows; row += kRows)
      for (std::int64_t part = begin; part < end; ++part) {
        const auto add = [&]<std::int64_t kCount>() __attribute__((always_inline)) {
          add_columns<kCount>(&some[static_cast<std::size_t>((part - begin) * p.groups * count)],
                              p.found + part * p.rows + row,
                              p.x + row * stride + part * p.width + first, stride,
                              std::min(kRows, p.rows - row), count);
        };
        if (count == 4)
          add.template operator()<4>();
        else
          add.template operator()<0>();
      }
    for_groups([&](double* all, double* here) { std::copy_n(here, count, all); });
  });
}

void group_means(float* centres, const double* sums, const std::int32_t* sizes, std::int64_t groups,
                 std::int64_t width) {
  for_blocks(groups, rows_per_block(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g)
      for (std::int64_t c = g * width; sizes[g] > 0 && c < (g + 1) * width; ++c)
        centres[c] = static_cast<float>(sums[c] / static_cast<double>(sizes[g]));
  });
}

void row_residuals(float* y, const float* centres, const RowGroups& p) {
  for_blocks(p.rows, rows_per_block(p.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const centre = centres + p.found[i] * p.width;
      for (std::int64_t c = 0; c < p.width; ++c)
        y[i * p.width + c] = p.x[i * p.width + c] - centre[c];
    }
  });
}

void rows_of_centres(float* y, const float* centres, const RowGroups& p) {
  const std::int64_t columns = p.parts * p.width;
  for_blocks(p.rows, rows_per_block(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t part = 0; part < p.parts; ++part)
        std::copy_n(centres + (part * p.groups + p.found[part * p.rows + i]) * p.width, p.width,
                    y + i * columns + part * p.width);
  });
}

void row_codes(std::uint8_t* y, const RowGroups& p) {
  for_blocks(p.rows, rows_per_block(p.parts), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 0; part < p.parts; ++part)
      for (std::int64_t i = begin; i < end; ++i)
        y[i * p.parts + part] = static_cast<std::uint8_t>(p.found[part * p.rows + i]);
  });
}

}  // namespace mt::cpu
