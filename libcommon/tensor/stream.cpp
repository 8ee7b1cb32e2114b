#include "tensor/stream.h"

namespace mt {

Stream::Stream(Device device, int threads) : device_(device) {
  if (device == Device::cpu) workers_ = std::make_unique<Workers>(threads);
  if (device == Device::cuda) handle_ = device::make_stream();
}

Stream::~Stream() {
  if (handle_ != nullptr) device::destroy_stream(handle_);
}

void Stream::synchronize() {
  if (handle_ == nullptr) return;
  waits_since_ = Clock::now().time_since_epoch().count();
  device::synchronize(handle_);
  waits_since_ = 0;
}

void Stream::wait(EventHandle event) {
  waits_since_ = Clock::now().time_since_epoch().count();
  device::wait(event);
  waits_since_ = 0;
}

std::optional<Stream::Clock::time_point> Stream::waits_since() const {
  const Clock::rep since = waits_since_;
  if (since == 0) return std::nullopt;
  return Clock::time_point(Clock::duration(since));
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
  work_ = Buffer();
  work_ = Buffer(device_, bytes);
}

}  // namespace mt
