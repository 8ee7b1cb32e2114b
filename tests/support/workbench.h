// Workbench: what a Step needs, for tests: memory, a stream, positions, the record of the step.
#pragma once

#include "kernels/step_record.h"
#include "nn/step.h"
#include "nn/weight_grads.h"
#include "tensor/arena.h"
#include "tests/support/host_tensor.h"

namespace mt {

struct WorkbenchOptions {
  DType dtype = DType::f64;
  std::int64_t sequences = 2, seq_length = 5;
  std::int64_t document = 0;  // tokens of one; 0: a sequence is one
  bool causal = true;
  bool training = true;
  bool deferring = false;
};

class Workbench {
 public:
  explicit Workbench(const WorkbenchOptions& options = {})
      : options_(options),
        weight_grads_(options.deferring),
        positions_(DType::i32, {options.sequences * options.seq_length}),
        first_key_(DType::i32, positions_.view().shape()) {
    const std::int64_t document = options.document > 0 ? options.document : options.seq_length;
    for (std::int64_t i = 0; i < positions_.view().numel(); ++i) {
      const std::int64_t position = i % options.seq_length;
      positions_.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(position);
      first_key_.view().as<std::int32_t>()[i] =
          static_cast<std::int32_t>(position / document * document);
    }
    record_.first_sample = 40;
  }
  Workbench(const Workbench&) = delete;

  Step step() {
    return {.stream = stream_,
            .keep = keep_,
            .layer = layer_,
            .deferred = deferred_,
            .weight_grads = weight_grads_,
            .record = &record_,
            .dtype = options_.dtype,
            .seed = 1234,
            .training = options_.training,
            .tokens = {.sequences = options_.sequences,
                       .length = options_.seq_length,
                       .positions = positions_.view(),
                       .first_key = options_.document > 0 ? first_key_.view() : Tensor(),
                       .causal = options_.causal}};
  }
  Stream& stream() { return stream_; }
  const Arena& layer() const { return layer_; }
  void run_weight_grads() { weight_grads_.run(stream_); }

 private:
  static constexpr std::size_t kBytes = 1 << 22;
  WorkbenchOptions options_;
  Stream stream_{Device::cpu};
  Arena keep_{Buffer(Device::cpu, kBytes)}, layer_{Buffer(Device::cpu, kBytes)},
      deferred_{Buffer(Device::cpu, kBytes)};
  WeightGrads weight_grads_;
  StepRecord record_;
  HostTensor positions_, first_key_;
};

}  // namespace mt
