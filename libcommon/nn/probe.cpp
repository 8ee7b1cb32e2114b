#include "nn/probe.h"

#include "ops/ops.h"

namespace mt {

void NonFiniteProbe::look(const Param& module, const char* what, ConstTensor tensor,
                          Stream& stream) {
  if (!first_ && !all_finite(tensor, stream)) first_ = {module.name(), what};
}

void NonFiniteProbe::look_at_gradients(const ParamTable& table, Stream& stream) {
  for (const Param& row : table.rows())
    if (row.trainable) look(row, "gradient", row.grad, stream);
}

}  // namespace mt
