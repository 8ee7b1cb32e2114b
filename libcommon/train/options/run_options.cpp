#include "train/options/run_options.h"

#include "base/command.h"
#include "comm/nccl_group.h"
#include "model/config/model_config.h"
#include "train/options/plan_options.h"

namespace mt {

void RunOptions::add_to(CommandLine& cl) {
  cl.section("Training");
  batch.add_to(cl);
  length.add_to(cl);
  cl.option("--seed", &seed, "N", "seed of data order, initial weights and dropout",
            between(1, 4294967295.0));
  compute.add_to(cl, ", with sums, gradients and the optimizer in fp32",
                 ", with a dynamic loss scale unless --loss-scale is given");
  cl.gpu_version([] { return device::version() + "\n" + nccl_version(); });
  cl.off_switch(
      "--no-cuda-graphs", &cuda_graphs,
      "a GPU's forwards and backwards are queued kernel by kernel, not as graphs captured "
      "once; the same bits");
  ranks.add_threads_to(cl);
  ranks.add_to(cl);
  optimizer.add_to(cl);
  schedule.add_to(cl);
  checkpoint.add_to(cl);
  fp8.add_to(cl);
  cl.section("Evaluation and end");
  evaluation.add_to(cl);
  length.add_exits_to(cl);
}

void RunOptions::add_reports_to(CommandLine& cl) {
  checks.add_to(cl);
  routing.add_to(cl);
  qk_clip.add_to(cl);
  report.add_to(cl);
}

void RunOptions::check_step(std::int64_t sequences) const {
  batch.check_step(sequences);
  ranks.layout.check_step(batch.divided(sequences).micro_batches);
}

void RunOptions::check_steps_from(std::int64_t consumed_samples) const {
  batch.check_evaluation();
  for (const std::int64_t sequences : batch.schedule.sizes_from(consumed_samples))
    check_step(sequences);
}

// Ranks that are processes have a GPU each.
void RunOptions::complete_processes() {
  if (ranks.launch.max_restarts > 0 && checkpoint.save.empty())
    fail(Exit::usage, "--max-restarts: needs --save");
  if (!ranks.has_processes() && !ranks.launch.gpus) return;
  if (compute.device_name == "cpu")
    fail(Exit::usage, "--device cpu: ", ranks.count, ranks.launch.gpus ? " GPUs" : " processes",
         " were asked for; CPU ranks are threads of one, see --ranks");
  compute.device_name = "cuda";
}

void RunOptions::complete_device(const Instead& instead) {
  const bool narrow =
      compute.bf16 || compute.fp16 || compute.dtype == "bf16" || compute.dtype == "fp16";
  const bool muon = optimizer.name == "muon";
  const bool supposed = instead.plan.wanted && !muon && (narrow || instead.plan.machine.is_named());
  if (supposed && compute.device_name == "auto") compute.device_name = "cuda";
  compute.supposed = supposed;
  const bool serves =
      supposed || ((ranks.count == 1 || ranks.has_processes()) && !instead.check_layout && !muon);
  complete_processes();
  compute.complete(serves);
  fp8.complete(device(), compute_dtype(), supposed);
  if (fp8.param_gather && !optimizer.use_distributed_optimizer)
    fail(Exit::usage, "--fp8-param-gather only supported with distributed optimizer");
  if (fp8.param_gather && optimizer.shards_values())
    fail(Exit::bad_config,
         "--fp8-param-gather: not with --data-parallel-sharding-strategy optim_grads_params, whose "
         "weights are cast for each product");
  if (fp8.param_gather && qk_clip.clips)
    fail(Exit::bad_config,
         "--fp8-param-gather: not with --qk-clip, which changes weights that were gathered");
  if (checks.computes_again() && fp8.is_delayed())
    fail(Exit::bad_config,
         "--rerun-mode validate_results: not with --fp8-recipe delayed, whose scales are a later "
         "step's when one is computed again");
  if (checks.compares_replicas() && optimizer.shards_values())
    fail(Exit::bad_config,
         checks.test_mode ? "--test-mode" : "--check-weight-hash-across-dp-replicas-interval",
         ": not with --data-parallel-sharding-strategy optim_grads_params, of whose weights there "
         "are no copies");
  if (optimizer.use_torch_fsdp2 && compute_dtype() == DType::f16)
    fail(Exit::usage, "--use-torch-fsdp2: not with --fp16");
  if (optimizer.use_torch_fsdp2 && compute_dtype() == DType::bf16 &&
      !optimizer.accumulate_allreduce_grads_in_fp32)
    optimizer.grad_reduce_in_bf16 = true;
  if (optimizer.bf16_gradients() && compute_dtype() != DType::bf16)
    fail(Exit::usage,
         optimizer.grad_reduce_in_bf16 ? "--grad-reduce-in-bf16" : "--main-grads-dtype bf16",
         ": needs --bf16");
  if (optimizer.main_params_dtype != "fp32" && !narrow)
    fail(Exit::usage, "--main-params-dtype ", optimizer.main_params_dtype,
         ": needs --bf16 or --fp16");
  if (device() == Device::cpu) return;
  if (ranks.count > 1 && !ranks.has_processes() && !supposed)
    fail(Exit::bad_config, "--ranks ", ranks.count, ": are of the CPU; one GPU is one rank");
  if (!serves)
    fail(Exit::bad_config,
         "--device cuda: neither --optimizer muon nor --check-layout; see --device cpu");
  if (compute_dtype() == DType::f16) optimizer.loss_scale.take_default();
}

void RunOptions::complete(const Instead& instead) {
  if (batch.micro_batch_size == 0) fail(Exit::usage, "--micro-batch-size: required");
  if (!instead.plan.wanted && !evaluation.skip_train) {
    if (length.train_iters == 0 && length.train_samples == 0 && length.data_samples == 0)
      fail(Exit::usage, "--train-iters: required, or --train-samples");
    if (!schedule.is_given()) fail(Exit::usage, "--lr: required");
  }
  instead.plan.check_wanted();
  ranks.complete();
  optimizer.complete();
  complete_device(instead);
  instead.plan.check_times(plans_times(), device() == Device::cuda);
  // A dynamic loss scale makes gradients overflow to find its limit.
  if (optimizer.loss_scale.is_dynamic()) checks.finite = false;
  checkpoint.complete(!instead.plan.svg.empty());
  if (!instead.plan.wanted && !instead.check_layout) report.check_wandb(!checkpoint.save.empty());
  if (!instead.plan.wanted && !instead.check_layout && ranks.max_restarts() > 0)
    checkpoint.go_on_after_failures(ranks.process.attempt);
}

void RunOptions::check_model(const ModelConfig& model, bool documents) const {
  if (ranks.parallel.tensor_model_parallel_size > 1 && optimizer.name == "muon")
    fail(Exit::bad_config,
         "--optimizer muon: needs whole matrices, --tensor-model-parallel-size 1");
  if (model.num_experts > 0) check_experts();
  routing.check(model);
  if (const char* const flag = model.setting_of_cpus(); flag && device() == Device::cuda)
    fail(Exit::unavailable, flag, ": GPUs have no kernels for it; see --device cpu");
  qk_clip.check(model, ranks.parallel.context_parallel_size, optimizer.shards_values());
  fp8.check(model, ranks.parallel.stages());
  if (model.has_alibi() && ranks.parallel.context_parallel_size > 1)
    fail(Exit::bad_config, "--position-embedding-type alibi: not with --context-parallel-size");
  if (checkpoint.format == "torch" && model.mtp_num_layers > 0)
    fail(Exit::bad_config, "--ckpt-format torch: not with --mtp-num-layers");
  if (checkpoint.format == "torch" && model.multi_latent_attention &&
      ranks.parallel.tensor_model_parallel_size > 1)
    fail(
        Exit::bad_config,
        "--ckpt-format torch: not with --multi-latent-attention and "
        "--tensor-model-parallel-size, whose ranks would each have a part of the projections down");
  if (checkpoint.format == "torch" && checkpoint.save_optimizer && optimizer.name == "muon")
    fail(
        Exit::bad_config,
        "--ckpt-format torch: has no place for the state of --optimizer muon; see --no-save-optim");
  if (device() == Device::cuda && ranks.parallel.passes_keys() &&
      (documents || !model.window_size.empty()))
    fail(Exit::bad_config,
         "--cp-comm-type: on GPUs only a2a, with which ranks have whole sequences, sees documents "
         "(--reset-attention-mask) or windows (--window-size)");
}

void RunOptions::check_experts() const {
  if (ranks.parallel.expert_tensor_ranks() > 1 && optimizer.name == "muon")
    fail(Exit::bad_config,
         "--optimizer muon: needs whole matrices, --expert-tensor-parallel-size 1");
  if (ranks.parallel.expert_model_parallel_size > 1 && compute_dtype() == DType::f16)
    fail(Exit::bad_config, "--expert-model-parallel-size ",
         ranks.parallel.expert_model_parallel_size,
         ": Expert parallelism is not supported with fp16 training.");
  if (ranks.sizes().experts_apart()) {
    if (checkpoint.format == "torch")
      fail(Exit::bad_config,
           "--ckpt-format torch: not of ranks that share experts; --ckpt-format torch_dist is");
    if (optimizer.distributed_optimizer_instances > 1)
      fail(Exit::bad_config,
           "--num-distributed-optimizer-instances: 1 of ranks that share experts");
  }
}

void RunOptions::check_reduction() const {
  const ParallelSizes sizes = ranks.sizes();
  const int instances = optimizer.distributed_optimizer_instances;
  if (sizes.dp * sizes.cp % instances != 0)
    fail(Exit::bad_config, "--num-distributed-optimizer-instances ", instances,
         ": does not divide the ", sizes.dp * sizes.cp, " ranks that have the same weights");
  if (optimizer.overlap_grad_reduce && checks.large_grads)
    fail(Exit::usage, "--check-for-large-grads: not with --overlap-grad-reduce");
}

void RunOptions::complete_for(const ModelConfig& model, std::int64_t seq_length, bool documents,
                              const Instead& instead) {
  check_model(model, documents);
  ranks.complete_for(model, seq_length);
  check_reduction();
  batch.complete(seq_length, ranks.sizes().dp);
  if (model.has_quantiles() &&
      batch.micro_batch_size * seq_length * model.moe_router_topk % model.num_experts != 0)
    fail(Exit::bad_config, "--moe-router-load-balancing-type quantile_balancing: ",
         batch.micro_batch_size * seq_length, " tokens of a micro-batch that go to ",
         model.moe_router_topk, " experts each are no multiple of ", model.num_experts, " experts");
  check_step(batch.largest());
  if (checkpoint.load.empty()) check_steps_from(0);
  length.complete(batch);
  const bool trains = !instead.plan.wanted && !evaluation.skip_train;
  if (trains)
    schedule.complete({.train_iters = length.train_iters,
                       .train_samples = length.train_samples,
                       .global_batch_size = batch.largest()});
  if (qk_clip.is_on() && evaluation.skip_train)
    fail(Exit::usage, "--qk-clip, --log-max-attention-logit: of a run that trains");
  if (routing.is_on() && evaluation.skip_train)
    fail(Exit::usage, "--moe-route-trace, --moe-route-replay: of a run that trains");
  if (routing.is_on() && instead.check_layout)
    fail(Exit::usage, "--moe-route-trace, --moe-route-replay: not with --check-layout");
  report.check_profile(trains ? std::optional(length.train_iters) : std::nullopt, ranks.count);
  if (report.log_progress && checkpoint.save.empty())
    fail(Exit::usage, "--log-progress: needs --save");
  if (report.run_log.empty() && !checkpoint.save.empty())
    report.run_log = checkpoint.save + "/run.jsonl";
}

}  // namespace mt
