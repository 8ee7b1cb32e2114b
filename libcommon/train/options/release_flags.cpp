// Flags of Megatron-LM's releases before and after core_v0.12, from v2.0 on, which that release
// does not have.
#include "base/flag_list.h"
#include "train/options/megatron_flags.h"

namespace mt {

static void add_model_flags(CommandLine& cl) {
  refuse_others(
      cl, "no layer has a product of delta rules",
      {{"--gdp-num-chunk-states-to-recompute", only(2)}, {"--gdp-num-householder", only(3)}});
  refuse_others(cl, "attention is neither sparse nor compressed",
                {{"--dsa-indexer-head-dim"},
                 {"--dsa-indexer-k-norm-epsilon"},
                 {"--dsa-indexer-k-norm-fp32"},
                 {"--dsa-indexer-loss-coeff"},
                 {"--dsa-indexer-n-heads"},
                 {"--dsa-indexer-rope-interleaved"},
                 {"--dsa-indexer-skip-topk-offset", only(0)},
                 {"--dsa-indexer-topk"},
                 {"--dsa-indexer-topk-freq", only(1)},
                 {"--dsa-indexer-use-sparse-loss"},
                 {"--dsa-kernel-backend", only("none")},
                 {"--no-dsa-indexer-rotate-activation,--disable-dsa-indexer-rotate-activation"},
                 {"--no-dsa-indexer-scoring-relu,--disable-dsa-indexer-scoring-relu"}});
  refuse_others(cl, "there is one residual stream",
                {{"--enable-mhc-connections"},
                 {"--mhc-init-gating-factor", only(0.01)},
                 {"--mhc-num-residual-streams", only(4)},
                 {"--mhc-recompute-layer-num"},
                 {"--mhc-sinkhorn-iterations", only(20)}});
  refuse_others(cl, "learning rates and scales are those that are given, for every width",
                {{"--mup-attn-scale-power", only(1.)},
                 {"--mup-base-head-dim"},
                 {"--mup-base-hidden-size"},
                 {"--mup-embedding-mult", only(1.)},
                 {"--mup-output-mult", only(1.)},
                 {"--mup-width-mult", only(1.)},
                 {"--use-mup"}});
  refuse_others(
      cl,
      "layers that guess further tokens each have weights of their own, and learn with the model; "
      "see --mtp-num-layers",
      {{"--mtp-detach-heads"}, {"--mtp-hsm"}, {"--mtp-standalone"}, {"--mtp-use-repeated-layer"}});
  refuse_others(cl, "use --hybrid-layer-pattern", {{"--mtp-hybrid-override-pattern"}});
  refuse_others(cl, "embeddings are initialised by --init-method-std",
                {{"--embedding-init-method-std"}});
  refuse_others(cl, "use --norm-epsilon", {{"--layernorm-epsilon", only(1e-05)}});
  refuse_others(cl, "use --img-h and --img-w", {{"--img-dim", only(224)}});
  refuse_others(cl, "use --make-vocab-size-divisible-by 1",
                {{"--no-pad-vocab-size,--disable-pad-vocab-size"}});
  refuse_others(cl, "logits are made and used in tiles, which are not kept",
                {{"--output-logit-dtype"}});
}

static void add_expert_flags(CommandLine& cl) {
  imply_others(cl, "how experts are computed, and tokens come to them, changes no number",
               {{"--moe-deepep-num-sms", any(kInteger)},
                {"--moe-flex-dispatcher-backend", each({"deepep", "hybridep", "ncclep"})},
                {"--moe-flex-dispatcher-num-sms", any(kInteger)},
                {"--moe-hybridep-num-blocks-permute", any(kInteger)},
                {"--moe-hybridep-num-blocks-unpermute", any(kInteger)},
                {"--moe-hybridep-num-sms", any(kInteger)},
                {"--moe-hybridep-num-sms-preprocessing", any(kInteger)},
                {"--moe-hybridep-pad-uneven-dispatch-inputs"},
                {"--moe-ncclep-static-shape"},
                {"--moe-ncclep-zero-copy"},
                {"--moe-paged-stash"},
                {"--moe-paged-stash-buffer-size-factor-cpu", any(kNumber)},
                {"--moe-paged-stash-buffer-size-factor-cuda", any(kNumber)},
                {"--moe-paged-stash-page-size", any(kInteger)},
                {"--moe-permute-fusion-into-hybridep"},
                {"--moe-router-fusion"},
                {"--moe-router-padding-for-fp8"},
                {"--moe-router-padding-for-quantization"},
                {"--moe-single-grouped-bias"},
                {"--moe-single-grouped-weight"},
                {"--moe-use-grouped-tensor"},
                {"--use-grouped-gemm-for-dense-mlp"},
                {"--use-grouped-gemm-for-shared-expert"}});
  refuse_others(
      cl, "tokens travel to experts and back in the run's own type",
      {{"--moe-combine-bwd-dtype", only("bf16")}, {"--moe-dispatch-fwd-dtype", only("bf16")}});
  refuse_others(cl, "routers choose by what they have learnt",
                {{"--moe-router-force-biased"}, {"--moe-router-force-load-balancing"}});
  refuse_others(cl, "no model of experts here has it",
                {{"--moe-apply-probs-on-input"},
                 {"--moe-expert-rank-capacity-factor"},
                 {"--moe-mlp-glu-interleave-size"},
                 {"--moe-shared-expert-glu-interleave-size"}});
  refuse_others(cl, "a model of experts begins with weights of its own, or with those of --load",
                {{"--moe-upcycling-granularity", only(1)}});
  refuse_others(cl, "use --moe-route-trace",
                {{"--moe-routing-trace-capture-hidden-states"},
                 {"--moe-routing-trace-capture-logits"},
                 {"--moe-routing-trace-dump-weights"},
                 {"--moe-routing-trace-max-training-iters"},
                 {"--moe-routing-trace-path"}});
  refuse_others(cl, "use --moe-expert-capacity-factor", {{"--moe-token-dropping"}});
}

static void add_data_flags(CommandLine& cl) {
  imply_others(cl, "how a token file is read changes nothing",
               {{"--data-impl", each({"mmap", "infer"})},
                {"--dataloader-defer-npy-index-mmap"},
                {"--dataloader-fast-cache-load"},
                {"--mmap-warmup"},
                {"--per-dataset-sequences-path", any(kText)}});
  refuse_others(cl, "files are read from the file system",
                {{"--enable-msc"}, {"--object-storage-cache-path"}});
  imply_others(cl, "files are read from the file system", {{"--disable-msc"}});
  refuse_others(cl, "each set of a blend has half a percent of samples to spare",
                {{"--mid-level-dataset-surplus", only(0.005)}});
  refuse_others(cl, "weights of a blend are those that are given",
                {{"--renormalize-blend-weights"}});
  refuse_others(cl, "no part of a sample changes its place",
                {{"--fim-data"},
                 {"--fim-eod-token", only("<|endoftext|>")},
                 {"--fim-fragment-rate"},
                 {"--fim-middle-token", only("<fim_middle>")},
                 {"--fim-no-prefix"},
                 {"--fim-pad-token", only("<fim_pad>")},
                 {"--fim-prefix-token", only("<fim_prefix>")},
                 {"--fim-rate", only(0.5)},
                 {"--fim-split-sample"},
                 {"--fim-spm-rate", only(0.5)},
                 {"--fim-suffix-token", only("<fim_suffix>")}});
  refuse_others(cl, "use --reset-attention-mask", {{"--dataloader-inter-document-masking"}});
  refuse_others(cl, "samples have --seq-length tokens, which --context-parallel-size cuts evenly",
                {{"--hybrid-context-parallel"}, {"--max-seqlen-per-dp-cp-rank"}});
  refuse_others(cl, "use mt-finetune sft, which has --chat-template",
                {{"--sft"}, {"--sft-tokenizer-prompt-format", only("nemotron-h-aligned")}});
  refuse_others(cl, "see --multiple-validation-sets", {{"--validation-set-names"}});
  refuse_others(cl,
                "an evaluation comes every --eval-interval steps, with micro-batches as training's",
                {{"--eval-micro-batch-size"}, {"--start-eval-at-iter"}});
  refuse_others(cl, "data of a later part of training is that of a run that goes on with --load",
                {{"--phase-transition-iterations"}});
}

static void add_tokenizer_flags(CommandLine& cl) {
  imply_others(cl, "a tokenizer is read in one way, as data, of which nothing runs",
               {{"--legacy-tokenizer"},
                {"--tokenizer-hf-no-use-fast"},
                {"--tokenizer-hf-use-fast"},
                {"--trust-remote-code"},
                {"--use-gigatoken"}});
  refuse_others(cl,
                "what a tokenizer adds to a text, and which tokens are special, its own files say",
                {{"--allow-ambiguous-pad-tokens"},
                 {"--no-tokenizer-sentencepiece-ignore-extra-whitespaces,--disable-tokenizer-"
                  "sentencepiece-ignore-extra-whitespaces"},
                 {"--tokenizer-hf-include-special-tokens"},
                 {"--tokenizer-hf-no-include-special-tokens"},
                 {"--tokenizer-metadata"},
                 {"--tokenizer-sentencepiece-legacy"},
                 {"--tokenizer-special-tokens"}});
  refuse_others(cl, "the last id of NullTokenizer ends a document, and none pads",
                {{"--null-tokenizer-eod-id"}, {"--null-tokenizer-pad-id", only(-1)}});
}

static void add_numeric_flags(CommandLine& cl) {
  imply_others(cl, "fused or not, the same numbers",
               {{"--disable-jit-fuser"},
                {"--disable-mamba-mem-eff-path"},
                {"--fused-residual-rmsnorm"},
                {"--gdp-cutedsl-kernel"},
                {"--mla-down-proj-fusion"},
                {"--mlp-chunks-for-training", any(kInteger)},
                {"--muon-use-syrk"},
                {"--no-scaled-masked-softmax-fusion"},
                {"--scaled-upper-triang-masked-softmax-fusion", any(kText)},
                {"--use-fused-weighted-squared-relu"},
                {"--use-te-activation-func"},
                {"--use-transformer-engine-op-fuser"}});
  imply_others(cl, "there is one attention kernel, which stores no scores",
               {{"--flash-attention-version", {kInteger, between(2, 4)}}});
  imply_others(cl, "scores are fp32, and need no scale of their own",
               {{"--no-query-key-layer-scaling"}});
  imply_others(cl, "states of Mamba layers are fp32",
               {{"--mamba-training-ssm-states-dtype", each({"fp32"})}});
  imply_others(cl, "gradients are added up and reduced in fp32, unless --grad-reduce-in-bf16",
               {{"--fp32-allreduce"},
                {"--megatron-fsdp-grad-comm-dtype", each({"fp32", "auto"})},
                {"--megatron-fsdp-main-grads-dtype", each({"fp32", "auto"})},
                {"--megatron-fsdp-main-params-dtype", each({"fp32"})}});
  refuse_others(cl, "use --accumulate-allreduce-grads-in-fp32",
                {{"--ddp-param-name-patterns-for-fp32-local-accumulation"},
                 {"--ddp-reduce-scatter-with-fp32-accumulation"}});
  imply_others(cl, "a feature is asked for by its own flag", {{"--enable-experimental"}});
  refuse_others(cl, "products are of 16 bits, or of 8 with --fp8-format",
                {{"--fp4-format"},
                 {"--fp4-param-gather"},
                 {"--fp4-quantizer-factory"},
                 {"--fp4-recipe", only("nvfp4")},
                 {"--fp8-output-proj"},
                 {"--fp8-quantizer-factory"},
                 {"--te-precision-config-file"}});
  refuse_others(cl, "use --fp8-format", {{"--fp8-e4m3"}, {"--fp8-hybrid"}});
  refuse_others(cl, "it is of packages that are not here",
                {{"--kitchen-attention-backend", only("sdpa")},
                 {"--kitchen-config-file"},
                 {"--kitchen-recipe-number"},
                 {"--use-kitchen-attention"}});
  refuse_others(cl, "weights that are sharded are cast for each product",
                {{"--keep-fp8-transpose-cache"}});
  refuse_others(
      cl,
      "two runs of one command give the same bits; sums of another batch may be in another order",
      {{"--batch-invariant-backend", only("te_native")}, {"--batch-invariant-mode"}});
  refuse_others(cl, "weights have 16 bits with --bf16 and --fp16",
                {{"--embedding-weights-in-fp32"}});
}

static void add_parallel_flags(CommandLine& cl) {
  imply_others(cl, "how communication is arranged changes no number",
               {{"--create-all-gather-group"},
                {"--DDP-impl", each({"local", "torch"})},
                {"--delay-param-gather"},
                {"--delay-wgrad-compute"},
                {"--disable-symmetric-registration"},
                {"--ep-overlap-early-attn-memory-release"},
                {"--fsdp-db-use-persist-buf-on-alloc-fail"},
                {"--fsdp-double-buffer"},
                {"--fsdp-manual-registration"},
                {"--high-priority-a2a-comm-stream"},
                {"--high-priority-stream-groups", any(kTexts)},
                {"--megatron-fsdp-enable-fine-grained-param-gather"},
                {"--megatron-fsdp-max-pool-double-buffer"},
                {"--no-contiguous-buffers-in-local-ddp"},
                {"--no-delay-grad-reduce"},
                {"--no-use-layer-wise-param-layout"},
                {"--overlap-dispatch-backward-with-experts-wgrad"},
                {"--overlap-moe-expert-parallel-comm"},
                {"--overlap-p2p-communication"},
                {"--reuse-grad-buf-for-mxfp8-param-ag"},
                {"--sharp-enabled-group", each({"dp", "dp_replica"})},
                {"--torch-fsdp2-no-reshard-after-forward"},
                {"--use-nccl-ub"},
                {"--use-sharp"}});
  refuse_others(cl, "use --distributed-timeout-minutes",
                {{"--distributed-timeout-seconds-after-init"}});
  imply_others(cl, "what is sharded is said by --data-parallel-sharding-strategy",
               {{"--megatron-fsdp-version", {kInteger, between(1, 2)}}, {"--use-megatron-fsdp"}});
  refuse_others(
      cl,
      "weights and gradients are sharded over all data-parallel ranks; see "
      "--num-distributed-optimizer-instances",
      {{"--enable-full-sharding-in-hsdp"}, {"--outer-dp-sharding-strategy", only("no_shard")}});
  refuse_others(
      cl, "weights are cut by --tensor-model-parallel-size and --data-parallel-sharding-strategy",
      {{"--expert-tensor-parallel-num-weight-shards"},
       {"--gtp-expert-remat-nccl-ub"},
       {"--gtp-remat-nccl-ub"},
       {"--gtp-remat-opt-in-modules"},
       {"--gtp-remat-reduce-scatter-with-fp32-accumulation"},
       {"--tensor-parallel-num-weight-shards"}});
  refuse_others(cl,
                "what a backward reads stays in the memory of its GPU; see --recompute-granularity",
                {{"--activation-offload-fraction", only(1.)},
                 {"--cpu-offloading-num-layers", only(0)},
                 {"--cpu-offloading-retain-pinned-cpu-buffers"},
                 {"--delay-offload-until-cuda-graph"},
                 {"--delta-offload-bytes-across-pp-ranks", only(0)},
                 {"--fine-grained-activation-offloading"},
                 {"--fine-grained-offloading-max-inflight-offloads"},
                 {"--min-offloaded-tensor-size"},
                 {"--offload-modules"}});
  refuse_others(cl,
                "use --recompute-granularity full, --recompute-method and --recompute-num-layers",
                {{"--activations-checkpoint-method"},
                 {"--activations-checkpoint-num-layers", only(1)},
                 {"--checkpoint-num-layers", only(1)}});
  refuse_others(cl, "use --sequence-parallel, with which a rank keeps its part of the tokens",
                {{"--distribute-checkpointed-activations"}});
  refuse_others(cl, "use --account-for-embedding-in-pipeline-split",
                {{"--standalone-embedding-stage"}});
  refuse_others(cl, "use --plan", {{"--fake-process-group"}});
  imply_others(cl, "ranks are told by the launcher's environment",
               {{"--local_rank", any(kInteger)}});
}

static void add_graph_flags(CommandLine& cl) {
  imply_others(
      cl, "a GPU's forwards and backwards are captured, unless --no-cuda-graphs",
      {{"--cuda-graph-impl", each({"none", "local", "transformer_engine", "full_iteration"})},
       {"--cuda-graph-modules", any(kTexts)},
       {"--optimizer-cuda-graph"}});
}

static void add_checkpoint_flags(CommandLine& cl) {
  imply_others(cl, "how ranks share the reading and writing changes nothing of a checkpoint",
               {{"--async-ckpt-cpu-priority", any(kInteger)},
                {"--async-ckpt-io-priority", any(kInteger)},
                {"--async-ckpt-use-cpu-shm"},
                {"--async-strategy", each({"nvrx", "mcore"})},
                {"--ckpt-drop-redundant-extra-state"},
                {"--ckpt-fully-parallel-load-exchange-algo",
                 each({"broadcast", "gather_rounds", "gather_object"})},
                {"--ckpt-fully-parallel-load-per-rank-objects"},
                {"--ckpt-fully-parallel-load-process-group", each({"dp", "ep_dp"})},
                {"--ckpt-fully-parallel-save-process-group", each({"dp", "ep_dp"})},
                {"--ckpt-pg-tensors-cache-create"},
                {"--ckpt-pg-tensors-cache-path", any(kText)},
                {"--dist-ckpt-workers", any(kInteger)},
                {"--no-ckpt-load-validate-sharding-integrity,--disable-ckpt-load-validate-sharding-"
                 "integrity"},
                {"--no-stream-ckpt-dequant,--disable-stream-ckpt-dequant"}});
  imply_others(cl, "a checkpoint has hashes, to which what is read of it is held",
               {{"--verify-integrity"}});
  imply_others(cl, "the optimizer's state that is saved fits any layout",
               {{"--dist-ckpt-optim-fully-reshardable"},
                {"--distrib-optim-fully-reshardable-mem-efficient"}});
  imply_others(cl, "checkpoints are those of core_v0.12", {{"--dist-ckpt-save-pre-mcore-014"}});
  refuse_others(cl, "a checkpoint has its tokenizer beside it",
                {{"--no-save-tokenizer-assets,--disable-save-tokenizer-assets"}});
  refuse_others(cl,
                "a run goes on from all that its checkpoint has; see --finetune and --ckpt-step",
                {{"--load-main-params-from-ckpt"},
                 {"--load-model-opt-format"},
                 {"--override-ckpt-iteration"}});
  refuse_others(cl, "a tensor that the model needs and a checkpoint lacks is an error",
                {{"--no-strict-fsdp-dtensor-load,--disable-strict-fsdp-dtensor-load"}});
}

static void add_optimizer_flags(CommandLine& cl) {
  refuse_others(cl, "the optimizers are those of --optimizer",
                {{"--lion-beta1", only(0.95)}, {"--lion-beta2", only(0.98)}});
  refuse_others(cl, "use --override-opt_param-scheduler or --use-checkpoint-opt_param-scheduler",
                {{"--override-lr-scheduler"}, {"--use-checkpoint-lr-scheduler"}});
}

static void add_report_flags(CommandLine& cl) {
  refuse_others(cl,
                "a run reports to no service; the curves of --tensorboard-dir are read by others",
                {{"--enable-one-logger"},
                 {"--one-logger-entity", only("hwinf_dcm")},
                 {"--otel-enabled"},
                 {"--otel-service-name"},
                 {"--otel-span-groups"}});
  refuse_others(cl, "use --log-memory-to-tensorboard", {{"--log-device-memory-used"}});
  imply_others(cl, "what a rank holds of memory is logged once, and is the same after every step",
               {{"--log-memory-interval", any(kInteger)}});
  refuse_others(cl, "no power is measured; see --log-throughput", {{"--log-energy"}});
  imply_others(cl, "the sizes of batches are among the curves",
               {{"--log-batch-size-to-tensorboard"}});
  refuse_others(cl, "the learning rate is always among the curves",
                {{"--no-log-learnig-rate-to-tensorboard"}});
  refuse_others(cl, "a step's tensors are not written; norms are logged, see --log-params-norm",
                {{"--dump-param-to-param-group-map"},
                 {"--save-activations-interval"},
                 {"--save-dgrads-interval"},
                 {"--save-params-interval"},
                 {"--save-tokens-per-expert-interval"},
                 {"--save-wgrads-interval"}});
  refuse_others(cl, "there is no PyTorch; see --profile",
                {{"--nvtx-ranges"},
                 {"--pytorch-profiler-collect-callstack"},
                 {"--pytorch-profiler-collect-chakra"},
                 {"--pytorch-profiler-collect-shapes"},
                 {"--record-shapes"}});
  refuse_others(
      cl, "a rank that waits too long is named; see --distributed-timeout-minutes",
      {{"--flight-recorder-dump-path"},
       {"--flight-recorder-include-stack-trace"},
       {"--flight-recorder-trace-buffer-size", only(2000)},
       {"--no-flight-recorder-dump-on-timeout,--disable-flight-recorder-dump-on-timeout"},
       {"--no-flight-recorder-extra-dump-on-exec,--disable-flight-recorder-extra-dump-on-exec"},
       {"--no-flight-recorder-include-only-active,--disable-flight-recorder-include-only-active"}});
  refuse_others(cl, "ranks are not watched for slow ones; see --timing-log-option",
                {{"--gpu-sniff-test-interval"}});
  refuse_others(cl, "faults are not made",
                {{"--fault-injector-delay-start-iteration"},
                 {"--fault-injector-fault-delay"},
                 {"--fault-injector-fault-probabilities"},
                 {"--fault-injector-fault-types"},
                 {"--fault-injector-mtti-seconds"},
                 {"--fault-injector-num-ranks"},
                 {"--fault-injector-offset-seconds"},
                 {"--fault-injector-ranks"},
                 {"--fault-injector-seed"}});
  refuse_others(cl, "use --max-restarts",
                {{"--ft-num-warmup-iters", only(5)},
                 {"--inprocess-active-world-size"},
                 {"--inprocess-barrier-timeout", only(120.)},
                 {"--inprocess-completion-timeout", only(120.)},
                 {"--inprocess-empty-cuda-cache"},
                 {"--inprocess-granularity", only("node")},
                 {"--inprocess-hard-timeout", only(90.)},
                 {"--inprocess-heartbeat-interval", only(30.)},
                 {"--inprocess-heartbeat-timeout", only(60.)},
                 {"--inprocess-last-call-wait", only(1.)},
                 {"--inprocess-max-iterations"},
                 {"--inprocess-monitor-process-interval", only(1.)},
                 {"--inprocess-monitor-thread-interval", only(1.)},
                 {"--inprocess-progress-watchdog-interval", only(1.)},
                 {"--inprocess-restart"},
                 {"--inprocess-soft-timeout", only(60.)},
                 {"--inprocess-termination-grace-time", only(1.)}});
  imply_others(cl, "INT, TERM and USR1 always save a checkpoint and end the run",
               {{"--exit-signal", each({"SIGTERM", "SIGINT", "SIGUSR1"})},
                {"--exit-signal-handler-for-dataloader"},
                {"--exit-signal-handler-for-training"}});
}

void add_release_flags(CommandLine& cl) {
  add_model_flags(cl);
  add_expert_flags(cl);
  add_data_flags(cl);
  add_tokenizer_flags(cl);
  add_numeric_flags(cl);
  add_parallel_flags(cl);
  add_graph_flags(cl);
  add_checkpoint_flags(cl);
  add_optimizer_flags(cl);
  add_report_flags(cl);
  add_other_program_flags(cl);
}

}  // namespace mt
