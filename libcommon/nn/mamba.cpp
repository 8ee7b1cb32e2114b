#include "nn/mamba.h"

#include <array>
#include <optional>

#include "nn/context_parallel.h"
#include "nn/head_exchange.h"
#include "nn/kv_cache.h"
#include "ops/mamba.h"
#include "ops/ops.h"

namespace mt {

// HeadsHere: the heads whose convolution and scan are this rank's, over whole sequences: all, or,
// of ranks that share sequences, a part of them (kernels/head_shares.h).  Memory is the layer
// arena's, until the caller rewinds it.
class HeadsHere {
 public:
  HeadsHere(Step& s, const MambaShape& whole) : s_(s), of_{.whole = whole} {
    first_key_ = s.tokens.first_key;
    if (s.context == nullptr) return;
    of_.ranks = s.context->size();
    rank_ = s.context->rank();
    exchange_.emplace(s, s.context->ranks());
    first_key_ = exchange_->all(s.tokens.first_key);
  }
  bool are_all() const { return !exchange_; }
  MambaShape shape() const { return are_all() ? of_.whole : of_.part(); }
  ConstTensor first_key() const { return first_key_; }

  // What the layer's first matrix makes: of own tokens -> of these heads.
  ConstTensor projected(ConstTensor own) {
    if (are_all()) return own;
    const Tensor shares = s_.scratch({own.shape()[0], of_.ranks * of_.part().projected()});
    split_heads(shares, own, of_, s_.stream);
    return exchange_->to_heads(shares);
  }
  // Room for a gradient of that, and the way back, which leaves that of z as it is.
  Tensor room_for_projected(Tensor own) {
    return are_all() ? own : s_.scratch({shape().tokens(), shape().projected()});
  }
  void add_up(Tensor d_own, ConstTensor d_here) {
    if (are_all()) return;
    const Tensor shares = s_.scratch({d_own.shape()[0], of_.ranks * of_.part().projected()});
    exchange_->to_tokens(shares, d_here);
    merge_heads(d_own, shares, of_, s_.stream);
  }

  // Channels of heads: [own tokens, of all heads] -> [all tokens, of these].
  ConstTensor channels(ConstTensor own) { return are_all() ? own : exchange_->to_heads(own); }
  Tensor room_for_channels(Tensor own) { return are_all() ? own : exchange_->room(own); }
  void to_tokens(Tensor own, ConstTensor here) {
    if (!are_all()) exchange_->to_tokens(own, here);
  }

  // Rows of a parameter of heads.
  template <class AnyTensor>
  AnyTensor heads(const AnyTensor& of_all) const {
    const std::int64_t count = shape().heads;
    return of_all.rows(rank_ * count, (rank_ + 1) * count);
  }
  // body(rows of a parameter of mixed channels, rows of these heads' part of it) for x, B and C.
  template <class Body>
  void for_mixed(const Body& body) const {
    const MambaShape &all = of_.whole, here = shape();
    const std::int64_t group = of_.first_group(rank_) * all.state_dim;
    body(rank_ * here.inner(), std::int64_t{0}, here.inner());
    body(all.b_of_mixed() + group, here.b_of_mixed(), here.states());
    body(all.c_of_mixed() + group, here.c_of_mixed(), here.states());
  }
  ConstTensor mixed(ConstTensor of_all) const {
    if (are_all()) return of_all;
    const Tensor part = s_.layer.alloc(of_all.dtype(), part_shape(of_all.shape()));
    for_mixed([&](std::int64_t from, std::int64_t to, std::int64_t rows) {
      copy(part.rows(to, to + rows), of_all.rows(from, from + rows), s_.stream);
    });
    return part;
  }
  // Zeros that a gradient of such a part is added to, and the way to that of all.
  Tensor room_for_mixed(Tensor of_all) const {
    if (are_all()) return of_all;
    const Tensor part = s_.layer.alloc(of_all.dtype(), part_shape(of_all.shape()));
    set_zero(part, s_.stream);
    return part;
  }
  void add_mixed(Tensor of_all, ConstTensor part) const {
    if (are_all()) return;
    for_mixed([&](std::int64_t to, std::int64_t from, std::int64_t rows) {
      const Tensor sum = of_all.rows(to, to + rows);
      add(sum, sum, part.rows(from, from + rows), s_.stream);
    });
  }

 private:
  Shape part_shape(const Shape& of_all) const {
    return Shape(of_all.extents().subspan(1)).with_front(shape().mixed());
  }

