// Flags that Megatron-LM itself does not have: of forks whose launch scripts are about, and those
// that it adds for NVIDIA's ModelOpt.
#include "base/flag_list.h"
#include "train/options/megatron_flags.h"

namespace mt {

// Megatron-DeepSpeed, Microsoft's and BigScience's.
static void add_deepspeed_flags(CommandLine& cl) {
  refuse_others(cl,
                "what DeepSpeed's file says is said by options: --micro-batch-size, "
                "--global-batch-size, --bf16, --clip-grad",
                {{"--deepspeed"}, {"--deepspeed_config"}});
  refuse_others(cl, "use --pipeline-model-parallel-size 1", {{"--no-pipeline-parallel"}});
  refuse_others(cl,
                "use --data-parallel-sharding-strategy: optim is stage 1, optim_grads 2, "
                "optim_grads_params 3",
                {{"--zero-stage", only(0)},
                 {"--zero-reduce-bucket-size"},
                 {"--zero-allgather-bucket-size"},
                 {"--zero-contigious-gradients"},
                 {"--remote-device", only("none")}});
  refuse_others(cl,
                "use --recompute-granularity full, --recompute-method and --recompute-num-layers",
                {{"--deepspeed-activation-checkpointing"},
                 {"--partition-activations"},
                 {"--contigious-checkpointing"},
                 {"--checkpoint-in-cpu"},
                 {"--synchronize-each-layer"},
                 {"--profile-backward"}});
  refuse_others(cl, "use --optimizer-cpu-offload", {{"--cpu-optimizer"}});
  refuse_others(cl, "use --pipeline-model-parallel-layout", {{"--pp-partition-method"}});
  refuse_others(cl, "use --padded-vocab-size", {{"--pad-vocab-size-to"}});
  refuse_others(cl, "what embeddings give has no norm of its own", {{"--embed-layernorm"}});
  refuse_others(cl, "use --iterations-to-skip", {{"--skip-train-iteration-range"}});
  refuse_others(cl, "USR1 and TERM save a checkpoint and end the run",
                {{"--kill-switch-path"}, {"--trigger-path"}});
  refuse_others(cl, "use --per-split-data-args-path",
                {{"--train-weighted-split-paths"},
                 {"--train-weighted-split-paths-path"},
                 {"--valid-weighted-split-paths"},
                 {"--valid-weighted-split-paths-path"},
                 {"--test-weighted-split-paths"},
                 {"--test-weighted-split-paths-path"}});
  refuse_others(cl, "use --context-parallel-size", {{"--ds-sequence-parallel-size", only(1)}});
  imply_others(cl, "fused or not, the same numbers",
               {{"--abort-on-unmet-fused-kernel-constraints"},
                {"--use-flash-attn-v1"},
                {"--use-flash-attn-v2"},
                {"--use-flash-attn-triton"}});
}

static void add_code_flags(CommandLine& cl) {  // BigCode's
  refuse_others(cl, "multiquery is --group-query-attention with --num-query-groups 1",
                {{"--attention-head-type", only("multihead")}});
  refuse_others(cl, "use --tokenizer-type HuggingFaceTokenizer and --tokenizer-model",
                {{"--tokenizer-file"}});
  refuse_others(cl, "use --run-log", {{"--structured-logs"}, {"--structured-logs-dir"}});
  refuse_others(cl, "use --wandb-project and --wandb-entity",
                {{"--wandb-project-name"}, {"--wandb-entity-name"}});
  imply_others(cl,
               "samples are read when they are needed, in the same order for any number of workers",
               {{"--valid-num-workers", any(kInteger)}});
}

static void add_megablocks_flags(CommandLine& cl) {
  refuse_others(cl, "use --num-experts", {{"--moe-num-experts"}});
  refuse_others(cl, "use --moe-router-topk", {{"--moe-top-k"}});
  refuse_others(cl, "use --moe-aux-loss-coeff", {{"--moe-loss-weight"}});
  refuse_others(cl, "use --expert-model-parallel-size", {{"--moe-expert-model-parallelism"}});
  refuse_others(cl, "use --moe-expert-capacity-factor, or none for as many tokens as come",
                {{"--moe-capacity-factor"}});
}

static void add_zero_bubble_flags(CommandLine& cl) {  // Sail's
  refuse_others(cl, "see --num-layers-per-virtual-pipeline-stage",
                {{"--allow-padding-num-layers"},
                 {"--enable-1f1b-v"},
                 {"--enable-zb-runtime"},
                 {"--enable-zero-bubble"},
                 {"--interleave-group-size"},
                 {"--zero-bubble-v-schedule"}});
}

static void add_modelopt_flags(CommandLine& cl) {
  refuse_others(cl, "use mt-finetune distill",
                {{"--export-kd-cfg"},
                 {"--export-kd-teacher-ckpt-format"},
                 {"--export-kd-teacher-load"},
                 {"--export-kd-teacher-model-config"},
                 {"--qad-train-target"},
                 {"--freeze-base-for-mtp"}});
  refuse_others(cl, "a trained model is quantized by mt-convert --quantize",
                {{"--export-kv-cache-quant"},
                 {"--export-quant-cfg"},
                 {"--export-real-quant-cfg"},
                 {"--modelopt-enabled"}});
  refuse_others(cl, "use mt-finetune sft",
                {{"--finetune-hf-dataset"},
                 {"--finetune-data-split", only("train")},
                 {"--finetune-data-files"}});
  refuse_others(cl, "use --position-embedding-type yarn and its options", {{"--enable-gpt-oss"}});
  refuse_others(cl, "a checkpoint is written as Megatron-Core's models are; see mt-convert",
                {{"--export-legacy-megatron"}, {"--export-offline-model"}});
  refuse_others(cl, "norms of queries and keys have weights; see --qk-layernorm",
                {{"--export-qk-l2-norm"}});
  refuse_others(cl, "no model of experts here has it", {{"--export-moe-apply-probs-on-input"}});
  imply_others(cl, "a layer is computed in one way, and its checkpoint read in any form",
               {{"--export-te-mcore-model"},
                {"--export-default-te-spec"},
                {"--export-force-local-attention"}});
  refuse_others(cl, "what kind of model it is, options say, as --hybrid-layer-pattern",
                {{"--export-model-type", only("GPTModel")}});
}

void add_fork_flags(CommandLine& cl) {
  add_deepspeed_flags(cl);
  add_code_flags(cl);
  add_megablocks_flags(cl);
  add_zero_bubble_flags(cl);
  add_modelopt_flags(cl);
}

}  // namespace mt
