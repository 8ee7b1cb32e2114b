// What an optimizer can be told.
#pragma once

#include "base/command.h"
#include "kernels/adam.h"
#include "optim/loss_scale.h"
#include "optim/muon.h"
#include "tensor/dtype.h"

namespace mt {

struct Param;

struct OptimizerOptions {
  std::string name = "adam";  // adam, sgd, muon or dist_muon
  AdamOptions adam;
  // Allows other types than fp32 for gradients, main weights and Adam's moments.
  bool precision_aware = false;
  std::string main_grads_dtype = "fp32", main_params_dtype = "fp32";
  std::string exp_avg_dtype = "fp32", exp_avg_sq_dtype = "fp32";
  bool grad_reduce_in_bf16 = false, accumulate_allreduce_grads_in_fp32 = false;
  double sgd_momentum = 0.9;
  MuonOptions muon;
  bool decays_qk_norms = false;
  std::optional<std::string> no_decay_condition = {};
  double clip_grad = 1;  // largest norm of the gradient; 0: not clipped
  bool log_num_zeros_in_grad = false;
  LossScaleOptions loss_scale;
  bool use_distributed_optimizer = false;
  int distributed_optimizer_instances = 1;
  bool use_torch_fsdp2 = false;
  std::string sharding_strategy = "no_shard";  // or optim, optim_grads, optim_grads_params
  bool overlap_grad_reduce = false, overlap_param_gather = false;
  // The buckets of what overlaps: their elements, or how many there are.
  std::optional<std::int64_t> ddp_bucket_size = {}, ddp_num_buckets = {};
  bool ddp_pad_buckets = false;

  void add_to(CommandLine& cl);
  void complete();  // checks what must fit together; dist_muon becomes a distributed muon
  // Whether a row's weights decay where its table says that they do not: a norm of queries or keys.
  bool decays(const Param& row) const;
  bool shards_values() const { return sharding_strategy == "optim_grads_params"; }
  // What Adam's first or second moment is kept in; `wide` where it is not of fewer bits.
  DType moment_dtype(std::size_t moment, DType wide) const;
  // The type of main weights, where weights are of 16 bits.
  DType master_dtype(DType wide) const { return main_params_dtype == "fp16" ? DType::f16 : wide; }
  // Whether what micro-batches are added to, each rounded, and ranks sum is bf16, as Megatron's
  // buffer of gradients is with either option.
  bool bf16_gradients() const { return grad_reduce_in_bf16 || main_grads_dtype == "bf16"; }
  bool shards_gradients() const { return sharding_strategy == "optim_grads" || shards_values(); }

 private:
  void check_precision() const;
  void complete_sharding();
};

}  // namespace mt
