// A few steps of training a small model on made-up tokens, and all that came of them, in f64 on the
// host: so that a device's numbers can be put beside another's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/run/executor.h"

namespace mt {

struct ModelConfig;

// Two layers: 128 wide with learned positions, LayerNorm, GeLU, biases, tied embeddings and
// dropout; and 256 wide with RoPE, RMSNorm, SwiGLU and two query groups.
ModelConfig small_gpt2();
ModelConfig small_llama();

struct SmallRun {
  ModelConfig (*model)() = small_gpt2;
  Device device = Device::cpu;
  DType dtype = DType::f64;
  DType drawn = DType::f64;     // the weights begin as numbers of this type
  bool document_masks = false;  // attention stays within documents of 50 tokens
  double loss_scale = 1;
  bool bf16_moments = false;    // Adam's
  bool fp16_masters = false;    // with a `dtype` of 16 bits
  bool bf16_gradients = false;  // with a `dtype` of bf16
  bool graphs = true;           // on a GPU
  int micro_batches = 2;        // of a step
  bool ahead = false;           // twice as many, each one's forward before the backward of the last
  bool shared_experts_aside = false;  // this, and
  std::optional<Fp8Rules> fp8 = {};   // this: as of StepShape
};

struct SmallRunResult {
  using Values = std::map<std::string, std::vector<double>>;
  std::vector<double> logits;  // of the first micro-batch's tokens, by the initial weights
  std::vector<double> losses;  // of each step's micro-batches: sums over their tokens
  Values gradients;            // of the first step, without the loss scale
  Values weights;              // after the last step
  StepMemory planned, used;
  std::size_t graphs = 0;  // that were captured
};

// Steps of some micro-batches of two sequences of 192 tokens, in vocabulary order 500, with Adam.
SmallRunResult run_small(const SmallRun& run);

// The norm of got - expected in units of expected's; infinite where a got is NaN.
double relative_error(const std::vector<double>& got, const std::vector<double>& expected);

}  // namespace mt