  Step& s_;
  HeadShares of_;
  std::int64_t rank_ = 0;
  std::optional<HeadExchange> exchange_;
  ConstTensor first_key_;  // of whole sequences, or empty
};

MambaShape Mamba::shape(const Step& s) const {
  MambaShape shape = options_.shape;
  shape.sequences = s.tokens.sequences;
  shape.length = s.tokens.length;
  return shape;
}

Dropout Mamba::hidden_dropout(const Step& s) const {
  return s.dropout(options_.hidden_dropout, options_.layer, Purpose::hidden_dropout1);
}

// What the sequences have in a cache, which is the convolution's or the scan's.
static SequencePast past_in(const Step& s, const Tensor& cache) {
  return {.cache = cache,
          .positions = s.tokens.positions,
          .slots = s.past.slots,
          .slot = s.past.slot.value_or(0)};
}

// Returns the rows of `mixed`, which are in `layer`.
Tensor Mamba::convolve(Step& s, const HeadsHere& here, ConstTensor seen,
                       const SequencePast& past) const {
  const Tensor mixed = s.scratch({seen.shape()[0], here.shape().mixed()});
  causal_conv_forward(mixed, seen, here.mixed(s.weight(*params_.conv_weight)),
                      here.mixed(s.weight(*params_.conv_bias)), here.first_key(), past,
                      here.shape(), s.stream);
  return mixed;
}

void Mamba::convolve_backward(Step& s, const HeadsHere& here, Tensor d_seen, ConstTensor d_mixed,
                              ConstTensor seen) const {
  const Tensor of_weight = gradient_of(s, *params_.conv_weight),
               of_bias = gradient_of(s, *params_.conv_bias),
               d_weight = here.room_for_mixed(of_weight), d_bias = here.room_for_mixed(of_bias);
  causal_conv_backward(
      d_seen, d_weight, d_bias, d_mixed, seen, here.mixed(s.weight(*params_.conv_weight)),
      here.mixed(s.weight(*params_.conv_bias)), here.first_key(), here.shape(), s.stream);
  here.add_mixed(of_weight, d_weight);
  here.add_mixed(of_bias, d_bias);
}

void Mamba::gate(Step& s, Tensor normed, Tensor rstd, ConstTensor y, ConstTensor projected) const {
  gated_norm_forward(normed, rstd, y, projected, s.weight(*params_.norm), options_.norm_epsilon,
                     shape(s), s.stream);
}

static std::array<const Param*, 6> all(const Mamba::Params& p) {
  return {p.conv_weight, p.conv_bias, p.dt_bias, p.a_log, p.d, p.norm};
}

// Where a gradient is added: a frozen parameter's is thrown away, and is of the type that the
// others' gradients have.
Tensor Mamba::gradient_of(Step& s, const Param& param) const {
  if (param.trainable) return s.gradient_of(param);
  DType dtype = sum_dtype(s.dtype);
  for (const Param* const other : all(params_))
    if (other->trainable) dtype = other->grad.dtype();
  return s.layer.alloc(dtype, param.local);
}

static ScanParams scan_params(const Step& s, const HeadsHere& here, const Mamba::Params& p) {
  return {here.heads(s.weight(*p.dt_bias)), here.heads(s.weight(*p.a_log)),
          here.heads(s.weight(*p.d))};
}

void Mamba::forward(Step& s, Tensor out, ConstTensor residual, ConstTensor x, Saved* saved,
                    const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens.count();
  const MambaShape& of = options_.shape;
  const Saved made{.projected = s.kept(saved, {tokens, of.projected()}),
                   .y = s.kept(saved, {tokens, of.inner()}),
                   .rstd = s.kept_sums(saved, {tokens, of.groups})};
  in_.forward(s, made.projected, x, norm);
  SequencePast of_conv, of_scan;
  if (s.past.cache != nullptr) {
    of_conv = past_in(s, s.past.cache->convolved(options_.layer));
    of_scan = past_in(s, s.past.cache->states(options_.layer));
    of_scan.ahead = out_.weight();
  }
  HeadsHere here(s, shape(s));
  const ConstTensor seen = here.projected(made.projected);
  const Tensor mixed = convolve(s, here, seen, of_conv), y = here.room_for_channels(made.y);
  chunk_scan_forward(y, mixed, seen, scan_params(s, here, params_), here.first_key(), of_scan,
                     here.shape(), s.stream);
  here.to_tokens(made.y, y);
  const Tensor normed = s.scratch(made.y.shape());
  gate(s, normed, made.rstd, made.y, made.projected);
  for (const Param* const param : all(params_)) s.done(*param);
  if (saved) *saved = made;
  if (out) out_.forward_add(s, out, residual, normed, hidden_dropout(s), ahead);
}

void Mamba::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ConstTensor dout = dropped_gradient(s, dy, hidden_dropout(s));
  const MambaShape of = shape(s);
  const Tensor normed = s.gradient(v.y.shape()), d_projected = s.gradient(v.projected.shape()),
               d_normed = s.scratch(v.y.shape()), d_y = s.scratch(v.y.shape());
  gate(s, normed, v.rstd, v.y, v.projected);
  out_.backward(s, d_normed, dout, normed);
  gated_norm_backward(d_y, d_projected, gradient_of(s, *params_.norm), d_normed, v.y, v.projected,
                      v.rstd, s.weight(*params_.norm), of, s.stream);
  HeadsHere here(s, of);
  const ConstTensor seen = here.projected(v.projected), d_channels = here.channels(d_y);
  const Tensor mixed = convolve(s, here, seen, {}), d_mixed = s.scratch(mixed.shape()),
               d_seen = here.room_for_projected(d_projected);
  chunk_scan_backward(d_mixed, d_seen,
                      {.dt_bias = here.heads(gradient_of(s, *params_.dt_bias)),
                       .a_log = here.heads(gradient_of(s, *params_.a_log)),
                       .d = here.heads(gradient_of(s, *params_.d))},
                      d_channels, mixed, seen, scan_params(s, here, params_), here.first_key(),
                      here.shape(), s.stream);
  convolve_backward(s, here, d_seen, d_mixed, seen);
  here.add_up(d_projected, d_seen);
  for (const Param* const param : all(params_)) s.done(*param);
  in_.backward(s, dx, d_projected, x);
}

}  // namespace mt
