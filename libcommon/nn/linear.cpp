#include "nn/linear.h"

#include <cassert>
#include <utility>

#include "nn/context_parallel.h"
#include "nn/fp8_layers.h"
#include "nn/packed_weight.h"
#include "nn/step.h"
#include "nn/tensor_parallel.h"
#include "nn/weight_grads.h"
#include "ops/latent.h"
#include "ops/ops.h"

namespace mt {

static Param bias_of(const Param& weight) {
  Param bias;
  bias.place = weight.place;
  bias.place.param = "bias";
  bias.shape = {weight.shape[0]};
  bias.layers = weight.layers;
  for (const Segment& segment : weight.segments)  // cut where the output is cut
    if (segment.dimension == 0) bias.segments.push_back(segment);
  return bias;
}

Linear::Linear(ParamTable& table, Param weight, bool bias, const Adapter::Options& adapter)
    : weight_(&table.add(std::move(weight))) {
  Param& row = table.rows()[weight_->index];
  row.gradient_replaced = true;
  row.reads_blocks = adapter.parts.empty();
  if (bias) bias_ = &table.add(bias_of(*weight_));
  if (!adapter.parts.empty()) adapter_.emplace(table, *weight_, adapter);
}

bool Linear::is_adapted(const Step& s) const {
  return adapter_ || (s.adapters != nullptr && s.adapters->adapt(*weight_));
}

bool Linear::is_narrow(const Step& s) const {
  return s.fp8 != nullptr && s.fp8->multiplies(*weight_);
}

ConstTensor Linear::bias(const Step& s) const {
  return bias_ != nullptr ? s.weight(*bias_) : ConstTensor();
}

void Linear::multiply(Step& s, Matmul problem, ConstTensor x, const Norm* norm,
                      const Tensor& sum) const {
  const ArenaScope scope(s.layer);
  problem.a = x;
  problem.rows_alone = s.rows_alone();
  const bool narrow = is_narrow(s);
  Adapter::Directions directions;
  if (!narrow) put_weight(s, problem, *weight_);
  if (adapter_) {
    directions = adapter_->directions(s, problem.b);
    problem.b = adapter_->scaled(s, problem.b, directions);
  }
  bool gathers = cut_by_outputs() && s.shares_rows();
  if (norm != nullptr)
    norm->put_before(s, problem, !gathers && !narrow && !is_adapted(s) && s.probe == nullptr);
  const ConstTensor read = problem.a;
  if (narrow && gathers && s.fp8->is_blockwise()) {  // before they are cast: blocks lie by columns
    const Tensor all = s.scratch({s.tokens.count(), x.shape()[1]});
    gather_rows(s, all, std::exchange(problem.a, all)).wait();
    gathers = false;
  }
  if (narrow)
    s.fp8->put_weight(s, problem, *weight_,
                      s.fp8->input(s, *weight_, problem.a, Fp8Layers::Wanted::codes));
  if (gathers) {
    const Tensor all = s.layer.alloc(problem.a.dtype(), {s.tokens.count(), x.shape()[1]});
    const ConstTensor part = std::exchange(problem.a, all);
    gather_and_multiply(s, problem, all, part);
  } else if (sum) {
    if (adapter_) adapter_->forward(s, problem.out, problem.a, directions, false);
    problem.accumulate = adapter_.has_value();
    multiply_and_sum(s, problem, sum);
  } else {
    matmul(problem, s.stream);
  }
  if (adapter_ && !sum) adapter_->forward(s, problem.out, problem.a, directions, true);
  if (s.adapters != nullptr) s.adapters->forward(s, *weight_, problem.out, problem.a);
  s.done(*weight_);
  s.show(*weight_, "input", read);
}

void Linear::forward(Step& s, Tensor y, ConstTensor x, const Norm* norm) const {
  multiply(s, {.out = y, .bias = bias(s)}, x, norm);
  s.show(*weight_, "output", y);
}

void Linear::forward_gelu(Step& s, Tensor y, Tensor at, ConstTensor x, const Norm* norm) const {
  if (is_adapted(s)) {
    forward(s, at, x, norm);
    return gelu_forward(y, at, GeluForm::tanh, s.stream);
  }
  multiply(s, {.out = y, .bias = bias(s), .then = Matmul::Then::gelu, .at = at}, x, norm);
  s.show(*weight_, "output", at);
}

void Linear::forward_swiglu(Step& s, Tensor y, Tensor at, ConstTensor x, const Norm* norm) const {
  if (is_adapted(s)) {
    forward(s, at, x, norm);
    return swiglu_forward(y, at, s.stream);
  }
  multiply(s, {.out = y, .bias = bias(s), .then = Matmul::Then::swiglu, .at = at}, x, norm);
  s.show(*weight_, "output", at);
}

void Linear::forward_add(Step& s, Tensor y, ConstTensor residual, ConstTensor x,
                         const Dropout& dropout, ConstTensor ahead) const {
  if (cut_by_inputs()) {
    const ArenaScope scope(s.layer);
    const Tensor sum = s.scratch(y.shape()), part = part_of_sum(s, sum);
    multiply(s, {.out = part}, x, nullptr, sum);
    add_dropout(s, y, residual, sum, bias(s), dropout);
  } else if (dropout.p == 0) {
    multiply(s, {.out = y, .bias = bias(s), .residual = residual, .ahead = ahead}, x);
  } else {
    const ArenaScope scope(s.layer);
    const Tensor out = s.scratch(y.shape());
    multiply(s, {.out = out}, x);
    add_dropout(s, y, residual, out, bias(s), dropout);
  }
  s.show(*weight_, "output", y);
}

void Linear::multiply_heads(Step& s, Tensor out, ConstTensor x,
                            const HeadProductShape& shape) const {
  const ArenaScope scope(s.layer);
  assert(bias_ == nullptr && !is_adapted(s));
  head_product(out, x, unpacked(s, *weight_), shape, s.stream);
  s.done(*weight_);
}

// Rows are on their way while the gradient of the input is computed, and that is summed while the
// weight's is.
void Linear::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                      const Tensor& gelu_at) const {
  const ArenaScope scope(s.layer);
  s.show(*weight_, "gradient of its output", dy);
  Pending gathered, summed;
  ConstTensor part;
  const auto all_of = [&](ConstTensor& rows) {  // where they are gathered
    const Tensor all = s.gradient({s.tokens.count(), rows.shape()[1]});
    part = std::exchange(rows, all);
    return all;
  };
  if (cut_by_outputs() && s.shares_rows() && (weight_->trainable || adapter_)) {
    const Tensor all = all_of(x);
    gathered = gather_rows(s, all, part);
  }
  const bool narrow = is_narrow(s);
  bool gathers = cut_by_inputs() && s.shares_rows();
  const Tensor all = gathers ? all_of(dy) : Tensor();
  const Tensor out = dx && cut_by_outputs() ? part_of_sum(s, dx) : dx;
  const bool narrow_weight = narrow && weight_->trainable && s.fp8->weight_gradients();
  Fp8Layers::Codes dy_codes;
  if (narrow && gathers) {  // all rows are there before any is cast
    gather_rows(s, all, part).wait();
    gathers = false;
  }
  if (narrow && (dx || narrow_weight))
    dy_codes =
        s.fp8->gradient(s, *weight_, dy, Fp8Layers::wanted(static_cast<bool>(dx), narrow_weight));
  ConstTensor weight;
  if (!narrow && (dx || adapter_)) weight = unpacked(s, *weight_);
  Adapter::Directions directions;
  if (adapter_) directions = adapter_->directions(s, weight);
  if (dx) {
    const bool fused = gelu_at && !adapter_;
    Matmul problem{.out = out,
                   .a = dy,
                   .b = adapter_ ? adapter_->scaled(s, weight, directions) : weight,
                   .then = fused ? Matmul::Then::gelu_gradient : Matmul::Then::store,
                   .at = fused ? gelu_at : Tensor()};
    if (narrow) s.fp8->put_transposed_weight(s, problem, *weight_, dy_codes);
    gathers ? gather_and_multiply(s, problem, all, part) : matmul(problem, s.stream);
    s.done(*weight_);
  } else if (gathers) {
    gathered = gather_rows(s, all, part);
  }
  if (adapter_) {
    gathered.wait();
    adapter_->backward(s, out, dy, x, directions);
    if (dx && gelu_at) gelu_backward(out, out, gelu_at, GeluForm::tanh, s.stream);
  }
  if (dx && cut_by_outputs()) summed = sum_parts(s, dx, out);
  gathered.wait();
  WeightGrad record{.weight = weight_, .bias = bias_, .dy = dy, .x = x};
  if (narrow_weight)
    Fp8Layers::put(record, dy_codes, s.fp8->input(s, *weight_, x, Fp8Layers::Wanted::transposed));
  s.weight_grads.push(record, s.stream);
  summed.wait();
  if (dx) s.show(*weight_, "gradient of its input", dx);
}

}  // namespace mt
