#include "train/options/rank_options.h"

#include <algorithm>
#include <numeric>

#include "base/threads.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/pipeline_stages.h"
#include "nn/layer_run.h"
#include "tensor/device.h"

namespace mt {

std::vector<int> ranks_between(int begin, int end) {
  std::vector<int> ranks(static_cast<std::size_t>(end - begin));
  std::iota(ranks.begin(), ranks.end(), begin);
  return ranks;
}

void RankOptions::add_to(CommandLine& cl) {
  cl.section("Ranks");
  cl.option("--ranks", &count, "N",
            "CPU ranks, threads of this process; data-parallel where nothing else is said",
            between(1, 1 << 20));
  launch.add_to(cl);
  parallel.add_to(cl);
  pipeline.add_to(cl);
}

void RankOptions::add_threads_to(CommandLine& cl) {
  cl.option("--threads,-j", &threads, "N", "worker threads of all ranks together; 0: one a core",
            at_least(0));
}

void RankOptions::take_process(const Launch& launched) {
  process = launched;
  if (!has_processes()) return;
  if (count > 1)
    fail(Exit::usage, "--ranks ", count, ": threads of one process; this is rank ", process.rank,
         " of ", process.size, " processes");
  count = process.size;
}

std::vector<int> RankOptions::linked_ranks() const {
  std::vector<int> ranks = drawing_ranks();
  ranks.insert(ranks.begin(), 0);
  return ranks;
}

int RankOptions::max_restarts() const {
  return std::max(launch.max_restarts, process.max_restarts);
}

int RankOptions::threads_of_each() const {
  return std::max(
      1, worker_threads(threads) / (has_processes() ? process.local_size : count + drawers));
}

void RankOptions::check_gpus() const {
  const int visible = device::count();
  if (launch.gpus && visible < *launch.gpus)
    fail(Exit::unavailable, "--gpus ", *launch.gpus, ": this machine has ", visible,
         " GPUs that CUDA can use; CPU ranks are threads, see --ranks");
}

void RankOptions::complete() const {
  parallel.complete(count, has_processes() ? "--gpus" : concat("--ranks ", count));
}

void RankOptions::check_shares(const ModelConfig& model, std::int64_t seq_length) const {
  const int tensor = parallel.tensor_model_parallel_size, context = parallel.context_parallel_size;
  if (context > 1 && seq_length % (2 * context) != 0)
    fail(
        Exit::bad_config, "--seq-length ", seq_length,
        ": seq-length should be a multiple of 2 * context-parallel-size if context-parallel-size > "
        "1.");
  if (parallel.shares_rows() && seq_length / context % tensor != 0)
    fail(Exit::bad_config, "--seq-length ", seq_length,
         ": --sequence-parallel needs a multiple of --tensor-model-parallel-size ", tensor,
         " tokens on each of ", context, " context-parallel ranks");
  const std::vector<ContextComm> comm = parallel.context_comm();
  if (comm.size() != 1 && std::ssize(comm) != model.num_layers)
    fail(Exit::bad_config, "--cp-comm-type: ", comm.size(), " types for ", model.num_layers,
         " layers, expected one for all or one for each");
  for (const ContextComm how : comm)
    if (const int sharing = parallel.head_ranks(how) * tensor; model.kv_heads() % sharing != 0)
      fail(Exit::bad_config, "--cp-comm-type: ", model.kv_heads(),
           " key heads cannot be divided among ", sharing, " ranks");
}

void RankOptions::check_mixers(const ModelConfig& model) const {
  const std::int64_t tensor = parallel.tensor_model_parallel_size,
                     context = parallel.context_parallel_size,
                     heads = model.mamba_num_heads / tensor,
                     groups = model.mamba_num_groups / tensor;
  if (context > 1 && model.may_have_linear_layers())
    fail(Exit::bad_config, "--context-parallel-size ", context,
         ": not with --experimental-attention-variant ", kGatedDeltaNet,
         ", whose rule goes over whole sequences");
  if (context == 1 || model.family != ModelFamily::mamba || !model.has_layer('M')) return;
  if (heads % context != 0)
    fail(Exit::bad_config, "--context-parallel-size ", context, ": does not divide the ", heads,
         " heads of a Mamba's mixer on each tensor-parallel rank");
  if (groups < context ? context % groups != 0 : groups % context != 0)
    fail(Exit::bad_config, "--context-parallel-size ", context, ": the ", groups,
         " groups of a Mamba's mixer on each tensor-parallel rank neither divide it nor are its "
         "multiple");
}

void RankOptions::check_overlap(const ModelConfig& model) const {
  constexpr const char* kOverlap = "--moe-shared-expert-overlap: ";
  if (!parallel.moe_shared_expert_overlap) return;
  if (model.moe_shared_expert_intermediate_size == 0)
    fail(Exit::bad_config, kOverlap, "needs --moe-shared-expert-intermediate-size");
  if (parallel.moe_token_dispatcher_type == "allgather")
    fail(Exit::bad_config, kOverlap, "needs --moe-token-dispatcher-type alltoall");
}

void RankOptions::check_experts(const ModelConfig& model) const {
  const int experts = parallel.expert_model_parallel_size, tensor = parallel.expert_tensor_ranks();
  if (model.num_experts == 0) {
    if (experts > 1)
      fail(Exit::bad_config, "--expert-model-parallel-size ", experts, ": of a model of experts");
    const ParallelOptions usual;
    if (parallel.moe_shared_expert_overlap)
      fail(Exit::bad_config, "--moe-shared-expert-overlap: of a model of experts");
    if (parallel.moe_buffer_factor ||
        parallel.moe_token_dispatcher_type != usual.moe_token_dispatcher_type)
      fail(Exit::bad_config,
           "--moe-token-dispatcher-type, --moe-buffer-factor: of a model of experts");
    return;
  }
  check_overlap(model);
  if (model.num_experts % experts != 0)
    fail(Exit::bad_config, "--num-experts ", model.num_experts,
         ": number of experts should be a multiple of --expert-model-parallel-size ", experts);
  if (model.expert_ffn() % tensor != 0)
    fail(Exit::bad_config, "--moe-ffn-hidden-size ", model.expert_ffn(),
         ": must be a multiple of --expert-tensor-parallel-size ", tensor);
  if (model.add_bias_linear && tensor > 1)
    fail(Exit::bad_config, "--expert-tensor-parallel-size ", tensor,
         ": 1 of experts with biases, which one rank adds");
  if (parallel.tensor_model_parallel_size > 1 && !parallel.sequence_parallel)
    fail(
        Exit::bad_config,
        "--num-experts: When using expert parallelism and tensor parallelism, sequence parallelism "
        "must be used; see --sequence-parallel");
}

void RankOptions::complete_for(const ModelConfig& model, std::int64_t seq_length) {
  check_shares(model, seq_length);
  check_mixers(model);
  check_experts(model);
  if (model.num_experts == 0) parallel.expert_tensor_parallel_size.reset();
  const std::vector<LayerPlan> layers = layers_of(model);
  check_layout_predicts(pipeline.layout, model.mtp_num_layers);
  layout = make_pipeline_layout(pipeline, parallel.stages(), layers);
  for (const StageRange& stage : layout.stages)
    for (const StackRun& run : runs_of(layers, stage))
      model.recompute.runs(run.end - run.begin);  // checks that they fit
}

}  // namespace mt
