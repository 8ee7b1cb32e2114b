#include "tensor/buffer.h"

#include <sys/mman.h>

#include <utility>

#include "tensor/device.h"

namespace mt {

Buffer::Buffer(Device device, std::size_t bytes) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  if (device == Device::cuda) {
    data_ = device::allocate(bytes);
    return;
  }
  const int protection = device == Device::meta ? PROT_NONE : PROT_READ | PROT_WRITE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (device == Device::meta ? MAP_NORESERVE : 0);
  data_ = ::mmap(nullptr, bytes, protection, flags, -1, 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    fail(Exit::out_of_memory, "out of host memory: ", bytes, " bytes asked for");
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_),
      pinned_(other.pinned_) {}

Buffer Buffer::pinned(std::size_t bytes) {
  Buffer buffer;
  if (bytes > 0) buffer.data_ = device::allocate_pinned(bytes);
  buffer.bytes_ = bytes;
  buffer.pinned_ = true;
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_ == Device::cuda)
    device::release(data_);
  else if (pinned_)
    device::release_pinned(data_);
  else
    ::munmap(data_, bytes_);
}

Tensor Buffer::tensor(DType dtype, const Shape& shape, std::size_t offset) const {
  assert(offset + static_cast<std::size_t>(shape.numel()) * size_of(dtype) <= bytes_);
  return {static_cast<std::byte*>(data_) + offset, dtype, shape, device_};
}

}  // namespace mt
