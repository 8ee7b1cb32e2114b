#include "nn/lm_head.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "comm/group.h"
#include "kernels/gemm.h"
#include "nn/packed_weight.h"
#include "nn/tensor_parallel.h"
#include "nn/weight_grads.h"
#include "ops/latent.h"
#include "ops/ops.h"
#include "ops/top_word.h"

namespace mt {

// Rows of logits at a time.  1024: 200 MB of f32 at a vocabulary of 50,000.  What computes in 16
// bits is larger and has more memory: there as many as keep every multiprocessor busy with their
// gradient, which has few columns in narrow models; and the weight's gradient is read and written
// more seldom.
std::int64_t LmHead::rows_at_once(DType dtype, std::int64_t hidden_size) {
  constexpr std::uint64_t kBusy = 4096 * 2048;  // elements
  if (size_of(dtype) != 2) return 1024;
  const auto rows = std::bit_ceil(kBusy / static_cast<std::uint64_t>(hidden_size));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(rows), 4096, 16384);
}

// b, or that of the first tokens; empty where there is none.  A copy: W may be of another unit, and
// ranks that share values then have one of the two at a time (ParamSharing::use).
Tensor LmHead::bias(Step& s, std::int64_t tokens) const {
  if (bias_ == nullptr) return {};
  const Tensor b = s.scratch({tokens});
  copy(b, s.weight(*bias_).rows(0, tokens), s.stream);
  s.done(*bias_);
  return b;
}

// softcap tanh(l / softcap) / T is the cap of l / T by softcap / T.
LmHead LmHead::at(double temperature) const {
  LmHead head = *this;
  head.scaling_.multiplier /= temperature;
  head.scaling_.softcap /= temperature;
  return head;
}

// m x, of which logits are made in training; or x where m is 1.
ConstTensor LmHead::multiplied(Step& s, ConstTensor x) const {
  if (scaling_.multiplier == 1) return x;
  const Tensor scaled = s.scratch(x.shape());
  scale(scaled, x, scaling_.multiplier, s.stream);
  return scaled;
}

// Caps logits; tanh, which may be logits, becomes what the gradient needs.
void LmHead::cap(Step& s, Tensor logits, Tensor tanh) const {
  scale(logits, logits, 1 / scaling_.softcap, s.stream);
  tanh_forward(tanh, logits, s.stream);
  scale(logits, tanh, scaling_.softcap, s.stream);
}

void LmHead::find_hits(Step& s, Tensor hits, ConstTensor logits, ConstTensor labels) const {
  const ArenaScope scope(s.layer);
  const std::int64_t rows = logits.shape()[0];
  const Tensor own = s.scratch_sums({2, rows});
  top_words(own, logits, weight_->is_cut() ? weight_->cuts[0].global : 0, vocab_size_, s.stream);
  if (!weight_->is_cut()) return top_word_hits(hits, own.reshape({1, 2, rows}), labels, s.stream);
  const Tensor all = s.scratch_sums({s.tensor->size(), 2, rows});
  s.tensor->all_gather(all, own).wait();
  top_word_hits(hits, all, labels, s.stream);
}

// Makes the losses of some rows; with weights their logits become the gradient.
void LmHead::losses_of(Step& s, Tensor loss, Tensor logits, ConstTensor labels,
                       ConstTensor row_weight) const {
  const double smoothing = s.training ? label_smoothing_ : 0;
  if (!weight_->is_cut())
    return cross_entropy(loss, logits, labels, row_weight, vocab_size_, smoothing, s.stream);
  const ArenaScope scope(s.layer);
  const std::int64_t rows = logits.shape()[0], first = weight_->cuts[0].global;
  const Tensor own = s.scratch_sums({4, rows}), all = s.scratch_sums({s.tensor->size(), 4, rows});
  cross_entropy_sums(own, logits, labels, first, vocab_size_, s.stream);
  s.tensor->all_gather(all, own).wait();
  cross_entropy_part({.loss = loss,
                      .logits = logits,
                      .labels = labels,
                      .sums = all,
                      .row_weight = row_weight,
                      .first = first,
                      .vocab = vocab_size_,
                      .smoothing = smoothing},
                     s.stream);
}

