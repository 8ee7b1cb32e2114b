// Buffer: owns a range of a device's addresses, page-aligned on the host and by 256 bytes on a GPU,
// whose memory starts as zeros; on the host in large pages where the system has them.  On `meta`
// the addresses are reserved but every access to them faults.
#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace mt {

// A size for buffers on meta that stand for ones whose size is to be measured.  ThreadSanitizer
// leaves a program few addresses.
#ifdef MT_SANITIZE_THREADS
inline constexpr std::size_t kMeasuring = std::size_t{1} << 34;
#else
inline constexpr std::size_t kMeasuring = std::size_t{1} << 43;
#endif

class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, std::size_t bytes);  // throws Exit::out_of_memory
  // Host memory that a GPU copies from and to by itself.
  static Buffer pinned(std::size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // A view of the bytes from `offset` on; they must suffice.
  Tensor tensor(DType dtype, const Shape& shape, std::size_t offset = 0) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_ = Device::cpu;
  bool pinned_ = false;
};

}  // namespace mt
