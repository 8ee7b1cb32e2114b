// Numbers on a GPU, for tests of what moves them.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace mt {

// f32 on a GPU.
class GpuTensor {
 public:
  GpuTensor(Stream& stream, std::int64_t count)
      : stream_(stream),
        buffer_(Device::cuda, static_cast<std::size_t>(count) * 4),
        view_(buffer_.tensor(DType::f32, {count})) {}
  GpuTensor(Stream& stream, const std::vector<float>& values)
      : GpuTensor(stream, std::ssize(values)) {
    device::copy(view_.data(), values.data(), view_.bytes(), stream.handle());
  }
  operator Tensor() const { return view_; }
  Tensor view() const { return view_; }
  std::vector<float> values() const {
    std::vector<float> values(static_cast<std::size_t>(view_.numel()));
    device::copy(values.data(), view_.data(), view_.bytes(), stream_.handle());
    stream_.synchronize();
    return values;
  }

 private:
  Stream& stream_;
  Buffer buffer_;
  Tensor view_;
};

}  // namespace mt
