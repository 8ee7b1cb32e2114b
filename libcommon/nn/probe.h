// NonFiniteProbe: finds where the first NaN or infinity of a step arose.  A step whose loss is not
// finite is run again with a probe in its Step (Step::probe, else null); modules show it what they
// read and made, and it remembers the first that is not finite.
#pragma once

#include <optional>
#include <string>

#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

struct NonFinite {
  std::string parameter;  // of the module: its name in the table of parameters
  const char* what;       // "input", "output", "gradient of its input", "gradient"
};

class NonFiniteProbe {
 public:
  void look(const Param& module, const char* what, ConstTensor tensor, Stream& stream);
  // After the step: the gradients of the parameters themselves.
  void look_at_gradients(const ParamTable& table, Stream& stream);
  const std::optional<NonFinite>& first() const { return first_; }

 private:
  std::optional<NonFinite> first_;
};

}  // namespace mt
