// StepShape: what the memory of a step depends on besides the model.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/context_comm.h"
#include "nn/fp8_layers.h"
#include "tensor/fields.h"

namespace mt {

struct StepShape {
  std::int64_t micro_batch_size = 0;
  DType dtype = DType::f32;
  std::uint64_t seed = 0;  // of dropout
  FieldSpecs fields = {};  // of a micro-batch's samples, this rank's part of each
  bool sequence_parallel = false, tensor_overlap = false;
  // How ranks that share sequences do so (ContextParallel).
  std::vector<ContextComm> context_comm = {ContextComm::p2p};
  int context_neighbours = 0;
  // Whether there are experts, and how ranks that share them do so (ExpertParallel).
  bool experts = false, gathers_tokens = true;
  std::optional<double> expert_buffer_factor = {};
  bool shared_experts_aside = false;  // where the device has queues, theirs is another
  std::optional<Fp8Rules> fp8 = {};   // none: no layer multiplies codes of eight bits
};

}  // namespace mt
