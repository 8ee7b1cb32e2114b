#include "comm/world.h"

namespace mt {

static std::unique_ptr<Group> split(Group& all, const RankGroups& groups) {
  return all.split(group_of(groups, all.rank()));
}

World::World(Group& all, const ParallelSizes& sizes)
    : all_(all),
      sizes_(sizes),
      position_(rank_position(sizes, all.rank())),
      tensor_(split(all, rank_groups(sizes, "tp"))),
      context_(split(all, rank_groups(sizes, "cp"))),
      data_(split(all, rank_groups(sizes, "dp"))),
      data_context_(split(all, rank_groups(sizes, "cp-dp"))),
      pipeline_(split(all, rank_groups(sizes, "pp"))),
      embedding_(split(all, embedding_groups(sizes))),
      model_(split(all, rank_groups(sizes, "tp-pp"))) {
  if (sizes.ranks() != all.size())
    fail(Exit::internal, "a grid of ", sizes.ranks(), " ranks in a world of ", all.size());
}

}  // namespace mt
