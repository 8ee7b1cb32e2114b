// Probe: is shown what the modules of a step read and make, if the Step has one (Step::probe, else
// null).
#pragma once

#include <optional>
#include <string>

#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

class Probe {
 public:
  virtual ~Probe() = default;
  // module: by its parameter;  what: "input", "output", "gradient of its input", "gradient".
  virtual void look(const Param& module, const char* what, ConstTensor tensor, Stream& stream) = 0;
};

struct NonFinite {
  std::string parameter;  // of the module: its name in the table of parameters
  const char* what;
};

// Finds where the first NaN or infinity of a step arose: one whose loss is not finite is run again
// with this.
class NonFiniteProbe final : public Probe {
 public:
  void look(const Param& module, const char* what, ConstTensor tensor, Stream& stream) override;
  // After the step: the gradients of the parameters themselves.
  void look_at_gradients(const ParamTable& table, Stream& stream);
  const std::optional<NonFinite>& first() const { return first_; }

 private:
  std::optional<NonFinite> first_;
};

}  // namespace mt
