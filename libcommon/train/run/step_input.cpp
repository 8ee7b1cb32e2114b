#include "train/run/step_input.h"

namespace mt {

static constexpr std::int64_t kAlignment = 256;  // bytes

// Calls place(bytes) for each part in order, which returns where the part lies.
template <class Place>
static StepInput lay_out(const StepShape& shape, Device device, const Place& place) {
  StepInput input;
  input.record = static_cast<StepRecord*>(place(sizeof(StepRecord)));
  const auto make = [&](DType dtype) {
    const auto bytes = shape.tokens() * static_cast<std::int64_t>(size_of(dtype));
    return Tensor(place(bytes), dtype, {shape.tokens()}, device);
  };
  const DType real = sum_dtype(shape.dtype);
  input.batch = {.ids = make(DType::i32),
                 .labels = make(DType::i32),
                 .positions = make(DType::i32),
                 .first_key = shape.document_masks ? make(DType::i32) : Tensor(),
                 .loss_mask = make(real),
                 .row_weight = make(real),
                 .loss = {}};
  return input;
}

std::int64_t step_input_bytes(const StepShape& shape) {
  std::int64_t size = 0;
  lay_out(shape, Device::meta, [&](std::int64_t bytes) -> void* {
    size += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return nullptr;
  });
  return size;
}

StepInput step_input_in(const Tensor& block, const StepShape& shape) {
  std::int64_t at = 0;
  return lay_out(shape, block.device(), [&](std::int64_t bytes) {
    void* const part = static_cast<std::byte*>(block.data()) + at;
    at += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return part;
  });
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
