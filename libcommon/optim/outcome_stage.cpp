#include "optim/outcome_stage.h"

namespace mt {

OutcomeStage::OutcomeStage(Device device) {
  constexpr std::size_t kBytes = 2 * sizeof(StepOutcome);
  storage_ = device == Device::cuda ? Buffer::pinned(kBytes) : Buffer(Device::cpu, kBytes);
  if (device == Device::cuda)
    for (EventHandle& event : arrived_) event = device::make_event();
}

OutcomeStage::~OutcomeStage() {
  for (const EventHandle event : arrived_)
    if (event != nullptr) device::destroy_event(event);
}

void OutcomeStage::send(const StepOutcome* outcome, Stream& stream) {
  const std::size_t place = sent_++ % 2;
  StepOutcome* const to = static_cast<StepOutcome*>(storage_.data()) + place;
  if (stream.device() == Device::cpu) *to = *outcome;
  if (stream.device() != Device::cuda) return;
  device::copy(to, outcome, sizeof *outcome, stream.handle());
  device::record(arrived_[place], stream.handle());
}

StepOutcome OutcomeStage::receive(Stream& stream) {
  const std::size_t place = received_++ % 2;
  if (stream.device() == Device::cuda) stream.wait(arrived_[place]);
  return static_cast<const StepOutcome*>(storage_.data())[place];
}

}  // namespace mt
