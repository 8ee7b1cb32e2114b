#include "train/run/step_input.h"

#include "tensor/stream.h"

namespace mt {

// Bytes of the record and the weight, behind which the fields lie as they do in any block of
// fields.
static constexpr std::int64_t kRecord = 256, kWeight = kRecord - 8;
static_assert(sizeof(StepRecord) <= kWeight && sizeof(double) <= kRecord - kWeight);

std::int64_t step_input_bytes(const StepShape& shape) {
  return kRecord + fields_bytes(shape.fields, shape.micro_batch_size, sum_dtype(shape.dtype));
}

StepInput step_input_in(const Tensor& block, const StepShape& shape) {
  const Tensor fields = block.rows(kRecord, block.shape()[0]);
  return {.record = static_cast<StepRecord*>(block.data()),
          .router_weight =
              Tensor(static_cast<char*>(block.data()) + kWeight, DType::f64, {1}, block.device()),
          .batch = fields_in(fields, shape.fields, shape.micro_batch_size, sum_dtype(shape.dtype))};
}

InputStage::InputStage(std::int64_t bytes)
    : storage_(Buffer::pinned(2 * static_cast<std::size_t>(bytes))) {
  for (std::size_t i = 0; i < 2; ++i)
    halves_[i] = {storage_.tensor(DType::u8, {bytes}, i * static_cast<std::size_t>(bytes)),
                  device::make_event()};
}

InputStage::~InputStage() {
  for (const Half& half : halves_) device::destroy_event(half.sent);
}

void InputStage::send(const Tensor& to, Stream& stream) {
  device::copy(to.data(), block().data(), to.bytes(), stream.handle());
  device::record(halves_[next_].sent, stream.handle());
  next_ = 1 - next_;
  stream.wait(halves_[next_].sent);
}

}  // namespace mt
