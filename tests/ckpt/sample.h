// A small checkpoint with one of everything, whose content follows from its iteration: for round
// trips, for the kill test, and to be opened by other programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/megatron_checkpoint.h"
#include "tensor/buffer.h"

namespace mt::test {

// A tensor with memory of its own.
struct OwnedTensor {
  OwnedTensor(DType dtype, const Shape& shape)
      : buffer(Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(dtype)),
        view(buffer.tensor(dtype, shape)) {}
  Buffer buffer;
  Tensor view;
};

struct SampleTensor {
  std::string key;
  DType dtype;
  Shape shape;
};
std::vector<SampleTensor> sample_tensors();

// Bytes made from (key, iteration); booleans are 0 or 1.
OwnedTensor sample_content(const SampleTensor& tensor, std::int64_t iteration);

bool same_bytes(ConstTensor a, ConstTensor b);

// Two writers, stacked layers cut by layer and row, an _extra_state object, an optimizer tensor in
// the reformulated shape, common state with args and a tensor.
void save_sample(const std::string& save_folder, std::int64_t iteration);

// Throws, or fails with Exit::difference, unless this is that checkpoint.
void check_sample(const CheckpointPlace& place);

// A fresh folder below the system's temporary one, removed with all in it when destroyed.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace mt::test
