// What a micro-batch brings to the device: its StepRecord and its Fields as one block of bytes, so
// that a GPU gets it in one copy.
#pragma once

#include <array>

#include "kernels/step_record.h"
#include "tensor/buffer.h"
#include "tensor/device.h"
#include "train/run/step_shape.h"

namespace mt {

class Stream;

struct StepInput {
  StepRecord* record = nullptr;
  Tensor router_weight;  // [1] f64: RouterLosses'
  Fields batch;
};

std::int64_t step_input_bytes(const StepShape& shape);
StepInput step_input_in(const Tensor& block, const StepShape& shape);  // views of the block

// Host memory from which a GPU copies one block while the next is written into the other.
class InputStage {
 public:
  explicit InputStage(std::int64_t bytes);
  InputStage(const InputStage&) = delete;
  ~InputStage();

  Tensor block() const { return halves_[next_].block; }  // to write into
  void send(const Tensor& to, Stream& stream);           // then the other half is next

 private:
  struct Half {
    Tensor block;
    EventHandle sent = nullptr;
  };
  Buffer storage_;
  std::array<Half, 2> halves_;
  std::size_t next_ = 0;
};

}  // namespace mt
