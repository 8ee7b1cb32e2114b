#include "train/refused_flags.h"

namespace mt {

struct Refusal {
  const char* why;
  std::initializer_list<const char*> names;
};

static const Refusal kRefusals[] = {
    {"the CPU computes in fp32 or fp64; see --dtype",
     {"--bf16", "--fp16", "--fp8-format", "--loss-scale", "--initial-loss-scale"}},
    {"only data-parallel CPU ranks are supported; see --ranks",
     {"--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size",
      "--expert-model-parallel-size", "--sequence-parallel",
      "--num-layers-per-virtual-pipeline-stage", "--use-distributed-optimizer",
      "--overlap-grad-reduce", "--overlap-param-gather"}},
    {"only dense GPT models are supported",
     {"--num-experts", "--multi-latent-attention", "--mtp-num-layers", "--is-hybrid-model",
      "--spec", "--squared-relu", "--qk-layernorm", "--apply-layernorm-1p", "--use-rope-scaling",
      "--rotary-interleaved", "--init-method-xavier-uniform"}},
    {"one token file with one --split is supported; see --data-path",
     {"--train-data-path", "--valid-data-path", "--test-data-path", "--data-args-path",
      "--per-split-data-args-path", "--mock-data", "--reset-position-ids", "--reset-attention-mask",
      "--dataloader-type"}},
    {"the learning rate's schedule is that of --train-iters or --train-samples",
     {"--lr-decay-samples", "--lr-warmup-samples"}},
    {"only Adam is supported", {"--optimizer"}},
    {"activations are kept, not recomputed",
     {"--recompute-activations", "--recompute-granularity", "--recompute-method"}},
    {"checkpoints are torch_dist",
     {"--ckpt-format", "--ckpt-convert-format", "--async-save", "--finetune", "--ckpt-step"}},
};

void add_refused_flags(CommandLine& cl) {
  for (const Refusal& refusal : kRefusals)
    for (const char* name : refusal.names) cl.refused(name, refusal.why);
}

}  // namespace mt
