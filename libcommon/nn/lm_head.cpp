#include "nn/lm_head.h"

#include <algorithm>

#include "ops/ops.h"

namespace mt {

static constexpr std::int64_t kRows =
    1024;  // logits at a time: 200 MB of f32 at a vocabulary of 50,000

void LmHead::loss(Step& s, Tensor loss, ConstTensor x, ConstTensor labels, ConstTensor row_weight,
                  Saved* saved) const {
  const std::int64_t tokens = x.shape()[0];
  if (saved) saved->dx = s.kept(saved, x.shape());
  const ArenaScope scope(s.layer);
  const Tensor buffer = s.scratch({std::min(tokens, kRows), vocab_size()});
  const ConstTensor w = s.weight(*weight_);
  for (std::int64_t begin = 0; begin < tokens; begin += kRows) {
    const std::int64_t end = std::min(tokens, begin + kRows);
    const Tensor logits = buffer.rows(0, end - begin);
    matmul({.out = logits, .a = x.rows(begin, end), .b = w, .transpose_b = true}, s.stream);
    cross_entropy(loss.rows(begin, end), logits, labels.rows(begin, end),
                  saved ? row_weight.rows(begin, end) : ConstTensor(),
                  s.training ? label_smoothing_ : 0, s.stream);
    if (!saved) continue;
    matmul({.out = saved->dx.rows(begin, end), .a = logits, .b = w}, s.stream);
    if (weight_->trainable)
      matmul({.out = weight_->grad,
              .a = logits,
              .b = x.rows(begin, end),
              .transpose_a = true,
              .accumulate = true},
             s.stream);
  }
  s.done(*weight_);
  s.show(*weight_, "input", x);
  s.show(*weight_, "loss", loss);
  if (saved) s.show(*weight_, "gradient of its input", saved->dx);
}

void LmHead::logits(Step& s, Tensor logits, ConstTensor x) const {
  const ConstTensor w = s.weight(*weight_).rows(0, logits.shape()[1]);
  matmul({.out = logits, .a = x, .b = w, .transpose_b = true}, s.stream);
  s.done(*weight_);
}

void LmHead::score(Step& s, Tensor loss, ConstTensor x, ConstTensor labels,
                   std::int64_t tokens) const {
  const std::int64_t rows = x.shape()[0];
  const ArenaScope scope(s.layer);
  const Tensor buffer = s.scratch({std::min(rows, kRows), tokens});
  for (std::int64_t begin = 0; begin < rows; begin += kRows) {
    const std::int64_t end = std::min(rows, begin + kRows);
    const Tensor part = buffer.rows(0, end - begin);
    logits(s, part, x.rows(begin, end));
    cross_entropy(loss.rows(begin, end), part, labels.rows(begin, end), {}, 0, s.stream);
  }
}

}  // namespace mt
