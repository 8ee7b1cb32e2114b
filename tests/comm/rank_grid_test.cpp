// The grids of ranks against the tables of Megatron-LM's order, and the groups of a World.
#include "comm/rank_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/world.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

using Groups = RankGroups;

TEST(RankGrid, EightRanks) {
  const ParallelSizes sizes{.tp = 2, .dp = 2, .pp = 2};
  EXPECT_EQ(rank_groups(sizes, "tp"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  const Groups data{{0, 2}, {1, 3}, {4, 6}, {5, 7}};
  EXPECT_EQ(rank_groups(sizes, "dp"), data);
  EXPECT_EQ(rank_groups(sizes, "dp-cp"), data);
  const Groups pipelines{{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  EXPECT_EQ(rank_groups(sizes, "pp"), pipelines);
  EXPECT_EQ(sharing_group(sizes, {0, sizes.pp - 1}, 6), (std::vector{2, 6}));
  EXPECT_EQ(rank_groups(sizes, "tp-pp"), (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(rank_groups(sizes, "tp-dp"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(RankGrid, EightRanksWithContext) {
  const ParallelSizes sizes{.tp = 2, .cp = 2, .pp = 2};
  const Groups context{{0, 2}, {1, 3}, {4, 6}, {5, 7}};
  EXPECT_EQ(rank_groups(sizes, "cp"), context);
  EXPECT_EQ(rank_groups(sizes, "dp"), (Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(rank_groups(sizes, "cp-dp"), context);
  EXPECT_EQ(rank_groups(sizes, "tp-cp"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(RankGrid, Experts) {
  const ParallelSizes sizes{.dp = 8, .ep = 4, .etp = 2};
  EXPECT_EQ(rank_groups(sizes, "ep", Grid::experts), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(rank_groups(sizes, "tp", Grid::experts), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(rank_groups(sizes, "dp", Grid::experts),
            (Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
}

TEST(RankGrid, SixteenRanksInFourStages) {
  const ParallelSizes sizes{.tp = 2, .dp = 2, .pp = 4};
  EXPECT_EQ(rank_groups(sizes, "dp"),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(rank_groups(sizes, "pp"),
            (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(sharing_group(sizes, {0, sizes.pp - 1}, 13), (std::vector{1, 13}));
  EXPECT_EQ(sharing_group(sizes, {0, sizes.pp - 1}, 1), (std::vector{1, 13}));
  EXPECT_EQ(sharing_group(sizes, {0, sizes.pp - 1}, 5), std::vector{5});
}

TEST(RankGrid, EveryAxisAtOnce) {
  const ParallelSizes sizes{.tp = 2, .cp = 2, .dp = 2, .pp = 2, .ep = 4, .etp = 1};
  EXPECT_EQ(rank_groups(sizes, "cp"),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  const Groups data{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}};
  EXPECT_EQ(rank_groups(sizes, "dp"), data);
  EXPECT_EQ(rank_groups(sizes, "dp", Grid::experts), data);
  EXPECT_EQ(rank_groups(sizes, "dp-cp"),
            (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(rank_groups(sizes, "pp"),
            (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
  EXPECT_EQ(rank_groups(sizes, "pp", Grid::experts), rank_groups(sizes, "pp"));
  const Groups fours{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};
  EXPECT_EQ(rank_groups(sizes, "tp-cp"), fours);
  EXPECT_EQ(rank_groups(sizes, "ep", Grid::experts), fours);
  EXPECT_EQ(rank_groups(sizes, "tp-ep-pp", Grid::experts),
            (Groups{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}));
  EXPECT_EQ(rank_position(sizes, 13), (RankPosition{.tp = 1, .cp = 0, .dp = 1, .pp = 1}));
}

// Megatron's RankGenerator, asked for the same sizes, lists these.
TEST(RankGrid, ExpertsOfSeveralStages) {
  const ParallelSizes sizes{.tp = 2, .dp = 4, .pp = 2, .ep = 2};
  EXPECT_EQ(rank_groups(sizes, "dp-cp"),
            (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(rank_groups(sizes, "tp", Grid::experts), rank_groups(sizes, "tp"));
  EXPECT_EQ(rank_groups(sizes, "ep", Grid::experts),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(rank_groups(sizes, "dp", Grid::experts),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(rank_groups(sizes, "tp-ep", Grid::experts),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(rank_groups(sizes, "tp-ep-pp", Grid::experts),
            (Groups{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}));
  const ParallelSizes thirds{.dp = 6, .pp = 2, .ep = 3, .etp = 1};
  EXPECT_EQ(rank_groups(thirds, "ep", Grid::experts),
            (Groups{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}));
  EXPECT_EQ(rank_groups(thirds, "dp", Grid::experts),
            (Groups{{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8, 11}}));
  EXPECT_EQ(rank_groups(thirds, "tp-ep-pp", Grid::experts),
            (Groups{{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}}));
}

// Whole experts on ranks that share the other matrices.
TEST(RankGrid, ExpertsThatNoRanksShare) {
  const ParallelSizes sizes{.tp = 2, .dp = 4, .ep = 2, .etp = 1};
  EXPECT_EQ(rank_groups(sizes, "tp", Grid::experts),
            (Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(rank_groups(sizes, "ep", Grid::experts), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(rank_groups(sizes, "dp", Grid::experts), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  const ParallelSizes all{.tp = 2, .cp = 2, .dp = 2, .etp = 1};
  EXPECT_TRUE(all.experts_apart());
  EXPECT_EQ(rank_groups(all, "dp", Grid::experts), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

// With expert parallelism of size 1, and experts cut as all else is, both grids are one.
TEST(RankGrid, ExpertsAreCopiedAsTheRest) {
  for (const int etp : {0, 2}) {
    const ParallelSizes sizes{.tp = 2, .cp = 2, .dp = 3, .pp = 2, .etp = etp};
    EXPECT_FALSE(sizes.experts_apart());
    EXPECT_EQ(rank_groups(sizes, "tp", Grid::experts), rank_groups(sizes, "tp"));
    EXPECT_EQ(rank_groups(sizes, "dp", Grid::experts), rank_groups(sizes, "cp-dp"));
    EXPECT_EQ(rank_groups(sizes, "tp-ep-pp", Grid::experts), rank_groups(sizes, "tp-pp"));
  }
}

TEST(RankGrid, PipelinesBeforeData) {
  const ParallelSizes sizes{.tp = 2, .dp = 4, .pp = 2, .pp_before_dp = true};
  EXPECT_EQ(rank_groups(sizes, "dp"),
            (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(rank_groups(sizes, "pp"),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(rank_groups(sizes, "tp-pp"),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
}

TEST(RankGrid, WhatCannotBeDivided) {
  EXPECT_THROW(rank_groups({.dp = 8, .ep = 3}, "ep", Grid::experts), Error);
  EXPECT_THROW(rank_groups({.dp = 8, .ep = 4, .pp_before_dp = true}, "ep", Grid::experts), Error);
}

// A sum that says which ranks are in a group.
double sum_over(Group& group, int rank) {
  double value = std::exp2(rank);
  group.all_reduce({&value, DType::f64, {1}}).wait();
  return value;
}

// The same of the group that the rank is in.
double sum_over(const RankGroups& groups, int rank) {
  double value = 0;
  for (const std::vector<int>& group : groups)
    if (std::ranges::count(group, rank) > 0)
      for (const int member : group) value += std::exp2(member);
  return value;
}

// Each group sums the numbers of its members, while the other groups do the same.
TEST(World, GroupsOfEightRanks) {
  const ParallelSizes sizes{.tp = 2, .dp = 2, .pp = 2};
  run_ranks(8, [&](Group& all) {
    const World world(all, sizes);
    const auto sum = [&](Group& group) { return sum_over(group, all.rank()); };
    const auto expected = [&](const RankGroups& groups) { return sum_over(groups, all.rank()); };
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(sum(world.tensor()), expected(rank_groups(sizes, "tp")));
      EXPECT_EQ(sum(world.model()), expected(rank_groups(sizes, "tp-pp")));
      EXPECT_EQ(sum(world.data()), expected(rank_groups(sizes, "dp")));
      EXPECT_EQ(sum(world.pipeline()), expected(rank_groups(sizes, "pp")));
      EXPECT_EQ(sum(world.all()), 255);
      EXPECT_EQ(world.context().size(), 1);
    }
    EXPECT_EQ(world.tensor().rank(), world.position().tp);
    EXPECT_EQ(world.data().rank(), world.position().dp);
    EXPECT_EQ(world.pipeline().rank(), world.position().pp);
  });
}

TEST(World, GroupsOfExperts) {
  for (const ParallelSizes& sizes : {ParallelSizes{.tp = 2, .dp = 4, .ep = 2, .etp = 1},
                                     ParallelSizes{.dp = 4, .pp = 2, .ep = 2},
                                     ParallelSizes{.tp = 2, .cp = 2, .dp = 2, .etp = 1}})
    run_ranks(8, [&](Group& all) {
      const World world(all, sizes);
      const auto expect = [&](Group& group, const char* axes) {
        EXPECT_EQ(sum_over(group, all.rank()),
                  sum_over(rank_groups(sizes, axes, Grid::experts), all.rank()))
            << axes;
      };
      for (int again = 0; again < 2; ++again) {
        expect(world.experts(), "ep");
        expect(world.expert_tensor(), "tp");
        expect(world.expert_data(), "dp");
        expect(world.expert_model(), "tp-ep-pp");
      }
    });
}

TEST(World, WithoutExpertsApartTheirGroupsAreTheOthers) {
  run_ranks(8, [](Group& all) {
    const World world(all, {.tp = 2, .cp = 2, .dp = 2, .pp_before_dp = true});
    EXPECT_EQ(world.experts().size(), 1);
    EXPECT_EQ(&world.expert_tensor(), &world.tensor());
    EXPECT_EQ(&world.expert_data(), &world.data_context());
    EXPECT_EQ(&world.expert_model(), &world.model());
  });
}

// Ranks that wait in a group of their own are told of one that fails in another.
TEST(World, AFailureInOneGroupEndsTheWaitsOfAll) {
  std::string thrown;
  try {
    run_ranks(4, [&](Group& all) {
      const World world(all, {.tp = 2, .dp = 2});
      if (all.rank() == 3) fail(Exit::bad_data, "gone");
      for (;;) world.tensor().barrier(), world.data().barrier();
    });
  } catch (const Error& error) {
    thrown = error.what();
  }
  EXPECT_EQ(thrown, "gone");
}

TEST(World, AsManyRanksAsItsGrid) {
  run_ranks(2, [](Group& all) { EXPECT_THROW(World(all, {.tp = 4}), Error); });
}

}  // namespace
}  // namespace mt
