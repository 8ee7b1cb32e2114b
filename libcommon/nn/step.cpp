#include "nn/step.h"

#include "comm/group.h"
#include "nn/probe.h"
#include "nn/weight_grads.h"

namespace mt {

int Step::tensor_ranks() const { return tensor != nullptr ? tensor->size() : 1; }

std::int64_t Step::rows() const {
  return shares_rows() ? tokens.count() / tensor->size() : tokens.count();
}

std::int64_t Step::first_row() const { return shares_rows() ? tensor->rank() * rows() : 0; }

Tensor Step::gradient(const Shape& shape, DType of) {
  return (weight_grads.deferring() ? deferred : layer).alloc(of, shape);
}

Tensor Step::kept(const void* saved, const Shape& shape, DType of) {
  if (!saved) return layer.alloc(of, shape);
  if (!again) return keep.alloc(of, shape);
  if (weight_grads.deferring()) return deferred.alloc(of, shape);
  return layer.alloc(of, shape, Arena::End::back);
}

void Step::show(const Param& module, const char* what, ConstTensor shown) const {
  if (probe != nullptr) probe->look(module, what, shown, stream);
}

Tensor Step::gradient_of(const Param& param) const {
  return weight_grads.gradient_of(param, stream);
}

void Step::complete(RowRange rows) const {
  if (sharing != nullptr && !weight_grads.deferring()) sharing->complete(rows, last);
}

}  // namespace mt
