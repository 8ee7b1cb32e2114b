// Host memory to which a GPU copies what comes of a step while the next one is queued already: two
// steps may be on their way.  Of the CPU the same, at once.
#pragma once

#include <array>
#include <utility>

#include "kernels/update.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace mt {

class OutcomeStage {
 public:
  explicit OutcomeStage(Device device);
  OutcomeStage(OutcomeStage&& other) noexcept
      : storage_(std::move(other.storage_)),
        arrived_(std::exchange(other.arrived_, {})),
        sent_(other.sent_),
        received_(other.received_) {}
  ~OutcomeStage();

  void send(const StepOutcome* outcome, Stream& stream);  // which lies on the device
  // The one that was sent first and not received; the host waits for it.
  StepOutcome receive(Stream& stream);
  std::size_t under_way() const { return sent_ - received_; }

 private:
  Buffer storage_;
  std::array<EventHandle, 2> arrived_ = {};
  std::size_t sent_ = 0, received_ = 0;
};

}  // namespace mt
