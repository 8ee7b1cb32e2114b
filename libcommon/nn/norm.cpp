#include "nn/norm.h"

#include "nn/step.h"
#include "ops/ops.h"

namespace mt {

Norm::Norm(ParamTable& table, Param weight, const Options& options) : options_(options) {
  if (!options.has_weight) return;
  weight.init = {options.zero_centered ? Initializer::Kind::zeros : Initializer::Kind::ones};
  weight_ = &table.add(std::move(weight));
  if (options.kind == NormKind::rms || !options.has_bias) return;
  Param bias = *weight_;
  bias.place.param = weight_->place.param == "weight" ? "bias" : "layer_norm_bias";
  bias.init = {};
  bias_ = &table.add(std::move(bias));
}

// What rows are multiplied by, in `layer` if it is not the weight itself.
ConstTensor Norm::scale(Step& s, const Shape& columns) const {
  if (weight_ != nullptr && !options_.zero_centered) return s.weight(*weight_);
  const Tensor sum = s.scratch(columns);
  fill(sum, 1, s.stream);
  if (weight_ != nullptr) add(sum, sum, s.weight(*weight_), s.stream);
  return sum;
}

// What is added to a LayerNorm's rows, in `layer` if there is no bias.
ConstTensor Norm::shift(Step& s, const Shape& columns) const {
  if (bias_ != nullptr) return s.weight(*bias_);
  const Tensor none = s.scratch(columns);
  set_zero(none, s.stream);
  return none;
}

void Norm::done(Step& s) const {
  if (weight_ != nullptr) s.done(*weight_);
}

void Norm::forward(Step& s, Tensor y, ConstTensor x, Saved* saved) const {
  const ArenaScope scope(s.layer);
  const Tensor rstd = s.kept_sums(saved, {x.shape()[0]});
  const Shape columns{x.shape()[1]};
  const ConstTensor w = scale(s, columns);
  Tensor mean;
  if (options_.kind == NormKind::rms) {
    rms_norm_forward(y, rstd, x, w, options_.eps, s.stream);
  } else {
    mean = s.kept_sums(saved, {x.shape()[0]});
    layer_norm_forward(y, mean, rstd, x, w, shift(s, columns), options_.eps, s.stream);
    if (bias_ != nullptr) s.done(*bias_);
  }
  done(s);
  if (weight_ != nullptr) {
    s.show(*weight_, "input", x);
    s.show(*weight_, "output", y);
  }
  if (saved) *saved = {mean, rstd};
}

RowNorm Norm::row_norm(const Step& s) const {
  return {.weight = s.weight(*weight_),
          .bias = bias_ != nullptr ? s.weight(*bias_) : ConstTensor(),
          .eps = options_.eps,
          .offset = options_.zero_centered ? 1.0 : 0.0,
          .centred = options_.kind == NormKind::layer};
}

void Norm::put_before(Step& s, Matmul& product, bool along) const {
  if (along && weight_ != nullptr && takes_norm(product)) {
    product.norm = row_norm(s);
    return;
  }
  const Tensor normed = s.scratch(product.a.shape());
  forward(s, normed, product.a, nullptr);
  product.a = normed;
}

// Where a gradient is added: that of none, or of a frozen parameter, is thrown away, and is of the
// type that the other one's gradient has.
Tensor Norm::gradient_of(Step& s, const Param* param, const Shape& columns) const {
  if (param != nullptr && param->trainable) return s.gradient_of(*param);
  for (const Param* const other : {weight_, bias_})
    if (other != nullptr && other->trainable) return s.layer.alloc(other->grad.dtype(), columns);
  return s.layer.alloc(sum_dtype(s.dtype), columns);
}

void Norm::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v,
                    ConstTensor residual) const {
  const ArenaScope scope(s.layer);
  const Shape columns{x.shape()[1]};
  const ConstTensor w = scale(s, columns);
  const Tensor dw = gradient_of(s, weight_, columns);
  if (options_.kind == NormKind::rms)
    rms_norm_backward(dx, dw, residual, dy, x, v.rstd, w, s.stream);
  else
    layer_norm_backward(dx, dw, gradient_of(s, bias_, columns), residual, dy, x, v.mean, v.rstd, w,
                        s.stream);
  done(s);
  if (weight_ != nullptr) s.show(*weight_, "gradient of its input", dx);
}

}  // namespace mt
