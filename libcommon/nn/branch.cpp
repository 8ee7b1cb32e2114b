#include "nn/branch.h"

#include <type_traits>

namespace mt {

ConstTensor Branch::first_weight() const {
  return std::visit([](const auto& module) { return module.first_weight(); }, module_);
}

void Branch::forward(Step& s, Tensor y, ConstTensor x, Saved* saved, ConstTensor ahead) const {
  const auto run = [&]<class M>(const M& module) {
    // Without backward the norm goes with the product that reads it.
    if (saved == nullptr) return module.forward(s, y, x, x, nullptr, &norm_, ahead);
    const Tensor normed = s.kept(recompute_norm_ ? nullptr : saved, x.shape());
    norm_.forward(s, normed, x, &saved->norm);
    module.forward(s, y, x, normed, &saved->module.template emplace<typename M::Saved>());
    saved->normed = recompute_norm_ ? Tensor() : normed;
  };
  std::visit(run, module_);
}

ConstTensor Branch::normed(Step& s, ConstTensor x, const Saved& saved) const {
  if (saved.normed) return saved.normed;
  const Tensor again = s.gradient(x.shape());
  norm_.forward(s, again, x, nullptr);
  return again;
}

void Branch::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const Tensor dn = s.scratch(dy.shape());
  const auto run = [&]<class M>(const M& module) {
    const ArenaScope of_module(s.layer);
    module.backward(s, dn, dy, normed(s, x, v), std::get<typename M::Saved>(v.module));
  };
  std::visit(run, module_);
  norm_.backward(s, dx, dn, x, v.norm, dy);
}

}  // namespace mt
