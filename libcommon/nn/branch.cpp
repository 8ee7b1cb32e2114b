#include "nn/branch.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

ConstTensor Branch::first_weight() const {
  return std::visit([](const auto& module) { return module.first_weight(); }, module_);
}

Dropout Branch::dropout(const Step& s) const {
  return s.dropout(behind_.dropout, behind_.layer, behind_.purpose);
}

// y may be x.  Numbers are drawn for a sample's sequences as for the tokens of one.
void Branch::drop_path(Step& s, Tensor y, ConstTensor x) const {
  const ArenaScope scope(s.layer);
  const std::int64_t sequences = s.tokens.sequences,
                     second = behind_.purpose == Purpose::hidden_dropout2;
  Dropout drops = s.dropout(behind_.drop_path, 2 * behind_.layer + second, Purpose::drop_path);
  drops.seq_length = s.tokens.of_sample;
  const Tensor factor = s.scratch_sums({sequences, 1});
  fill(factor, 1, s.stream);
  bias_dropout_add(factor, {}, factor, {}, drops, s.stream);
  const Shape whole{sequences, x.numel() / sequences};
  scale_rows(y.reshape(whole), x.reshape(whole), factor.reshape({sequences}), s.stream);
}

// y = residual + f(norm(x)); residual may be empty.
void Branch::run(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                 ConstTensor ahead) const {
  const auto forward = [&]<class M>(const M& module) {
    // Without backward the norm goes with the product that reads it.
    if (saved == nullptr && !behind_.to_normed)
      return module.forward(s, y, residual, x, nullptr, norm_ ? &*norm_ : nullptr, ahead);
    ConstTensor read = x;
    if (norm_) {
      const Tensor normed = s.kept(recompute_norm_ ? nullptr : saved, x.shape());
      norm_->forward(s, normed, x, saved ? &saved->norm : nullptr);
      if (saved) saved->normed = recompute_norm_ ? Tensor() : normed;
      read = normed;
    }
    module.forward(s, y, behind_.to_normed ? read : residual, read,
                   saved ? &saved->module.template emplace<typename M::Saved>() : nullptr);
  };
  std::visit(forward, module_);
}

void Branch::forward(Step& s, Tensor y, ConstTensor x, Saved* saved, ConstTensor ahead) const {
  if (!behind_.is_anything()) return run(s, y, x, x, saved, ahead);
  const ArenaScope scope(s.layer);
  const bool keeps = saved != nullptr && (behind_.norm || behind_.lambda);
  const Tensor made = y || keeps ? s.kept(keeps ? saved : nullptr, x.shape()) : Tensor();
  run(s, made, {}, x, saved, ahead);
  if (keeps) saved->made = made;
  if (!made) return;
  Tensor added = made;
  if (behind_.norm) {
    added = s.scratch(x.shape());
    behind_.norm->forward(s, added, made, saved ? &saved->post : nullptr);
  }
  if (!y) return;
  if (behind_.lambda) {
    if (keeps) added = s.scratch(x.shape());
    scale_columns(added, made, s.weight(*behind_.lambda), s.stream);
    s.done(*behind_.lambda);
  }
  if (behind_.multiplier != 1) scale(added, added, behind_.multiplier, s.stream);
  if (behind_.drop_path > 0 && s.training) drop_path(s, added, added);
  add_dropout(s, y, x, added, {}, dropout(s));
}

ConstTensor Branch::normed(Step& s, ConstTensor x, const Saved& saved) const {
  if (!norm_) return x;
  if (saved.normed) return saved.normed;
  const Tensor again = s.gradient(x.shape());
  norm_->forward(s, again, x, nullptr);
  return again;
}

// dx may be dy.
void Branch::lambda_backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x) const {
  const Param& lambda = *behind_.lambda;
  if (lambda.trainable) {
    const Tensor product = s.scratch(dy.shape());
    multiply(product, dy, x, s.stream);
    column_sum(s.gradient_of(lambda), product, s.stream);
  }
  scale_columns(dx, dy, s.weight(lambda), s.stream);
  s.done(lambda);
}

// The gradient of what the module makes.
Tensor Branch::gradient_behind(Step& s, ConstTensor dy, const Saved& v) const {
  const Tensor made = s.gradient(dy.shape());
  const ArenaScope scope(s.layer);
  ConstTensor added = dropped_gradient(s, dy, dropout(s));
  const auto becomes = [&](const auto& change) {
    const Tensor changed = behind_.norm ? s.scratch(dy.shape()) : made;
    change(changed);
    added = changed;
  };
  if (behind_.drop_path > 0) becomes([&](Tensor to) { drop_path(s, to, added); });
  if (behind_.multiplier != 1)
    becomes([&](Tensor to) { scale(to, added, behind_.multiplier, s.stream); });
  if (behind_.norm) behind_.norm->backward(s, made, added, v.made, v.post);
  if (behind_.lambda) lambda_backward(s, made, added, v.made);
  return made;
}

void Branch::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const Tensor dn = s.scratch(dy.shape());
  const ConstTensor of_module = behind_.is_anything() ? gradient_behind(s, dy, v) : dy;
  const auto run = [&]<class M>(const M& module) {
    const ArenaScope of_its_own(s.layer);
    module.backward(s, dn, of_module, normed(s, x, v), std::get<typename M::Saved>(v.module));
  };
  std::visit(run, module_);
  if (behind_.to_normed) {
    add(dn, dn, dy, s.stream);
    return norm_->backward(s, dx, dn, x, v.norm);
  }
  if (norm_)
    norm_->backward(s, dx, dn, x, v.norm, dy);
  else
    add(dx, dn, dy, s.stream);
}

}  // namespace mt
