#include "nn/value_head.h"

#include "nn/asked_rows.h"
#include "nn/tensor_parallel.h"
#include "ops/ops.h"

namespace mt {

void ValueHead::forward(Step& s, Tensor values, ConstTensor x) const {
  const ArenaScope scope(s.layer);
  const std::int64_t rows = x.shape()[0], tokens = values.numel();
  const Tensor own = s.scratch({rows, 1});
  Step of_rows = step_of_rows(s, rows);
  values_.forward(of_rows, own, x);
  if (!s.shares_rows()) return copy(values, own.reshape({tokens}), s.stream);
  const Tensor all = s.scratch({tokens, 1});
  gather_rows(s, all, own).wait();
  copy(values, all.reshape({tokens}), s.stream);
}

void ValueHead::keep(Step& s, ConstTensor x, ConstTensor d_values, Saved& saved) const {
  saved = {.x = x, .d_values = s.kept(&saved, {s.rows(), 1})};
  copy(saved.d_values.reshape({s.rows()}), d_values.rows(s.first_row(), s.first_row() + s.rows()),
       s.stream);
}

void ValueHead::backward(Step& s, Tensor dx, ConstTensor residual, const Saved& v) const {
  const ArenaScope scope(s.layer);
  Step of_rows = step_of_rows(s, v.x.shape()[0]);
  const Tensor own = s.scratch(dx.shape());
  values_.backward(of_rows, own, v.d_values, v.x);
  add(dx, residual, own, s.stream);
}

}  // namespace mt
