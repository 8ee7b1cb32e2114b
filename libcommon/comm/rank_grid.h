// Where each rank of a run stands, and who works together: Megatron-LM's grids of ranks
// (core_v0.12.1, core/parallel_state.py: RankGenerator).  An order names the axes from the one that
// varies fastest to the slowest; a rank's number is the sum over axes of index times stride, an
// axis's stride being the product of the sizes of those before it.  Two grids lie over the same
// ranks:
//   dense    tp, cp, dp, pp
//   experts  tp (of etp ranks), ep, dp (of ranks / (etp ep pp)), pp
// Pure functions; nothing here communicates.
#pragma once

#include <string_view>
#include <vector>

namespace mt {

// How many ranks share the work along each axis.
struct ParallelSizes {
  int tp = 1, cp = 1, dp = 1, pp = 1;
  int ep = 1;
  int etp = 0;                // tensor-parallel ranks of an expert; 0: as tp
  bool pp_before_dp = false;  // tp-cp-ep-pp-dp instead of tp-cp-ep-dp-pp
  int ranks() const { return tp * cp * dp * pp; }
  // Whether other ranks have copies of an expert's weights than of the rest.  If not, the experts'
  // grid is the dense one with one axis for cp and dp.
  bool experts_apart() const { return ep > 1 || (etp > 0 && etp != tp); }
};

enum class Grid { dense, experts };

// A rank's index on each axis of the dense grid.
struct RankPosition {
  int tp = 0, cp = 0, dp = 0, pp = 0;
  friend bool operator==(const RankPosition&, const RankPosition&) = default;
};
RankPosition rank_position(const ParallelSizes& sizes, int rank);

// The groups of ranks that differ in the axes named, as in "tp-pp" ("ep" of the experts' grid
// alone), and in no other.  Groups stand in the order of the fixed axes, members in that of the
// named ones, the first axis of the order varying fastest.
using RankGroups = std::vector<std::vector<int>>;
RankGroups rank_groups(const ParallelSizes& sizes, std::string_view axes, Grid grid = Grid::dense);

// The group of rank_groups() that a rank belongs to.
std::vector<int> rank_group(const ParallelSizes& sizes, std::string_view axes, int rank,
                            Grid grid = Grid::dense);

// Sets of a pipeline's ranks: those from the first on that hold the same rows, say a word
// embedding.
using SharingRanks = std::vector<std::vector<int>>;

// The ranks of a rank's pipeline that are in the set, if it is one of them; else itself alone.
std::vector<int> sharing_group(const ParallelSizes& sizes, const std::vector<int>& set, int rank);

}  // namespace mt
