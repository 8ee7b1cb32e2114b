// HostCopy: a tensor's elements in host memory, for files: the tensor itself where it is there,
// else a copy.  What was queued for the tensor must be done.
#pragma once

#include "tensor/buffer.h"
#include "tensor/device.h"

namespace mt {

class HostCopy {
 public:
  // For reading: as the tensor is now.
  static HostCopy of(const Tensor& tensor) {
    HostCopy copy(tensor);
    if (copy.is_apart()) transfer(copy.host_.data(), tensor.data(), tensor.bytes());
    return copy;
  }
  // For writing: any values; then upload().
  static HostCopy for_writing(const Tensor& tensor) { return HostCopy(tensor); }
  void upload() const {
    if (is_apart()) transfer(there_.data(), host_.data(), there_.bytes());
  }
  const Tensor& tensor() const { return host_; }

 private:
  explicit HostCopy(const Tensor& tensor) : there_(tensor), host_(tensor) {
    if (!is_apart()) return;
    storage_ = Buffer(Device::cpu, tensor.bytes());
    host_ = storage_.tensor(tensor.dtype(), tensor.shape());
  }
  bool is_apart() const { return there_.device() == Device::cuda; }
  static void transfer(void* to, const void* from, std::size_t bytes) {
    device::copy(to, from, bytes, nullptr);
    device::synchronize(nullptr);
  }

  Tensor there_, host_;
  Buffer storage_;
};

}  // namespace mt
