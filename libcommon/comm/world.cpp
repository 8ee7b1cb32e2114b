#include "comm/world.h"

#include <algorithm>

namespace mt {

static std::unique_ptr<Group> split(Group& all, const ParallelSizes& sizes, const char* axes,
                                    Carries carries, Grid grid = Grid::dense) {
  return all.split(rank_group(sizes, axes, all.rank(), grid), carries);
}

// The places that the members of a group have in the group of more axes; both are in ascending
// order.
static std::vector<int> places(const ParallelSizes& sizes, const char* axes, const char* more_axes,
                               int rank) {
  const std::vector<int> whole = rank_group(sizes, more_axes, rank);
  std::vector<int> found;
  for (const int member : rank_group(sizes, axes, rank))
    found.push_back(static_cast<int>(std::ranges::lower_bound(whole, member) - whole.begin()));
  return found;
}

static std::vector<std::unique_ptr<Group>> split_sharing(Group& all, const ParallelSizes& sizes,
                                                         const SharingRanks& sharing) {
  std::vector<std::unique_ptr<Group>> groups;
  for (const std::vector<int>& set : sharing.empty() ? SharingRanks{{0, sizes.pp - 1}} : sharing)
    groups.push_back(all.split(sharing_group(sizes, set, all.rank())));
  return groups;
}

World::World(Group& all, const ParallelSizes& sizes, const SharingRanks& sharing)
    : all_(all),
      sizes_(sizes),
      position_(rank_position(sizes, all.rank())),
      tensor_(split(all, sizes, "tp", Carries::tensors)),
      context_(split(all, sizes, "cp", Carries::tensors)),
      data_context_(split(all, sizes, "cp-dp", Carries::numbers)),
      data_(data_context_->split(places(sizes, "dp", "cp-dp", all.rank()), Carries::numbers)),
      pipeline_(split(all, sizes, "pp", Carries::numbers)),
      model_(split(all, sizes, "tp-pp", Carries::numbers)),
      sharing_(split_sharing(all, sizes, sharing)) {
  if (sizes.ranks() != all.size())
    fail(Exit::internal, "a grid of ", sizes.ranks(), " ranks in a world of ", all.size());
  if (!sizes.experts_apart()) {
    experts_ = make_single_group();
    return;
  }
  experts_ = split(all, sizes, "ep", Carries::tensors, Grid::experts);
  expert_grid_ = split(all, sizes, "tp-ep", Carries::tensors, Grid::experts);
  expert_tensor_ = split(all, sizes, "tp", Carries::tensors, Grid::experts);
  expert_data_ = split(all, sizes, "dp", Carries::numbers, Grid::experts);
  expert_model_ = split(all, sizes, "tp-ep-pp", Carries::numbers, Grid::experts);
}

}  // namespace mt
