// step_runs: who shares a step where there are more rows than a step takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mt {

// Returns the run, counted from 0, that each is in: `rows` of each, at least one, and at most
// `most` rows together.
// Each stays in the run that it was in `before`, where what comes next of it may be on its way
// (infer/token_steps.h), while its run has room and as many runs are needed as hold all rows.
std::vector<std::size_t> step_runs(std::span<const std::int64_t> rows,
                                   std::span<const std::optional<std::size_t>> before,
                                   std::int64_t most);

}  // namespace mt
