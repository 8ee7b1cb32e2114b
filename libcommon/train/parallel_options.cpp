#include "train/parallel_options.h"

namespace mt {

void ParallelOptions::add_to(CommandLine& cl) {
  cl.option("--tensor-model-parallel-size", &tensor_model_parallel_size, "N",
            "ranks that share every matrix", at_least(1));
  cl.option("--pipeline-model-parallel-size", &pipeline_model_parallel_size, "N",
            "ranks that share the layers", at_least(1));
  cl.option("--context-parallel-size", &context_parallel_size, "N",
            "ranks that share every sequence", at_least(1));
  cl.flag("--sequence-parallel", &sequence_parallel,
          "ranks that share matrices share the tokens between them too; counts only with those");
  cl.flag("--use-tp-pp-dp-mapping", &use_tp_pp_dp_mapping,
          "number the ranks of a pipeline one after another, then those of the next");
}

ParallelSizes ParallelOptions::sizes(int ranks) const {
  ParallelSizes sizes{.tp = tensor_model_parallel_size,
                      .cp = context_parallel_size,
                      .pp = pipeline_model_parallel_size,
                      .pp_before_dp = use_tp_pp_dp_mapping};
  sizes.dp = ranks / sizes.ranks();
  return sizes;
}

void ParallelOptions::complete(int ranks) const {
  const auto unsupported = [](const char* flag, int size) {
    if (size > 1) fail(Exit::bad_config, flag, " ", size, ": only 1 is supported");
  };
  unsupported("--context-parallel-size", context_parallel_size);
  const std::int64_t total = std::int64_t{tensor_model_parallel_size} *
                             pipeline_model_parallel_size * context_parallel_size;
  if (ranks % total != 0)
    fail(Exit::bad_config, "--ranks ", ranks, ": world size (", ranks,
         ") is not divisible by total_model_size (", total, ")");
}

}  // namespace mt
