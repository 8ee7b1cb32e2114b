#include <algorithm>

#include "comm/group.h"
#include "nn/lm_head.h"
#include "nn/tensor_parallel.h"
#include "nn/weight_grads.h"
#include "ops/distill.h"
#include "ops/ops.h"

namespace mt {

// Gathers the rows of all tokens, of which ranks may have some each.
static ConstTensor all_rows(Step& s, ConstTensor own) {
  if (!s.shares_rows()) return own;
  const Tensor all = s.scratch({s.tokens.count(), own.shape()[1]});
  gather_rows(s, all, own).wait();
  return all;
}

// The first tensor of a buffer that has room for more rows: [a, rows] of [a, at least so many].
static Tensor with_rows(const Tensor& buffer, std::int64_t a, std::int64_t rows) {
  return buffer.rows(0, a * rows).reshape({a, rows});
}

void LmHead::distill(Step& s, Tensor loss, ConstTensor x, ConstTensor labels, ConstTensor weight,
                     const Teaching& teaching, Saved* saved) const {
  const std::int64_t tokens = s.tokens.count(), ranks = weight_->is_cut() ? s.tensor->size() : 1;
  if (saved) saved->dx = s.kept(saved, x.shape());
  const ArenaScope scope(s.layer);
  s.show(*weight_, "input", x);
  x = all_rows(s, x);
  const ConstTensor hidden = all_rows(s, teaching.hidden), read = multiplied(s, x);
  const Tensor dx = saved ? part_of_sum(s, saved->dx) : Tensor();
  const std::int64_t some = std::min(tokens, rows_at_once(s.dtype, x.shape()[1]));
  const Tensor buffer = s.scratch({some, columns()}), taught = s.scratch({some, columns()});
  const Tensor tanhs = scaling_.softcap != 0 ? s.scratch(buffer.shape()) : Tensor();
  const Tensor own = s.scratch_sums({kDistillSums * some}),
               all = s.scratch_sums({ranks * kDistillSums * some}),
               parts = s.scratch_sums({2 * some}), losses = s.scratch_sums({2 * some}),
               weights = s.scratch_sums({2 * some});
  for (std::int64_t begin = 0; begin < tokens; begin += some) {
    const std::int64_t end = std::min(tokens, begin + some), rows = end - begin;
    const ArenaScope of_rows(s.layer);
    teaching.head->own_logits(s, taught.rows(0, rows), hidden.rows(begin, end));
    const ConstTensor b = bias(s, columns()), w = s.weight(*weight_);
    const Tensor logits = buffer.rows(0, rows);
    matmul({.out = logits, .a = read.rows(begin, end), .b = w, .transpose_b = true, .bias = b},
           s.stream);
    const Tensor tanh = tanhs ? tanhs.rows(0, rows) : Tensor();
    if (tanh) cap(s, logits, tanh);
    DistillPart part{.logits = logits,
                     .taught = taught.rows(0, rows),
                     .labels = labels.rows(begin, end),
                     .first = weight_->is_cut() ? weight_->cuts[0].global : 0,
                     .vocab = vocab_size_,
                     .distance = teaching.distance};
    const Tensor sums = with_rows(own, kDistillSums, rows), share = with_rows(parts, 2, rows),
                 said = with_rows(losses, 2, rows), by = with_rows(weights, 2, rows);
    distill_sums(sums, part, s.stream);
    part.sums = sums.reshape({1, kDistillSums, rows});
    if (weight_->is_cut()) {
      const Tensor of_all =
          all.rows(0, ranks * kDistillSums * rows).reshape({ranks, kDistillSums, rows});
      s.tensor->all_gather(of_all, sums).wait();
      part.sums = of_all;
    }
    distill_parts(share, part, s.stream);
    if (weight_->is_cut()) s.tensor->all_reduce(share).wait();
    for (std::int64_t i = 0; saved && i < 2; ++i)
      copy(by.rows(i, i + 1).reshape({rows}), weight.rows(i * tokens + begin, i * tokens + end),
           s.stream);
    distill_gradient(said, saved ? by : Tensor(), share, part, s.stream);
    for (std::int64_t i = 0; i < 2; ++i)
      copy(loss.rows(i * tokens + begin, i * tokens + end), said.rows(i, i + 1).reshape({rows}),
           s.stream);
    if (!saved) continue;
    if (tanh) tanh_backward(logits, logits, tanh, s.stream);
    const Tensor d_rows = dx.rows(begin, end);
    matmul({.out = d_rows, .a = logits, .b = w}, s.stream);
    if (scaling_.multiplier != 1) scale(d_rows, d_rows, scaling_.multiplier, s.stream);
    s.weight_grads.accumulate(
        {.weight = weight_, .bias = bias_, .dy = logits, .x = read.rows(begin, end)}, s.stream);
  }
  s.done(*weight_);
  if (teaching.of_hidden != HiddenLoss::none) {
    const bool adds = saved && (s.tensor_ranks() == 1 || s.tensor->rank() == 0);
    hidden_loss(loss.rows(2 * tokens, 3 * tokens), adds ? dx : Tensor(), x, hidden,
                adds ? weight.rows(2 * tokens, 3 * tokens) : ConstTensor(), teaching.of_hidden,
                s.stream);
  }
  if (saved && weight_->is_cut()) sum_parts(s, saved->dx, dx).wait();
  s.show(*weight_, "loss", loss);
  if (saved) s.show(*weight_, "gradient of its input", saved->dx);
}

}  // namespace mt
