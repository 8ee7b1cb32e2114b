// World: a rank's place among all, and the groups that it works in (DESIGN D6).
#pragma once

#include <memory>

#include "comm/group.h"
#include "comm/rank_grid.h"

namespace mt {

class World {
 public:
  // Called on every rank of `all`, which must outlive this.  sharing: sets of a pipeline's ranks,
  // in ascending order, whose stages have rows in common; by default the first and the last.
  World(Group& all, const ParallelSizes& sizes, const SharingRanks& sharing = {});

  const ParallelSizes& sizes() const { return sizes_; }
  const RankPosition& position() const { return position_; }

  Group& all() const { return all_; }
  Group& tensor() const { return *tensor_; }    // they share matrices
  Group& context() const { return *context_; }  // a sequence
  // The ranks of a pipeline whose stages have rows in common: each set's, or this rank alone.
  const std::vector<std::unique_ptr<Group>>& sharing() const { return sharing_; }
  // These carry numbers, and are split for what else they share.
  Group& data() const { return *data_; }                  // a step's sequences
  Group& data_context() const { return *data_context_; }  // gradients, and what is sharded of them
  Group& pipeline() const { return *pipeline_; }          // layers
  Group& model() const { return *model_; }                // all weights, of one replica

  // The groups of experts.  Unless sizes().experts_apart(), the first has this rank alone, and the
  // others are tensor(), data_context() and model().
  Group& experts() const { return *experts_; }  // they have different experts of the same layers
  // Those that a layer's tokens travel among: all of both, or, unless experts are apart, tensor().
  Group& expert_grid() const { return expert_grid_ ? *expert_grid_ : *tensor_; }
  Group& expert_tensor() const { return expert_tensor_ ? *expert_tensor_ : *tensor_; }
  // These carry numbers.
  Group& expert_data() const { return expert_data_ ? *expert_data_ : *data_context_; }
  Group& expert_model() const { return expert_model_ ? *expert_model_ : *model_; }

 private:
  Group& all_;
  ParallelSizes sizes_;
  RankPosition position_;
  std::unique_ptr<Group> tensor_, context_, data_context_, data_, pipeline_, model_;
  std::vector<std::unique_ptr<Group>> sharing_;
  std::unique_ptr<Group> experts_, expert_grid_, expert_tensor_, expert_data_, expert_model_;
};

}  // namespace mt
