#include "train/options/parallel_options.h"

#include <algorithm>
#include <limits>

namespace mt {

void ParallelOptions::add_to(CommandLine& cl) {
  cl.option("--tensor-model-parallel-size,--tp", &tensor_model_parallel_size, "N",
            "ranks that share every matrix", at_least(1));
  cl.option("--pipeline-model-parallel-size,--pp", &pipeline_model_parallel_size, "N",
            "ranks that share the layers", at_least(1));
  cl.option("--context-parallel-size,--cp", &context_parallel_size, "N",
            "ranks that share every sequence", at_least(1));
  cl.option("--cp-comm-type", &cp_comm_type, "TYPE",
            "how their attention sees all keys, in every layer or in each: p2p or all_gather (keys "
            "travel), a2a (heads are exchanged), a2a+p2p (among neighbours)",
            one_of({"p2p", "all_gather", "a2a", "a2a+p2p"}));
  cl.option("--hierarchical-context-parallel-sizes", &hierarchical_context_parallel_sizes, "N",
            "of a2a+p2p: how many neighbours exchange heads, and between how many such groups keys "
            "travel",
            at_least(1));
  cl.option("--expert-model-parallel-size,--ep", &expert_model_parallel_size, "N",
            "ranks that share the experts of each layer", at_least(1));
  cl.option("--expert-tensor-parallel-size", &expert_tensor_parallel_size, "N",
            "ranks that share an expert's matrices; default --tensor-model-parallel-size; without "
            "experts it has no effect",
            at_least(1));
  cl.option("--moe-token-dispatcher-type", &moe_token_dispatcher_type, "TYPE",
            "how tokens come to their experts' ranks: allgather (all to all of them) or alltoall "
            "(each to those of its experts), which alltoall_seq and flex are, too",
            one_of({"allgather", "alltoall", "alltoall_seq", "flex"}));
  cl.option("--moe-buffer-factor", &moe_buffer_factor, "F",
            "tokens for which a rank's experts have room, over those that they have when all are "
            "chosen as often; default room for the worst; a step that needs more ends the run",
            at_least(1));
  cl.flag("--moe-shared-expert-overlap", &moe_shared_expert_overlap,
          "with --moe-token-dispatcher-type alltoall: a GPU computes shared experts while "
          "tokens go to the others and come back, but for a forward's last product, unless "
          "sums of gradients or weights are on their way meanwhile; it changes no number");
  cl.flag("--sequence-parallel", &sequence_parallel,
          "ranks that share matrices share the tokens between them too; counts only with those");
  cl.flag("--tp-comm-overlap", &tp_comm_overlap,
          "shared tokens travel, by copy engines within a host, while others are multiplied; needs "
          "--sequence-parallel");
  cl.flag("--use-tp-pp-dp-mapping", &use_tp_pp_dp_mapping,
          "number the ranks of a pipeline one after another, then those of the next");
}

std::vector<ContextComm> ParallelOptions::context_comm() const {
  std::vector<ContextComm> all;
  for (const std::string& type : cp_comm_type)
    all.push_back(type == "p2p"          ? ContextComm::p2p
                  : type == "all_gather" ? ContextComm::all_gather
                  : type == "a2a"        ? ContextComm::a2a
                                         : ContextComm::a2a_p2p);
  return all;
}

int ParallelOptions::head_ranks(ContextComm comm) const {
  if (comm == ContextComm::a2a) return context_parallel_size;
  if (comm != ContextComm::a2a_p2p || hierarchical_context_parallel_sizes.empty()) return 1;
  return static_cast<int>(hierarchical_context_parallel_sizes[0]);
}

bool ParallelOptions::passes_keys() const {
  return context_parallel_size > 1 &&
         !std::ranges::all_of(cp_comm_type, [](const auto& type) { return type == "a2a"; });
}

ParallelSizes ParallelOptions::sizes(int ranks) const {
  ParallelSizes sizes{.tp = tensor_model_parallel_size,
                      .cp = context_parallel_size,
                      .pp = stages(),
                      .ep = expert_model_parallel_size,
                      .etp = expert_tensor_parallel_size.value_or(0),
                      .pp_before_dp = use_tp_pp_dp_mapping};
  sizes.dp = ranks / sizes.ranks();
  return sizes;
}

void ParallelOptions::complete(int ranks, const std::string& option) const {
  if (tp_comm_overlap && !shares_rows())
    fail(Exit::usage,
         "--tp-comm-overlap: Tensor parallel communication/GEMM overlap can happen only when "
         "sequence parallelism is enabled");
  const bool hierarchical = std::ranges::count(cp_comm_type, "a2a+p2p") > 0;
  const auto& context = hierarchical_context_parallel_sizes;
  if (hierarchical && context.empty())
    fail(Exit::usage,
         "--hierarchical-context-parallel-sizes must be set when a2a+p2p is used in cp comm");
  if (!hierarchical && !context.empty())
    fail(Exit::usage, "--hierarchical-context-parallel-sizes: needs --cp-comm-type a2a+p2p");
  if (hierarchical && (context.size() != 2 || context_parallel_size % context[0] != 0 ||
                       context_parallel_size / context[0] != context[1]))
    fail(Exit::bad_config,
         "--hierarchical-context-parallel-sizes: expected two numbers whose product is "
         "--context-parallel-size ",
         context_parallel_size);
  std::int64_t total = 1;  // from more than there are ranks on, it does not matter how many
  for (const int size : {tensor_model_parallel_size, stages(), context_parallel_size})
    total = std::min<std::int64_t>(total * size, std::numeric_limits<std::int32_t>::max());
  if (ranks % total != 0)
    fail(Exit::bad_config, option, ": world size (", ranks,
         ") is not divisible by total_model_size (", total, ")");
  if (sizes(ranks).experts_apart()) rank_groups(sizes(ranks), "ep", Grid::experts);  // checks it
}

}  // namespace mt
