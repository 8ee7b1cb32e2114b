#include "tensor/buffer.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/large_pages.h"
#include "tensor/device.h"

namespace mt {

// Addresses at which no process can have memory, other ones for each buffer: none is asked for, so
// that they may be many under any limit.  Nothing where there are not so many.
static void* meta_address(std::size_t bytes) {
  constexpr std::uintptr_t kFirst = std::uintptr_t{1} << 60, kAll = std::uintptr_t{1} << 61;
  constexpr std::size_t kPage = 4096;
  if (bytes > kAll / 4) return nullptr;
  static std::atomic<std::uintptr_t> next = 0;
  const std::uintptr_t at = next.fetch_add((bytes + kPage - 1) / kPage * kPage) % (kAll - kAll / 4);
  return reinterpret_cast<void*>(kFirst + at);  // NOLINT(performance-no-int-to-ptr)
}

Buffer::Buffer(Device device, std::size_t bytes) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  if (device == Device::cuda) {
    data_ = device::allocate(bytes);
    return;
  }
  data_ = device == Device::meta
              ? meta_address(bytes)
              : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) data_ = nullptr;
  if (data_ == nullptr)
    fail(Exit::out_of_memory, "out of host memory: ", bytes, " bytes asked for");
  if (device == Device::cpu) ask_for_large_pages(data_, bytes);
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
  else if (device_ == Device::cpu)
    ::munmap(data_, bytes_);
}

Tensor Buffer::tensor(DType dtype, const Shape& shape, std::size_t offset) const {
  assert(offset + static_cast<std::size_t>(shape.numel()) * size_of(dtype) <= bytes_);
  return {static_cast<std::byte*>(data_) + offset, dtype, shape, device_};
}

}  // namespace mt
