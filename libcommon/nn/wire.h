// Wire: the tensors that travel from one pipeline stage to the next; their gradients travel back
// likewise.  They are hidden states and, where later stages attend to one, a memory's, [rows,
// hidden_size] each.  Empty ones do not travel.
#pragma once

#include <array>
#include <cstddef>

#include "tensor/tensor.h"

namespace mt {

inline constexpr std::size_t kWireTensors = 2;
struct Wire {
  std::array<Tensor, kWireTensors> tensors;

  explicit operator bool() const { return hidden() || memory(); }
  Tensor& hidden() { return tensors[0]; }
  const Tensor& hidden() const { return tensors[0]; }
  Tensor& memory() { return tensors[1]; }
  const Tensor& memory() const { return tensors[1]; }
};
using WireShapes = std::array<Shape, kWireTensors>;

}  // namespace mt
