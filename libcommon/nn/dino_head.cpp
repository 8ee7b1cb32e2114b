#include "nn/dino_head.h"

#include <cmath>

#include "ops/ops.h"

namespace mt {

// A row of length 1 is one whose root mean square is that of numbers that all are 1 / sqrt(width).
static Tensor unit_scale(Step& s, std::int64_t width) {
  const Tensor scale = s.scratch({width});
  fill(scale, 1 / std::sqrt(static_cast<double>(width)), s.stream);
  return scale;
}

static constexpr double kNoLength = 1e-26;  // a square of it that divides nothing

static void to_unit(Step& s, Tensor unit, Tensor length, ConstTensor x) {
  rms_norm_forward(unit, length, x, unit_scale(s, x.shape()[1]), kNoLength, s.stream);
}

static void to_unit_backward(Step& s, Tensor dx, ConstTensor d_unit, ConstTensor x,
                             ConstTensor length) {
  const ArenaScope scope(s.layer);
  const std::int64_t width = x.shape()[1];
  const Tensor of_scale = s.scratch_sums({width});  // which is no parameter
  set_zero(of_scale, s.stream);
  rms_norm_backward(dx, of_scale, {}, d_unit, x, length, unit_scale(s, width), s.stream);
}

DinoHead::Last DinoHead::last(Step& s) const {
  const Shape shape = directions_->shape;
  const std::int64_t outputs = shape[0];
  const Last made{.unit = s.scratch(shape),
                  .length = s.scratch_sums({outputs}),
                  .lengths = s.scratch_sums({outputs}),
                  .weight = s.scratch(shape)};
  to_unit(s, made.unit, made.length, s.weight(*directions_));
  s.done(*directions_);
  copy(made.lengths, s.weight(*lengths_).reshape({outputs}), s.stream);
  s.done(*lengths_);
  scale_rows(made.weight, made.unit, made.lengths, s.stream);
  return made;
}

void DinoHead::forward(Step& s, Tensor logits, ConstTensor x, ConstTensor last_learns,
                       Saved* saved) const {
  const std::int64_t rows = x.shape()[0];
  const Shape wide{rows, first_.out_features()}, narrow{rows, directions_->shape[1]};
  const Tensor h1 = s.kept(saved, wide), a1 = s.kept(saved, wide), h2 = s.kept(saved, wide),
               a2 = s.kept(saved, wide), z = s.kept(saved, narrow), unit = s.kept(saved, narrow),
               length = s.kept_sums(saved, {rows});
  first_.forward(s, h1, x);
  gelu_forward(a1, h1, GeluForm::erf, s.stream);
  second_.forward(s, h2, a1);
  gelu_forward(a2, h2, GeluForm::erf, s.stream);
  third_.forward(s, z, a2);
  const ArenaScope scope(s.layer);
  to_unit(s, unit, length, z);
  matmul({.out = logits, .a = unit, .b = last(s).weight, .transpose_b = true}, s.stream);
  if (saved)
    *saved = {.x = x,
              .last_learns = last_learns,
              .h1 = h1,
              .a1 = a1,
              .h2 = h2,
              .a2 = a2,
              .z = z,
              .unit = unit,
              .length = length,
              .logits = logits};
}

void DinoHead::backward(Step& s, Tensor dx, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const std::int64_t outputs = directions_->shape[0];
  const Tensor dz = s.gradient(v.z.shape()), d_unit = s.scratch(v.z.shape());
  {
    const ArenaScope of_last(s.layer);
    const Last made = last(s);
    matmul({.out = d_unit, .a = v.logits, .b = made.weight}, s.stream);
    const Tensor learnt = s.scratch(v.unit.shape()), d_weight = s.scratch(directions_->shape),
                 d_directions = s.scratch(directions_->shape),
                 d_lengths = s.scratch_sums({outputs});
    scale_rows(learnt, v.unit, v.last_learns, s.stream);
    matmul({.out = d_weight, .a = v.logits, .b = learnt, .transpose_a = true}, s.stream);
    if (lengths_->trainable) {
      row_dots(d_lengths, d_weight, made.unit, s.stream);
      const Tensor sum = s.gradient_of(*lengths_).reshape({outputs});
      add(sum, sum, d_lengths, s.stream);
    }
    scale_rows(d_weight, d_weight, made.lengths, s.stream);
    to_unit_backward(s, d_directions, d_weight, s.weight(*directions_), made.length);
    s.done(*directions_);
    const Tensor sum = s.gradient_of(*directions_);
    add(sum, sum, d_directions, s.stream);
  }
  to_unit_backward(s, dz, d_unit, v.z, v.length);
  const Tensor d_a2 = s.scratch(v.a2.shape()), d_h2 = s.gradient(v.h2.shape()),
               d_a1 = s.scratch(v.a1.shape()), d_h1 = s.gradient(v.h1.shape());
  third_.backward(s, d_a2, dz, v.a2);
  gelu_backward(d_h2, d_a2, v.h2, GeluForm::erf, s.stream);
  second_.backward(s, d_a1, d_h2, v.a1);
  gelu_backward(d_h1, d_a1, v.h1, GeluForm::erf, s.stream);
  first_.backward(s, dx, d_h1, v.x);
}

}  // namespace mt
