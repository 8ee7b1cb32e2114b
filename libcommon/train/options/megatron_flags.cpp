#include "train/options/megatron_flags.h"

#include "base/flag_list.h"
#include "model/config/launch_flags.h"

namespace mt {

// --- Flags that a further option of mt-pretrain may take over. ---

static void add_model_flags(CommandLine& cl) {
  refuse(cl, "it belongs to --bf16 and --fp16; in fp32 the residual stream is fp32 anyway",
         {{"--fp32-residual-connection"}});
  refuse(cl, "Megatron-Core's models ignore it; a residual branch begins after the addition",
         {{"--apply-residual-connection-post-layernorm"}});
  refuse(cl, "Megatron-Core's models ignore it; the tanh form of GeLU is the default",
         {{"--openai-gelu"}});
  imply(cl, "what is loaded replaces what was drawn, which is always all",
        {{"--no-initialization"}});
  refuse(cl, "all ranks begin with the same weights", {{"--data-parallel-random-init"}});
  refuse_others(cl, "only models of Megatron-Core are supported", {{"--use-legacy-models"}});
  refuse(cl, "models are not exported to ONNX", {{"--onnx-safe"}});
  refuse(cl, "use --recompute-activations", {{"--checkpoint-activations"}});
  refuse(cl, "norms of queries and keys have weights; see --qk-layernorm", {{"--qk-l2-norm"}});
  refuse(cl, "there is one residual stream", {{"--enable-hyper-connections"}});
}

static void add_data_flags(CommandLine& cl) {
  refuse(cl, "token files are read from the file system", {{"--s3-cache-path"}});
}

static void add_optimizer_flags(CommandLine& cl) {
  refuse(cl, "use --micro-batch-size", {{"--batch-size"}});
  refuse(cl, "use --lr-warmup-fraction", {{"--warmup"}});
  refuse(cl, "the optimizer is not PyTorch's", {{"--use-torch-optimizer-for-cpu-offload"}});
}

static void add_loop_flags(CommandLine& cl) {
  refuse(cl, "a rejected result ends the run, with a line that names it",
         {{"--result-rejected-tracker-filename"}});
  refuse(cl, "a run's layout is what its options say; any checkpoint fits any layout",
         {{"--use-mp-args-from-checkpoint-args"}});
}

// --- What a run does not do. ---

static void add_precision_flags(CommandLine& cl) {
  refuse(cl, "losses are fp32", {{"--fp16-lm-cross-entropy"}});
  refuse(cl, "delayed scales are updated every step", {{"--fp8-interval", only(1)}});
  refuse(cl, "weights that are sharded are cast for each product",
         {{"--keep-fp8-transpose-cache-when-using-custom-fsdp"}});
}

static void add_parallel_flags(CommandLine& cl) {
  refuse(cl, "use --sequence-parallel, with which a rank keeps its part of the tokens",
         {{"--distribute-saved-activations"}});
  refuse(cl, "use --tensor-model-parallel-size", {{"--model-parallel-size"}});
  refuse(cl, "what is sharded travels by layers, and the update divides the sums of gradients",
         {{"--no-gradient-reduce-div-fusion"}, {"--suggested-communication-unit-size"}});
  refuse(cl, "all ranks meet before anything else", {{"--lazy-mpu-init"}});
  refuse(cl, "NCCL is asked for what it does by itself; its own variables still hold",
         {{"--nccl-communicator-config-path"}});
}

static void add_checkpoint_flags(CommandLine& cl) {
  refuse(cl, "an optimizer's state is written in one form",
         {{"--ckpt-convert-update-legacy-dist-opt-format"}});
  refuse(cl, "use --ckpt-format", {{"--dist-ckpt-format", only("torch_dist")}});
  refuse(cl, "all ranks write to one folder; see --non-persistent-ckpt-type",
         {{"--non-persistent-local-ckpt-algo", only("fully_parallel")},
          {"--non-persistent-local-ckpt-dir"},
          {"--replication"},
          {"--replication-factor", only(2)},
          {"--replication-jump"}});
}

static void add_machine_flags(CommandLine& cl) {
  refuse(cl, "what a step holds of memory is known before it; see --plan",
         {{"--memory-snapshot-path", only("snapshot.pickle")}, {"--record-memory-history"}});
  refuse(cl, "ranks are not watched for slow ones; see --timing-log-option",
         {{"--log-straggler"},
          {"--disable-straggler-on-startup"},
          {"--run-workload-inspector-server"},
          {"--straggler-ctrlr-port", only(65535)},
          {"--straggler-minmax-count", only(1)}});
  refuse(cl, "there is no PyTorch; see --profile", {{"--use-pytorch-profiler"}});
  refuse(
      cl, "faults are not made",
      {{"--error-injection-rate", only(0)}, {"--error-injection-type", only("transient_error")}});
  refuse(cl, "a package of Python; TERM and USR1 save a checkpoint, and --load goes on from it",
         {{"--adlr-autoresume"},
          {"--adlr-autoresume-interval", only(1000)},
          {"--calc-ft-timeouts"},
          {"--enable-ft-package"}});
  refuse(cl, "a run reports to no service; see --run-log",
         {{"--app-tag-run-name"},
          {"--app-tag-run-version", only("0.0.0")},
          {"--one-logger-async"},
          {"--one-logger-project", only("megatron-lm")},
          {"--one-logger-run-name"}});
  refuse(cl, "use --print-config=json", {{"--config-logger-dir"}});
  refuse(cl,
         "use --config, an `option: value` a line; the nested names of that file are no options",
         {{"--yaml-cfg"}});
}

// --- What always holds. ---

static void add_implied_communication(CommandLine& cl) {
  imply(cl, "GPUs work together over NCCL, the CPU's ranks in the memory of their process",
        {{"--disable-gloo-process-groups"},
         {"--distributed-backend", each({"nccl", "gloo"})},
         {"--train-sync-interval", any(kInteger)}});
  imply(cl, "gradients are summed, and divided where they are used",
        {{"--ddp-average-in-collective"}});
  imply(cl,
        "with --overlap-param-gather a bucket's weights travel while the next one's are updated",
        {{"--overlap-param-gather-with-optimizer-step"}});
  imply(cl, "what is sharded is said by --data-parallel-sharding-strategy",
        {{"--use-custom-fsdp"}, {"--init-model-with-meta-device"}});
  imply(cl, "how communication is arranged changes no number",
        {{"--disable-tp-comm-bulk-dgrad,--no-tp-comm-bulk-dgrad"},
         {"--disable-tp-comm-bulk-wgrad,--no-tp-comm-bulk-wgrad"},
         {"--disable-tp-comm-overlap-ag,--no-tp-comm-overlap-ag"},
         {"--disable-tp-comm-overlap-rs,--no-tp-comm-overlap-rs"},
         {"--disable-tp-comm-split-ag,--no-tp-comm-split-ag"},
         {"--disable-tp-comm-split-rs,--no-tp-comm-split-rs"},
         {"--no-align-grad-reduce,--disable-align-grad-reduce"},
         {"--no-align-param-gather"},
         {"--no-async-tensor-model-parallel-allreduce,"
          "--disable-async-tensor-model-parallel-allreduce"},
         {"--no-clone-scatter-output-in-embedding,--disable-clone-scatter-output-in-embedding"},
         {"--no-overlap-p2p-communication"},
         {"--no-scatter-gather-tensors-in-pipeline"},
         {"--overlap-p2p-communication-warmup-flush"},
         {"--pipeline-model-parallel-comm-backend", each({"nccl", "ucc"})},
         {"--tp-comm-bootstrap-backend", each({"nccl", "mpi", "gloo"})},
         {"--tp-comm-overlap-cfg", any(kText)},
         {"--tp-comm-overlap-rs-dgrad"},
         {"--use-ring-exchange-p2p"}});
}

static void add_implied_machinery(CommandLine& cl) {
  imply(cl, "the head's gradient is made with the logits, which are not stored",
        {{"--defer-embedding-wgrad-compute"}, {"--wgrad-deferral-limit", any(kInteger)}});
  imply(cl, "a GPU's forwards and backwards are captured, unless --no-cuda-graphs",
        {{"--cuda-graph-scope",
          {kTexts, one_of({"full", "full_iteration", "attn", "mlp", "moe", "moe_router",
                           "moe_preprocess", "mamba"})}},
         {"--cuda-graph-warmup-steps", any(kInteger)},
         {"--enable-cuda-graph"},
         {"--external-cuda-graph"}});
  imply(cl, "there is no garbage collector",
        {{"--manual-gc"},
         {"--manual-gc-interval", any(kInteger)},
         {"--no-manual-gc-eval,--disable-manual-gc-eval"}});
  imply(cl, "no memory is allocated during a step, so none can be given back",
        {{"--empty-unused-memory-level", {kInteger, between(0, 2)}}});
  imply(cl, "the optimizer's state is in host memory, all of it, and is not copied",
        {{"--no-pin-cpu-grads"},
         {"--no-pin-cpu-params"},
         {"--optimizer-cpu-offload"},
         {"--optimizer-offload-fraction", only(1.)},
         {"--overlap-cpu-optimizer-d2h-h2d"}});
  imply(cl, "samples are read when they are needed, in the same order for any number of workers",
        {{"--num-dataset-builder-threads", any(kInteger)}, {"--num-workers", any(kInteger)}});
  imply(cl, "how a token file is read changes nothing", {{"--no-mmap-bin-files"}});
  imply(cl, "a checkpoint's structure is the model's, and is not compared between ranks",
        {{"--ckpt-assume-constant-structure"}});
  imply(cl, "every rank reads what it needs from mapped files, and checks its share of the hashes",
        {{"--ckpt-fully-parallel-load"}});
  imply(cl, "ranks with the same weights share the writing, unless --no-ckpt-fully-parallel-save",
        {{"--ckpt-fully-parallel-save"}});
  imply(cl, "the thread of --async-save needs no process that waits for work",
        {{"--use-persistent-ckpt-worker"}});
  imply_checkpoint_checks(cl);
  imply(cl, "a tokenizer that is given stands before the checkpoint's",
        {{"--no-use-tokenizer-model-from-checkpoint-args,"
          "--disable-use-tokenizer-model-from-checkpoint-args"}});
  imply(cl, "a checkpoint's format is seen from its content", {{"--auto-detect-ckpt-format"}});
  imply(cl, "checkpoints are always distributed ones", {{"--use-dist-ckpt"}});
  imply(cl, "INT, TERM and USR1 always save a checkpoint and end the run",
        {{"--exit-signal-handler"}});
  imply(cl, "the parts of a step are timed without a barrier before them",
        {{"--no-barrier-with-level-1-timing"}});
  imply(cl, "a run reports to no service", {{"--no-one-logger"}});
  imply(cl, "there is no logger of Python's; see --quiet and --verbose",
        {{"--logging-level", any(kInteger)}});
  imply(cl, "a run that trains does not generate; see mt-generate(1)",
        {{"--flash-decode"},
         {"--inference-batch-times-seqlen-threshold", any(kInteger)},
         {"--inference-dynamic-batching"},
         {"--inference-dynamic-batching-buffer-guaranteed-fraction", any(kNumber)},
         {"--inference-dynamic-batching-buffer-overflow-factor", any(kNumber)},
         {"--inference-dynamic-batching-buffer-size-gb", any(kNumber)},
         {"--inference-dynamic-batching-max-requests-override", any(kInteger)},
         {"--inference-dynamic-batching-max-tokens-override", any(kInteger)},
         {"--inference-max-requests", any(kInteger)},
         {"--inference-max-seq-length", any(kInteger)},
         {"--max-tokens-to-oom", any(kInteger)}});
}

// --- Those of examples/multimodal. ---

static void add_image_text_flags(CommandLine& cl) {
  refuse(cl,
         "what language model and tower there are, and what stands around images, is known from "
         "--load; mt-convert --vision-tower joins two",
         {{"--language-model-type"},
          {"--vision-model-type"},
          {"--disable-vision-class-token"},
          {"--allow-missing-vision-projection-checkpoint"},
          {"--image-tag-type"}});
  refuse(cl, "use --chat-template", {{"--tokenizer-prompt-format"}, {"--force-system-message"}});
  refuse(cl, "the tokenizer is that of the model's folder", {{"--special-tokens"}, {"--eos-id"}});
  refuse(cl, "use --data-path", {{"--dataset-config"}});
  refuse(
      cl, "use --packing, and --decoder-seq-length for how long samples are",
      {{"--packing-buffer-size"}, {"--packing-seq-length", only(0)}, {"--dataloader-seq-length"}});
  refuse(cl, "all tokens that are learnt weigh alike", {{"--use-loss-scaling"}});
  refuse(cl, "videos are not read", {{"--num-frames", only(1)}});
  refuse(cl, "a run is evaluated by its loss; see mt-eval(1)", {{"--online-evaluation-config"}});
  refuse(cl, "what a tower computes is kept for its backward", {{"--recompute-vision"}});
  imply(cl, "a layer is computed in one way", {{"--use-te"}});
  imply(cl, "a checkpoint says how far its data is read", {{"--dataloader-save", any(kText)}});
}

void add_megatron_flags(CommandLine& cl) {
  cl.flags_page("mt-flags(7)");
  add_model_flags(cl);
  add_data_flags(cl);
  add_optimizer_flags(cl);
  add_loop_flags(cl);
  add_precision_flags(cl);
  add_parallel_flags(cl);
  add_checkpoint_flags(cl);
  add_machine_flags(cl);
  imply_numerics(cl);
  add_implied_communication(cl);
  add_implied_machinery(cl);
  add_other_model_flags(cl);
  add_image_text_flags(cl);
  add_release_flags(cl);
  add_fork_flags(cl);
}

}  // namespace mt
