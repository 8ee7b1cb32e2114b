// What a rank's memory is full of: the tensors of a plan, equal ones of different layers together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/probe.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace mt {

class Executor;
class Optimizer;
class ParamTable;

struct LargeTensor {
  std::string what;  // "decoder.layers.mlp.linear_fc1.weight: gradient"
  DType dtype = DType::f32;
  Shape shape{0};
  std::int64_t count = 0;
  std::size_t bytes() const {
    return static_cast<std::size_t>(count * shape.numel()) * size_of(dtype);
  }
};

// Remembers which module first showed the tensor at an address.
class TensorNames final : public Probe {
 public:
  void look(const Param& module, const char* what, ConstTensor tensor, Stream& stream) override;
  std::string of(const ConstTensor& tensor) const;  // "" for what nobody showed

 private:
  std::map<const void*, std::string> names_;
};

// The `most` largest, the largest first; `executor` has run on meta and shown all to `names`.
std::vector<LargeTensor> largest_tensors(const ParamTable& table, const Optimizer& optimizer,
                                         const Executor& executor, const TensorNames& names,
                                         std::size_t most);

// It is "24 of float32 [8192, 2048]: decoder.layers.mlp.linear_fc1.weight: gradient", say.
std::string description(const LargeTensor& tensor);

}  // namespace mt
