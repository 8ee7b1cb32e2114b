#include "comm/world.h"

namespace mt {

static std::unique_ptr<Group> split(Group& all, const ParallelSizes& sizes, const char* axes) {
  return all.split(rank_group(sizes, axes, all.rank()));
}

World::World(Group& all, const ParallelSizes& sizes)
    : all_(all),
      sizes_(sizes),
      position_(rank_position(sizes, all.rank())),
      tensor_(split(all, sizes, "tp")),
      context_(split(all, sizes, "cp")),
      data_(split(all, sizes, "dp")),
      data_context_(split(all, sizes, "cp-dp")),
      pipeline_(split(all, sizes, "pp")),
      embedding_(all.split(embedding_group(sizes, all.rank()))),
      model_(split(all, sizes, "tp-pp")) {
  if (sizes.ranks() != all.size())
    fail(Exit::internal, "a grid of ", sizes.ranks(), " ranks in a world of ", all.size());
}

}  // namespace mt
