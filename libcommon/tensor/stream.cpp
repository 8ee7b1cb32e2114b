#include "tensor/stream.h"

namespace mt {

Stream::Stream(Device device, int threads) : device_(device) {
  if (device == Device::cpu) workers_ = std::make_unique<Workers>(threads);
  if (device == Device::cuda) handle_ = device::make_stream();
}

Stream::~Stream() {
  if (handle_ != nullptr) device::destroy_stream(handle_);
}

Stream::Clock::rep Stream::mark() const {
  if (handle_ == nullptr) return 0;
  const Clock::rep now = Clock::now().time_since_epoch().count(), before = waits_since_;
  waits_since_ = before == 0 || queues_ ? now : before;
  return before;
}

void Stream::unmark(Clock::rep before) const {
  if (handle_ == nullptr) return;
  waits_since_ = queues_ ? Clock::now().time_since_epoch().count() : before;
}

void Stream::synchronize() {
  if (handle_ == nullptr) return;
  const Call call(*this);
  device::synchronize(handle_);
}

void Stream::wait(EventHandle event) {
  const Call call(*this);
  device::wait(event);
}

std::optional<Stream::Clock::time_point> Stream::waits_since() const {
  const Clock::rep since = waits_since_;
  if (since == 0) return std::nullopt;
  return Clock::time_point(Clock::duration(since));
}

std::optional<Stream::Clock::time_point> Stream::queues_since() const {
  return queues_ ? waits_since() : std::nullopt;
}

void* Stream::work(std::size_t bytes) {
  if (bytes > work_.bytes()) {
    if (captured_)
      fail(Exit::internal, "an operation needs ", bytes, " bytes of scratch, but ", work_.bytes(),
           " were reserved before work was captured");
    reserve_work(bytes);
  }
  return work_.data();
}

void Stream::reserve_work(std::size_t bytes) {
  synchronize();  // the operations before may still use the old one
  const Call call(*this);
  work_ = Buffer();
  work_ = Buffer(device_, bytes);
}

}  // namespace mt
