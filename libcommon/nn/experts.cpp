#include "nn/experts.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

// Where nothing is computed, all have as many tokens.
template <class Body>
void Experts::for_each(Step& s, const Route& route, const Body& body) const {
  const bool counts = route.ends.device() != Device::meta;
  if (counts) s.stream.synchronize();
  const std::int64_t rows = route.place.numel(), experts = std::ssize(experts_);
  for (std::int64_t e = 0, begin = 0; e < experts; ++e) {
    const std::int64_t end =
        counts ? ConstTensor(route.ends).as<std::int32_t>()[e] : rows * (e + 1) / experts;
    if (end > begin) body(experts_[static_cast<std::size_t>(e)], begin, end);
    begin = end;
  }
}

void Experts::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                      const Norm* norm, ConstTensor) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens.count(), rows = tokens * chosen_, width = x.shape()[1],
                     count = std::ssize(experts_);
  if (norm != nullptr) {
    const Tensor normed = s.scratch(x.shape());
    norm->forward(s, normed, x, nullptr);
    x = normed;
  }
  const Tensor logits = s.scratch({tokens, count});
  matmul({.out = logits, .a = x, .b = s.weight(*router_), .transpose_b = true}, s.stream);
  s.done(*router_);
  const Route route{.expert = s.kept(saved, {tokens, chosen_}, DType::i32),
                    .place = s.kept(saved, {tokens, chosen_}, DType::i32),
                    .ends = s.kept(saved, {count}, DType::i32),
                    .weight = s.kept(saved, {tokens, chosen_})};
  route_forward(route, logits, s.stream);
  const Tensor by_experts = s.kept(saved, {rows, width}), h = s.kept(saved, {rows, 2 * ffn()}),
               a = s.kept(saved, {rows, ffn()}), weighed = s.kept(saved, {rows, ffn()});
  spread_rows(by_experts, x, route, s.stream);
  for_each(s, route, [&](const Expert& expert, std::int64_t begin, std::int64_t end) {
    matmul({.out = a.rows(begin, end),
            .a = by_experts.rows(begin, end),
            .b = s.weight(*expert.fc1),
            .transpose_b = true,
            .then = Matmul::Then::swiglu,
            .at = h.rows(begin, end)},
           s.stream);
    s.done(*expert.fc1);
  });
  weigh_rows(weighed, a, route, s.stream);
  if (saved) *saved = {route, by_experts, h, a, weighed};
  if (!y) return;
  const Tensor out = s.scratch({rows, width}), sum = s.scratch({tokens, width});
  for_each(s, route, [&](const Expert& expert, std::int64_t begin, std::int64_t end) {
    matmul({.out = out.rows(begin, end),
            .a = weighed.rows(begin, end),
            .b = s.weight(*expert.fc2),
            .transpose_b = true},
           s.stream);
    s.done(*expert.fc2);
  });
  gather_rows(sum, out, route, s.stream);
  add_dropout(s, y, residual, sum, {},
              s.dropout(hidden_dropout_, layer_, Purpose::hidden_dropout2));
}

void Experts::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ConstTensor d_sum =
      dropped_gradient(s, dy, s.dropout(hidden_dropout_, layer_, Purpose::hidden_dropout2));
  const Tensor d_out = s.gradient(v.x.shape()), dh = s.gradient(v.h.shape()),
               d_weighed = s.scratch(v.a.shape()), da = s.scratch(v.a.shape()),
               d_by_experts = s.scratch(v.x.shape()), d_weight = s.scratch(v.route.weight.shape()),
               d_logits = s.gradient({s.tokens.count(), std::ssize(experts_)});
  spread_rows(d_out, d_sum, v.route, s.stream);
  for_each(s, v.route, [&](const Expert& expert, std::int64_t begin, std::int64_t end) {
    const Tensor dy_rows = d_out.rows(begin, end);
    matmul({.out = d_weighed.rows(begin, end), .a = dy_rows, .b = s.weight(*expert.fc2)}, s.stream);
    s.done(*expert.fc2);
    s.weight_grads.push({.weight = expert.fc2, .dy = dy_rows, .x = v.weighed.rows(begin, end)},
                        s.stream);
  });
  weigh_rows_backward(da, d_weight, d_weighed, v.a, v.route, s.stream);
  swiglu_backward(dh, da, v.h, s.stream);
  for_each(s, v.route, [&](const Expert& expert, std::int64_t begin, std::int64_t end) {
    const Tensor dh_rows = dh.rows(begin, end);
    matmul({.out = d_by_experts.rows(begin, end), .a = dh_rows, .b = s.weight(*expert.fc1)},
           s.stream);
    s.done(*expert.fc1);
    s.weight_grads.push({.weight = expert.fc1, .dy = dh_rows, .x = v.x.rows(begin, end)}, s.stream);
  });
  gather_rows(dx, d_by_experts, v.route, s.stream);
  route_backward(d_logits, d_weight, v.route, s.stream);
  matmul({.out = dx, .a = d_logits, .b = s.weight(*router_), .accumulate = true}, s.stream);
  s.done(*router_);
  s.weight_grads.push({.weight = router_, .dy = d_logits, .x = x}, s.stream);
}

}  // namespace mt
