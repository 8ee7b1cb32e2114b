// Subject: a module under test with its parameters and fixed inputs, so that one set of tests
// serves all modules: derivatives, saving, recompute, deferred weight gradients, frozen parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/workbench.h"

namespace mt {

class Subject {
 public:
  virtual ~Subject() = default;

  // y = f(x); with `save`, what backward needs is kept in the subject.
  virtual void forward(Step& s, Tensor y, ConstTensor x, bool save) = 0;
  virtual void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x) = 0;

  ParamTable table;
  WorkbenchOptions sizes;
  Shape x, y;      // x without elements: only parameters go in
  ConstTensor dy;  // where f's gradient can be asked for one dy only; else empty

 protected:
  // After all parameters were added: values near their usual ones, all different.
  void allocate() {
    table.allocate(Device::cpu, DType::f64, true);
    for (Param& row : table.rows()) {
      const double center = row.init.kind == Initializer::Kind::ones ? 1 : 0;
      fill_uniform(row.value, static_cast<unsigned>(row.index) + 50, center - 0.5, center + 0.5);
    }
  }
};

struct NamedSubject {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
};

inline void PrintTo(const NamedSubject& subject, std::ostream* out) { *out << subject.name; }

std::vector<NamedSubject> all_subjects();

}  // namespace mt
