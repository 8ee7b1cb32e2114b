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
  if (handle_ != nullptr) device::synchronize(handle_);
}

void* Stream::work(std::size_t bytes) {
  if (bytes > work_.bytes()) reserve_work(bytes);
  return work_.data();
}

void Stream::reserve_work(std::size_t bytes) {
  synchronize();  // the operations before may still use the old one
  work_ = Buffer();
  work_ = Buffer(device_, bytes);
}

}  // namespace mt