void LmHead::loss(Step& s, Tensor loss, ConstTensor x, ConstTensor labels, ConstTensor row_weight,
                  Saved* saved, Tensor hits) const {
  const std::int64_t tokens = s.tokens.count();
  if (saved) saved->dx = s.kept(saved, x.shape());
  const ArenaScope scope(s.layer);
  s.show(*weight_, "input", x);
  if (s.shares_rows()) {
    const Tensor all = s.scratch({tokens, x.shape()[1]});
    gather_rows(s, all, x).wait();
    x = all;
  }
  x = multiplied(s, x);
  const Tensor dx = saved ? part_of_sum(s, saved->dx) : Tensor();
  const std::int64_t some = std::min(tokens, rows_at_once(s.dtype, x.shape()[1]));
  const Tensor buffer = s.scratch({some, columns()});
  const Tensor tanhs = scaling_.softcap != 0 ? s.scratch(buffer.shape()) : Tensor();
  if (saved != nullptr && bias_ != nullptr && scaling_.multiplier != 1)
    fail(Exit::bad_config,
         "--temperature: a model whose output layer has a bias learns at a temperature of 1 alone");
  const Tensor b = bias(s, columns());
  if (b && scaling_.multiplier != 1) scale(b, b, scaling_.multiplier, s.stream);
  Matmul product{.out = buffer, .bias = b, .rows_alone = s.rows_alone()};
  put_weight(s, product, *weight_);
  Pending summed;
  for (std::int64_t begin = 0; begin < tokens; begin += some) {
    const std::int64_t end = std::min(tokens, begin + some);
    const Tensor logits = product.out = buffer.rows(0, end - begin);
    product.a = x.rows(begin, end);
    matmul(product, s.stream);
    const Tensor tanh = tanhs ? tanhs.rows(0, end - begin) : Tensor();
    if (tanh) cap(s, logits, tanh);
    if (hits) find_hits(s, hits.rows(begin, end), logits, labels.rows(begin, end));
    losses_of(s, loss.rows(begin, end), logits, labels.rows(begin, end),
              saved ? row_weight.rows(begin, end) : ConstTensor());
    if (!saved) continue;
    if (tanh) tanh_backward(logits, logits, tanh, s.stream);
    matmul({.out = dx.rows(begin, end), .a = logits, .b = product.b}, s.stream);
    if (weight_->is_cut() && end == tokens) summed = sum_parts(s, saved->dx, dx);
    s.weight_grads.accumulate(
        {.weight = weight_, .bias = bias_, .dy = logits, .x = x.rows(begin, end)}, s.stream);
  }
  summed.wait();
  if (saved && scaling_.multiplier != 1) scale(saved->dx, saved->dx, scaling_.multiplier, s.stream);
  s.done(*weight_);
  s.show(*weight_, "loss", loss);
  if (saved) s.show(*weight_, "gradient of its input", saved->dx);
}

// all: the first columns of what the ranks have, one rank's behind the other's.
static void gather_columns(Step& s, Tensor all, ConstTensor own) {
  const std::int64_t ranks = s.tensor->size(), rows = own.shape()[0], columns = own.shape()[1];
  const Tensor parts = s.layer.alloc(own.dtype(), {ranks, rows, columns});
  s.tensor->all_gather(parts, own).wait();
  if (all.shape()[1] == ranks * columns) return swap_axes(all, parts, ranks, rows, s.stream);
  const Tensor padded = s.layer.alloc(own.dtype(), {rows, ranks * columns});
  swap_axes(padded, parts, ranks, rows, s.stream);
  split_columns(all, {}, padded, s.stream);
}

void LmHead::logits(Step& s, Tensor logits, ConstTensor x, const Norm* norm) const {
  if (!weight_->is_cut()) return own_logits(s, logits, x, norm);
  const ArenaScope scope(s.layer);
  const Tensor own = s.layer.alloc(logits.dtype(), {logits.shape()[0], columns()});
  own_logits(s, own, x, norm);
  gather_columns(s, logits, own);
}

void LmHead::own_logits(Step& s, Tensor logits, ConstTensor x, const Norm* norm) const {
  const ArenaScope scope(s.layer);
  const ConstTensor b = bias(s, logits.shape()[1]);
  Matmul product{.out = logits, .a = x, .bias = b, .rows_alone = s.rows_alone()};
  put_weight(s, product, *weight_, logits.shape()[1]);
  if (norm != nullptr) norm->put_before(s, product);
  matmul(product, s.stream);
  if (scaling_.multiplier != 1) scale(logits, logits, scaling_.multiplier, s.stream);
  if (scaling_.softcap != 0) cap(s, logits, logits);
  s.done(*weight_);
}

void LmHead::score(Step& s, Tensor loss, ConstTensor x, ConstTensor labels,
                   std::int64_t tokens) const {
  const std::int64_t rows = x.shape()[0];
  const ArenaScope scope(s.layer);
  const std::int64_t some =
      std::min(rows, rows_at_once(s.dtype, x.shape()[1]) / kRowTile * kRowTile);
  const Tensor buffer = s.scratch({some, tokens});
  for (std::int64_t begin = 0; begin < rows; begin += some) {
    const std::int64_t end = std::min(rows, begin + some);
    const Tensor part = buffer.rows(0, end - begin);
    logits(s, part, x.rows(begin, end));
    cross_entropy(loss.rows(begin, end), part, labels.rows(begin, end), {}, tokens, 0, s.stream);
  }
}

}  // namespace mt
