// --plan-search: which layouts of a run on so many GPUs are fastest by their plans, of those that
// fit into the GPUs' memory.
//
// Tried are, where they divide what they share: powers of two up to a node's GPUs that share
// matrices, with --sequence-parallel; 1, 2, 4 or 8 that share sequences, of which each has at least
// 4096 tokens; any number of pipeline stages with equal layers, in up to eight virtual stages; the
// rest data-parallel, of which each keeps the whole optimizer, a part of it, or a part of all that
// it has (the latter two with reductions and gathers that overlap with the computation);
// micro-batches of up to 16 sequences; with and without full recomputation.  What the options say
// of these stays as it is.  3% of the memory are left to CUDA and NCCL.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "train/plan/plan.h"

namespace mt {

struct Layout {
  int tp = 1, cp = 1, pp = 1, dp = 1, chunks = 1;
  std::int64_t micro_batch = 1;
  std::string sharding = "no_shard";  // --data-parallel-sharding-strategy
  bool recomputes = false;

  std::string options() const;  // of mt-pretrain
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Proposal {
  Layout layout;
  std::size_t bytes = 0;  // of the rank that needs most
  double seconds = 0, mfu = 0;
  double idle = 0, waited = 0;  // parts of the step: for other stages, for messages
};

struct PlanSearch {
  int gpus = 0;
  Machine machine;
  std::vector<Proposal> fitting;  // the fastest first
  // Layouts that were not proposed, and why.
  struct RuledOut {
    std::string why;
    int layouts = 0;
  };
  std::vector<RuledOut> ruled_out;
};

// `options` as given, not complete(), and the task as a single rank has it.  Exit::usage without
// --global-batch-size, or with --gpus or --ranks.
PlanSearch search_plans(const RunOptions& options, const Task& task, const PlanOptions& asked,
                        const Log& log);

std::string search_json(const PlanSearch& search);  // schema "mt-plan-search/1"
std::string search_text(const PlanSearch& search);

}  // namespace mt
