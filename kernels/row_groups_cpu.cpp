#include "kernels/row_groups.h"

#include <algorithm>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {

void add_to_groups(double* sums, std::int32_t* sizes, const RowGroups& p) {
  constexpr std::int64_t kColumns = 64;  // of one task, which reads all rows
  for (std::int64_t part = 0; part < p.parts; ++part)
    for (std::int64_t i = 0; i < p.rows; ++i) ++sizes[part * p.groups + p.found[part * p.rows + i]];
  const std::int64_t slices = (p.width + kColumns - 1) / kColumns;
  for_blocks(p.parts * slices, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t part = task / slices, first = task % slices * kColumns,
                       count = std::min(kColumns, p.width - first);
    const auto sums_of = [&](std::int64_t g) {
      return sums + (part * p.groups + g) * p.width + first;
    };
    std::vector<double> some(static_cast<std::size_t>(p.groups * count));  // near one another
    for (std::int64_t g = 0; g < p.groups; ++g)
      std::copy_n(sums_of(g), count, &some[static_cast<std::size_t>(g * count)]);
    for (std::int64_t i = 0; i < p.rows; ++i) {
      double* const sum = &some[static_cast<std::size_t>(p.found[part * p.rows + i] * count)];
      const float* const row = p.x + (i * p.parts + part) * p.width + first;
      for (std::int64_t c = 0; c < count; ++c) sum[c] += static_cast<double>(row[c]);
    }
    for (std::int64_t g = 0; g < p.groups; ++g)
      std::copy_n(&some[static_cast<std::size_t>(g * count)], count, sums_of(g));
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

}  // namespace mt::cpu
