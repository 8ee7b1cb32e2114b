#include "optim/optimizer_options.h"

#include "tensor/param.h"

namespace mt {

void OptimizerOptions::add_to(CommandLine& cl) {
  cl.section("Optimizer");
  cl.option("--optimizer", &name, "NAME",
            "adam, sgd, muon, or dist_muon, which is muon with --use-distributed-optimizer",
            one_of({"adam", "sgd", "muon", "dist_muon"}));
  cl.option("--adam-beta1", &adam.beta1, "F", "decay of the first moment", between(0, 1));
  cl.option("--adam-beta2", &adam.beta2, "F", "decay of the second moment", between(0, 1));
  cl.option("--adam-eps", &adam.eps, "F", "added to the root of the second moment", at_least(0));
  cl.flag("--use-precision-aware-optimizer", &precision_aware,
          "with --use-distributed-optimizer, allow other types than fp32 for main gradients, main "
          "weights and Adam's moments");
  cl.option("--main-grads-dtype", &main_grads_dtype, "TYPE",
            "what gradients are added up and reduced in: fp32, or bf16 with --bf16",
            one_of({"fp32", "bf16"}));
  cl.option("--main-params-dtype", &main_params_dtype, "TYPE",
            "what main weights, of which those of --bf16 or --fp16 are copies, are kept in: fp32, "
            "or fp16 with a scale for each parameter; saved in fp32",
            one_of({"fp32", "fp16"}));
  cl.option("--exp-avg-dtype", &exp_avg_dtype, "TYPE",
            "what Adam's first moment is kept in: fp32, bf16, or fp16 or fp8 with a scale for each "
            "parameter; saved in fp32",
            one_of({"fp32", "bf16", "fp16", "fp8"}));
  cl.option("--exp-avg-sq-dtype", &exp_avg_sq_dtype, "TYPE",
            "what Adam's second moment is kept in, likewise",
            one_of({"fp32", "bf16", "fp16", "fp8"}));
  cl.option("--sgd-momentum", &sgd_momentum, "F", "decay of the momentum", between(0, 1));
  muon.add_to(cl);
  cl.flag("--apply-wd-to-qk-layernorm", &decays_qk_norms,
          "the norms of queries and keys (--qk-layernorm) decay, as matrices do");
  cl.option("--no-weight-decay-cond-type", &no_decay_condition, "WHAT",
            "apply_wd_to_qk_layernorm, which is as that flag",
            one_of({"apply_wd_to_qk_layernorm"}));
  cl.option("--clip-grad", &clip_grad, "F", "largest norm of the gradient; 0: not clipped",
            at_least(0));
  cl.flag("--log-num-zeros-in-grad", &log_num_zeros_in_grad,
          "log how many elements of the gradient are zero");
  loss_scale.add_to(cl);
  cl.flag("--use-distributed-optimizer", &use_distributed_optimizer,
          "each rank keeps and updates a part of the optimizer's state");
  cl.option("--num-distributed-optimizer-instances", &distributed_optimizer_instances, "N",
            "cut the data-parallel ranks into N parts, each of which keeps the whole state",
            at_least(1));
  cl.option(
      "--data-parallel-sharding-strategy", &sharding_strategy, "WHAT",
      "what of a model each data-parallel rank keeps a part of: no_shard, optim (as "
      "--use-distributed-optimizer), optim_grads (gradients too), or optim_grads_params (all; "
      "a layer's weights are gathered when it is computed)",
      one_of({"no_shard", "optim", "optim_grads", "optim_grads_params"}));
  cl.flag("--use-torch-fsdp2", &use_torch_fsdp2,
          "as --data-parallel-sharding-strategy optim_grads_params and, with --bf16, "
          "--grad-reduce-in-bf16, unless gradients are to be added up in fp32");
  cl.flag("--accumulate-allreduce-grads-in-fp32", &accumulate_allreduce_grads_in_fp32,
          "add up and reduce gradients in fp32: the default");
  cl.flag("--grad-reduce-in-bf16", &grad_reduce_in_bf16,
          "with --bf16 and any optimizer, add up and reduce gradients in bf16 all the same");
  cl.flag("--overlap-grad-reduce", &overlap_grad_reduce,
          "begin to sum gradients while the last backward goes on");
  cl.flag("--overlap-param-gather", &overlap_param_gather,
          "begin the next step while updated weights are on their way");
  cl.option("--ddp-bucket-size", &ddp_bucket_size, "N",
            "parameters whose gradients are summed together with --overlap-grad-reduce; default 40 "
            "million, or 1 million for each rank",
            at_least(1));
  cl.option("--ddp-num-buckets", &ddp_num_buckets, "N", "instead, into how many parts they are cut",
            at_least(1));
  cl.flag("--ddp-pad-buckets-for-high-nccl-busbw", &ddp_pad_buckets,
          "pad these to multiples of 65536 parameters");
}

// What is sharded is always gathered and reduced beside other work.
void OptimizerOptions::complete_sharding() {
  if (use_torch_fsdp2) {
    if (sharding_strategy == "optim" || sharding_strategy == "optim_grads")
      fail(Exit::usage, "--use-torch-fsdp2: not with --data-parallel-sharding-strategy ",
           sharding_strategy);
    sharding_strategy = "optim_grads_params";
  }
  if (sharding_strategy == "no_shard") return;
  use_distributed_optimizer = true;
  if (!shards_gradients()) return;
  if (name == "muon")
    fail(Exit::usage, "--data-parallel-sharding-strategy ", sharding_strategy,
         ": not with --optimizer muon, which needs whole matrices");
  if (ddp_bucket_size || ddp_num_buckets)
    fail(Exit::usage, "--data-parallel-sharding-strategy ", sharding_strategy,
         ": a layer is a bucket; without --ddp-bucket-size and --ddp-num-buckets");
  overlap_grad_reduce = true;
  if (shards_values()) overlap_param_gather = true;
}

void OptimizerOptions::check_precision() const {
  if (precision_aware && name != "adam")
    fail(Exit::usage, "--use-precision-aware-optimizer: not with --optimizer ", name);
  if (precision_aware && !use_distributed_optimizer)
    fail(Exit::usage, "--use-precision-aware-optimizer: needs --use-distributed-optimizer");
  for (const auto& [option, type] : {std::pair{"--main-grads-dtype ", main_grads_dtype},
                                     {"--main-params-dtype ", main_params_dtype},
                                     {"--exp-avg-dtype ", exp_avg_dtype},
                                     {"--exp-avg-sq-dtype ", exp_avg_sq_dtype}})
    if (type != "fp32" && !precision_aware)
      fail(Exit::usage, option, type, ": needs --use-precision-aware-optimizer");
  if (main_grads_dtype != "fp32" && accumulate_allreduce_grads_in_fp32)
    fail(Exit::usage,
         "--main-grads-dtype can only be fp32 when --accumulate-allreduce-grads-in-fp32 is set");
}

bool OptimizerOptions::decays(const Param& row) const {
  const std::string& module = row.place.module;
  return (decays_qk_norms || no_decay_condition) &&
         (module.ends_with("q_layernorm") || module.ends_with("k_layernorm"));
}

DType OptimizerOptions::moment_dtype(std::size_t moment, DType wide) const {
  const std::string& type = moment == 0 ? exp_avg_dtype : exp_avg_sq_dtype;
  return type == "bf16"   ? DType::bf16
         : type == "fp16" ? DType::f16
         : type == "fp8"  ? DType::f8
                          : wide;
}

void OptimizerOptions::complete() {
  if (adam.beta1 >= 1 || adam.beta2 >= 1)
    fail(Exit::bad_config, "--adam-beta1 ", adam.beta1, ", --adam-beta2 ", adam.beta2,
         ": expected less than 1");
  if (name == "dist_muon") {
    name = "muon";
    use_distributed_optimizer = true;
  }
  complete_sharding();
  check_precision();
  if (name == "sgd" && use_distributed_optimizer)
    fail(Exit::usage,
         "--optimizer sgd: not with --use-distributed-optimizer nor "
         "--data-parallel-sharding-strategy");
  if (overlap_param_gather && !use_distributed_optimizer)
    fail(Exit::usage, "--overlap-param-gather only supported with distributed optimizer");
  if (overlap_param_gather && !overlap_grad_reduce)
    fail(Exit::usage, "Must use --overlap-param-gather with --overlap-grad-reduce");
  if (ddp_bucket_size && ddp_num_buckets)
    fail(Exit::usage, "--ddp-bucket-size and --ddp-num-buckets exclude each other");
  if (distributed_optimizer_instances > 1 && !use_distributed_optimizer)
    fail(Exit::usage, "--num-distributed-optimizer-instances: needs --use-distributed-optimizer");
  if (name == "muon") muon.complete();
  loss_scale.complete();
}

}  // namespace mt
