#include "comm/rank_grid.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace mt {
namespace {

struct Axis {
  std::string_view name;
  int size = 1, stride = 1;
};

// The axes of a grid in its order.
std::vector<Axis> axes_of(const ParallelSizes& s, Grid grid) {
  const int etp = s.etp > 0 ? s.etp : s.tp;
  if (s.ranks() % (etp * s.ep * s.pp) != 0)
    fail(Exit::bad_config, "world size (", s.ranks(),
         ") is not divisible by expert_tensor_model_pipeline_parallel size (", etp * s.ep * s.pp,
         ")");
  const Axis dp{"dp", grid == Grid::dense ? s.dp : s.ranks() / (etp * s.ep * s.pp)};
  if (grid == Grid::experts && s.pp_before_dp && dp.size != s.dp)
    fail(Exit::bad_config, "experts are shared by ", dp.size, " data-parallel ranks, the rest by ",
         s.dp, ": --use-tp-pp-dp-mapping needs as many of both");
  std::vector<Axis> axes = grid == Grid::dense ? std::vector<Axis>{{"tp", s.tp}, {"cp", s.cp}}
                                               : std::vector<Axis>{{"tp", etp}, {"ep", s.ep}};
  axes.push_back(s.pp_before_dp ? Axis{"pp", s.pp} : dp);
  axes.push_back(s.pp_before_dp ? dp : Axis{"pp", s.pp});
  int stride = 1;
  for (Axis& axis : axes) {
    axis.stride = stride;
    stride *= axis.size;
  }
  return axes;
}

// The sums of index times stride over all indices, the first axis fastest.
std::vector<int> offsets(const std::vector<Axis>& axes) {
  std::vector<int> all{0};
  for (const Axis& axis : axes) {
    const std::vector<int> faster = all;
    all.clear();
    for (int i = 0; i < axis.size; ++i)
      for (const int offset : faster) all.push_back(offset + i * axis.stride);
  }
  return all;
}

bool names(std::string_view axes, std::string_view axis) {
  const std::string within = '-' + std::string(axes) + '-';
  return within.find('-' + std::string(axis) + '-') != std::string::npos;
}

}  // namespace

RankPosition rank_position(const ParallelSizes& sizes, int rank) {
  RankPosition position;
  for (const Axis& axis : axes_of(sizes, Grid::dense)) {
    const int index = rank / axis.stride % axis.size;
    if (axis.name == "tp") position.tp = index;
    if (axis.name == "cp") position.cp = index;
    if (axis.name == "dp") position.dp = index;
    if (axis.name == "pp") position.pp = index;
  }
  return position;
}

RankGroups rank_groups(const ParallelSizes& sizes, std::string_view axes, Grid grid) {
  std::vector<Axis> varied, fixed;
  for (const Axis& axis : axes_of(sizes, grid))
    (names(axes, axis.name) ? varied : fixed).push_back(axis);
  RankGroups groups;
  for (const int first : offsets(fixed)) {
    std::vector<int>& group = groups.emplace_back(offsets(varied));
    for (int& rank : group) rank += first;
  }
  return groups;
}

std::vector<int> rank_group(const ParallelSizes& sizes, std::string_view axes, int rank,
                            Grid grid) {
  std::vector<Axis> varied;
  int first = rank;
  for (const Axis& axis : axes_of(sizes, grid)) {
    if (!names(axes, axis.name)) continue;
    varied.push_back(axis);
    first -= rank / axis.stride % axis.size * axis.stride;
  }
  std::vector<int> group = offsets(varied);
  for (int& member : group) member += first;
  return group;
}

std::vector<int> sharing_group(const ParallelSizes& sizes, const std::vector<int>& set, int rank) {
  const std::vector<int> pipeline = rank_group(sizes, "pp", rank);
  std::vector<int> group;
  for (const int place : set)
    if (const int member = pipeline.at(static_cast<std::size_t>(place));
        group.empty() || group.back() != member)
      group.push_back(member);
  return std::ranges::find(group, rank) == group.end() ? std::vector{rank} : group;
}

}  // namespace mt
