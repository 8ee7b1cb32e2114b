#include "nn/linear.h"

#include "ops/ops.h"

namespace mt {

// The name of a weight's bias: "….weight" becomes "….bias".
static std::string bias_name(const std::string& weight) {
  return weight.substr(0, weight.rfind('.') + 1) + "bias";
}

static Param bias_of(const Param& weight) {
  Param bias;
  bias.name = bias_name(weight.name);
  bias.key = bias_name(weight.key);
  bias.shape = {weight.shape[0]};
  bias.layer = weight.layer;
  bias.layers = weight.layers;
  bias.stage = weight.stage;
  for (const Segment& segment : weight.segments)  // cut where the output is cut
    if (segment.dimension == 0) bias.segments.push_back(segment);
  return bias;
}

Linear::Linear(ParamTable& table, Param weight, Bias bias)
    : weight_(&table.add(std::move(weight))), bias_place_(bias) {
  if (bias == Bias::none) return;
  Param row = bias_of(*weight_);
  for (const ForeignName& name : weight_->foreign) {
    Transform of_rows;  // a bias has no second axis to transpose with
    for (const Rearrange& step : name.transform)
      if (step.kind != Rearrange::Kind::transpose) of_rows.push_back(step);
    row.foreign.push_back({name.format, bias_name(name.name), of_rows});
  }
  bias_ = &table.add(std::move(row));
}

void Linear::multiply(Step& s, Tensor y, ConstTensor x, const Tensor* gelu_at) const {
  matmul({.out = y,
          .a = x,
          .b = s.weight(*weight_),
          .transpose_b = true,
          .bias = bias_place_ == Bias::here ? bias(s) : ConstTensor(),
          .then = gelu_at ? Matmul::Then::gelu : Matmul::Then::store,
          .at = gelu_at ? *gelu_at : Tensor()},
         s.stream);
  s.done(*weight_);
  s.show(*weight_, "input", x);
  s.show(*weight_, "output", gelu_at ? *gelu_at : y);
}

void Linear::forward(Step& s, Tensor y, ConstTensor x) const { multiply(s, y, x, nullptr); }

void Linear::forward_gelu(Step& s, Tensor y, Tensor at, ConstTensor x) const {
  multiply(s, y, x, &at);
}

void Linear::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                      const Tensor& gelu_at) const {
  s.show(*weight_, "gradient of its output", dy);
  if (dx) {
    matmul({.out = dx,
            .a = dy,
            .b = s.weight(*weight_),
            .then = gelu_at ? Matmul::Then::gelu_gradient : Matmul::Then::store,
            .at = gelu_at},
           s.stream);
    s.done(*weight_);
    s.show(*weight_, "gradient of its input", dx);
  }
  s.weight_grads.push({.weight = weight_, .bias = bias_, .dy = dy, .x = x}, s.stream);
}

}  // namespace mt
