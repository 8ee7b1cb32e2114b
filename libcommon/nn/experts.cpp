#include "nn/experts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/group.h"
#include "nn/context_parallel.h"
#include "nn/expert_choices.h"
#include "nn/expert_parallel.h"
#include "nn/kv_cache.h"
#include "nn/packed_weight.h"
#include "nn/weight_grads.h"
#include "ops/expert_capacity.h"
#include "ops/given_experts.h"
#include "ops/ops.h"
#include "ops/quantile_balance.h"
#include "ops/sinkhorn.h"

namespace mt {

// Whether the host need not know how many rows an expert has: all products are made by kernels that
// read it.
bool Experts::counts_on_device(const Step& s) const {
  const auto is_even = [](const ConstTensor& x) {
    return reinterpret_cast<std::uintptr_t>(x.data()) % 16 == 0;
  };
  return s.sharing == nullptr && !s.rows_alone() && !has_biases() &&
         (s.experts == nullptr || !s.experts->is_shared()) &&
         counts_groups(s.stream.device(), s.dtype, std::ssize(experts_),
                       {width(), made(), ffn()}) &&
         std::ranges::all_of(experts_, [&](const Expert& e) {
           return e.fc1->packed_as == PackedAs::none && e.fc2->packed_as == PackedAs::none &&
                  is_even(e.fc1->value) && is_even(e.fc2->value) && is_even(e.fc1->grad) &&
                  is_even(e.fc2->grad);
         });
}

template <class Body>
void Experts::for_each(const TokenDispatch::Saved& arrived, const Body& body) const {
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    if (arrived.on_device()) {
      const Matmul::OfGroup group{arrived.counted, static_cast<std::int64_t>(e)};
      body(experts_[e], 0, arrived.rows(), group);
      continue;
    }
    const std::int64_t end = arrived.ends[e];
    body(experts_[e], begin, end, Matmul::OfGroup());
    begin = end;
  }
}

// --- Room of experts ----------------------------------------------------------------------------

// Returns the experts that tokens go to, with -1 for one that has no room for a token.
ConstTensor Experts::with_room(Step& s, ConstTensor expert, ConstTensor p) const {
  if (options_.capacity_factor == 0) return expert;
  const std::int64_t experts = router_.experts();
  const double share = static_cast<double>(expert.numel()) / static_cast<double>(experts);
  const Tensor kept = s.layer.alloc(DType::i32, expert.shape());
  keep_tokens(kept, expert, options_.keeps_first ? ConstTensor() : p, experts,
              static_cast<std::int64_t>(std::ceil(share * options_.capacity_factor)), s.stream);
  balance_.add_drops(s, kept);
  return kept;
}

// --- Forward and backward -----------------------------------------------------------------------

static ConstTensor value_of(Step& s, const Param* param) {
  return param != nullptr ? s.weight(*param) : ConstTensor();
}

Jitter Experts::jitter_of(const Step& s) const {
  return {s.dropout(options_.jitter, options_.layer, Purpose::router_jitter)};
}

// Weighs experts that are there by the router's scores of them.
void Experts::weigh(Step& s, Tensor p, const Saved& v) const {
  RouterRules rules = options_.rules;
  rules.given = true;
  choose_experts(v.expert, p, v.logits, {}, rules, s.stream);
}

void Experts::choose_imposed(Step& s, Tensor p, const Saved& v) const {
  s.choices->put(s, options_.layer, v.expert);
  weigh(s, p, v);
  if (options_.quantiles == nullptr) return;
  balance_.add_quantiles(s, v.logits, s.weight(*options_.quantiles));  // by which others choose
  s.done(*options_.quantiles);
}

// Tokens whose text says nothing go where they have been sent.
void Experts::take_imposed(Step& s, Tensor p, const Saved& v) const {
  const std::int64_t chosen = options_.rules.chosen;
  if (!s.imposed) return;
  const std::int64_t width = s.imposed.numel() / s.tokens.count();
  if (options_.layer * chosen >= width) return;  // behind the layers that a generation has
  take_experts(v.expert, s.imposed.reshape({s.tokens.sequences, width, s.tokens.length}),
               options_.layer * chosen, s.first_row(), s.stream);
  weigh(s, p, v);
}

// Beside what the layer's attention keeps of the tokens, in the same pages.
void Experts::keep_in_cache(const Step& s, ConstTensor expert) const {
  if (s.past.cache == nullptr) return;
  const Tensor& kept = s.past.cache->choices(options_.layer);
  if (kept.numel() > 0) keep_experts(kept, expert, s.tokens.positions, s.past.pages, s.stream);
}

void Experts::choose_by_quantiles(Step& s, Tensor p, const Saved& v) const {
  const Tensor keys = s.scratch_sums(v.logits.shape());
  quantile_keys(keys, v.logits, s.weight(*options_.quantiles), s.stream);
  RouterRules rules = options_.rules;
  rules.keys_given = true;
  choose_experts(v.expert, p, v.logits, keys, rules, s.stream);
  balance_.add_quantiles(s, v.logits, s.weight(*options_.quantiles));
  s.done(*options_.quantiles);
}

void Experts::choose(Step& s, Tensor p, const Saved& v) const {
  if (s.choices != nullptr && s.choices->imposes()) return choose_imposed(s, p, v);
  if (options_.quantiles != nullptr) return choose_by_quantiles(s, p, v);
  if (!options_.sinkhorn || !s.training)
    return choose_experts(v.expert, p, v.logits, value_of(s, options_.bias), options_.rules,
                          s.stream);
  const Tensor keys = s.scratch_sums(v.logits.shape());
  sinkhorn(keys, s.scratch_sums({keys.shape()[0] + 2 * keys.shape()[1]}), v.logits, s.stream);
  RouterRules rules = options_.rules;
  rules.keys_given = true;
  choose_experts(v.expert, p, v.logits, keys, rules, s.stream);
}

// v.h = W_1 x + b_1 of each row's expert, and, where swiglu comes in the same pass, v.a.
void Experts::multiply_first(Step& s, const Saved& v) const {
  std::vector<Matmul> products;
  for_each(v.arrived, [&](const Expert& expert, std::int64_t begin, std::int64_t end,
                          const Matmul::OfGroup& group) {
    if (begin == end && s.rows_alone()) return static_cast<void>(s.weight(*expert.fc1));
    Matmul& problem = products.emplace_back(Matmul{.out = v.h.rows(begin, end),
                                                   .a = v.x.rows(begin, end),
                                                   .bias = value_of(s, expert.fc1_bias),
                                                   .rows_vary = true,
                                                   .rows_alone = s.rows_alone(),
                                                   .group = group});
    put_weight(s, problem, *expert.fc1);
    if (!fuses_swiglu()) return;
    problem.at = std::exchange(problem.out, v.a.rows(begin, end));
    problem.then = Matmul::Then::swiglu;
  });
  grouped_matmul(products, s.stream);
  for (const Expert& expert : experts_) s.done(*expert.fc1);
}

void Experts::activate(Step& s, const Saved& v) const {
  if (weighs_gates()) return weighted_swiglu_forward(v.weighed, v.h, v.weight, s.stream);
  if (options_.clamped)
    clamped_forward(v.a, v.h, *options_.clamped, s.stream);
  else if (!fuses_swiglu())
    activation_forward(v.a, v.h, options_.activation, s.stream);
  if (!has_biases()) scale_rows(v.weighed, v.a, v.weight, s.stream);
}

// out = W_2 x + b_2 of each row's expert.
void Experts::multiply_second(Step& s, Tensor out, ConstTensor x, const Saved& v) const {
  std::vector<Matmul> products;
  for_each(v.arrived, [&](const Expert& expert, std::int64_t begin, std::int64_t end,
                          const Matmul::OfGroup& group) {
    if (begin == end && s.rows_alone()) return static_cast<void>(s.weight(*expert.fc2));
    Matmul& problem = products.emplace_back(Matmul{.out = out.rows(begin, end),
                                                   .a = x.rows(begin, end),
                                                   .bias = value_of(s, expert.fc2_bias),
                                                   .rows_vary = true,
                                                   .rows_alone = s.rows_alone(),
                                                   .group = group});
    put_weight(s, problem, *expert.fc2);
  });
  grouped_matmul(products, s.stream);
  for (const Expert& expert : experts_) s.done(*expert.fc2);
}

void Experts::multiply_back(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v,
                            const Param* Expert::*weight, const Param* Expert::*bias) const {
  std::vector<Matmul> products;
  std::vector<WeightGrad> gradients;
  for_each(v.arrived, [&](const Expert& expert, std::int64_t begin, std::int64_t end,
                          const Matmul::OfGroup& group) {
    products.push_back({.out = dx.rows(begin, end),
                        .a = dy.rows(begin, end),
                        .b = s.weight(*(expert.*weight)),
                        .rows_vary = true,
                        .group = group});
    gradients.push_back({.weight = expert.*weight,
                         .bias = expert.*bias,
                         .dy = dy.rows(begin, end),
                         .x = x.rows(begin, end),
                         .rows_vary = true,
                         .group = group});
  });
  grouped_matmul(products, s.stream);
  for (const Expert& expert : experts_) s.done(*(expert.*weight));
  s.weight_grads.push(gradients, s.stream);
}

ConstTensor Experts::read(Step& s, ConstTensor x) const {
  if (!options_.latents) return x;
  const Tensor latent = s.scratch({x.shape()[0], width()});
  options_.latents->down.forward(s, latent, x);
  return latent;
}

Tensor Experts::add_up(Step& s, Saved& v, const Saved* saved, bool wanted) const {
  const std::int64_t tokens = s.rows();
  const Tensor out = s.scratch({v.arrived.room, width()}).rows(0, v.arrived.rows()),
               sum = options_.latents ? s.kept(saved, {tokens, width()})
                                      : s.scratch({tokens, width()});
  if (has_biases())
    scale_rows(out, v.weighed, v.weight, s.stream);
  else
    multiply_second(s, out, v.weighed, v);
  dispatch_.back(s, sum, out, v.arrived);
  // Ranks of a generation each have a part of every expert, and all tokens.
  if (s.experts == nullptr && s.tensor_ranks() > 1) s.tensor->all_reduce(sum).wait();
  if (!options_.latents) return sum;
  v.summed = sum;
  if (!wanted) return {};
  const Tensor y = s.scratch({tokens, router_.weight().shape[1]});
  options_.latents->up.forward(s, y, sum);
  return y;
}

// Values that are on their way are waited for in one queue alone.
bool Experts::goes_aside(const Step& s) const {
  return options_.shared && s.stream.has_aside() && s.sharing == nullptr && s.probe == nullptr;
}

void Experts::aside(Step& s, const std::function<void()>& work) const {
  struct Hold {  // until the work is queued, or has thrown
    explicit Hold(Arena& of) : arena(of), before(of.hold(true)) {}
    Hold(const Hold&) = delete;
    ~Hold() { arena.hold(before); }
    Arena& arena;
    bool before;
  };
  const Hold hold(s.layer);
  s.stream.aside(work);
}

void Experts::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                      const Norm* norm, ConstTensor) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.rows(), chosen = options_.rules.chosen;
  if (norm != nullptr) {
    const Tensor normed = s.scratch(x.shape());
    norm->forward(s, normed, x, nullptr);
    x = normed;
  }
  Saved v;
  const auto begin_shared = [&] {
    v.shared = options_.shared->begin(s, x, saved ? &v.shared : nullptr);
  };
  const bool beside = goes_aside(s);
  if (beside) aside(s, begin_shared);
  v.logits = s.kept(saved, {tokens, router_.experts()}, router_.dtype(s));
  v.expert = s.kept(saved, {tokens, chosen}, DType::i32);
  ConstTensor routed = x;
  if (varies(s)) {
    const Tensor varied = s.scratch(x.shape());
    jitter(varied, x, jitter_of(s), s.stream);
    routed = varied;
  }
  router_.forward(s, v.logits, routed);
  const Tensor p = s.scratch_sums({tokens, chosen});
  choose(s, p, v);
  take_imposed(s, p, v);
  keep_in_cache(s, v.expert);
  if (s.choices != nullptr && !s.again) s.choices->keep(s, options_.layer, v.expert);
  if (RouterBalance::is_on(s)) v.counts = balance_.forward(s, v.logits, v.expert, saved);
  v.arrived = dispatch_.plan(s, with_room(s, v.expert, p), saved, counts_on_device(s));
  const std::int64_t rows = v.arrived.rows(), room = v.arrived.room;
  v.x = s.kept(saved, {room, width()}).rows(0, rows);
  v.weight = s.kept_sums(saved, {room}).rows(0, rows);
  v.h = s.kept(saved, {room, made()}).rows(0, rows);
  Saved* const made = options_.recompute_activation ? nullptr : saved;
  if (!weighs_gates()) v.a = s.kept(made, {room, ffn()}).rows(0, rows);
  v.weighed = has_biases() ? s.kept(saved, {room, width()}).rows(0, rows)
                           : s.kept(made, {room, ffn()}).rows(0, rows);
  dispatch_.there(s, v.x, read(s, x), v.arrived);
  dispatch_.numbers_there(s, v.weight, p, v.arrived);
  multiply_first(s, v);
  activate(s, v);
  if (has_biases()) multiply_second(s, v.weighed, v.a, v);
  const bool wanted = static_cast<bool>(y);
  Tensor sum;
  if (wanted || options_.latents) sum = add_up(s, v, saved, wanted);
  if (beside)
    s.stream.join();
  else if (options_.shared)
    begin_shared();
  if (saved) *saved = v;
  if (!wanted) return;
  Tensor all = sum;
  if (options_.shared) {
    all = s.scratch(sum.shape());
    options_.shared->end(s, all, sum, v.shared);
  }
  add_dropout(s, y, residual, all, {},
              s.dropout(options_.hidden_dropout, options_.layer, Purpose::hidden_dropout2));
}

Experts::Saved Experts::made_again(Step& s, const Saved& saved) const {
  Saved v = saved;
  const Shape shape{v.arrived.room, ffn()};
  const auto rows = [&](const Tensor& all) { return all.rows(0, v.arrived.rows()); };
  if (!weighs_gates()) v.a = rows(has_biases() ? s.gradient(shape) : s.scratch(shape));
  if (!has_biases()) v.weighed = rows(s.gradient(shape));
  activate(s, v);
  return v;
}

void Experts::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                       const Saved& saved) const {
  const ArenaScope scope(s.layer);
  const Saved v = options_.recompute_activation ? made_again(s, saved) : saved;
  if (!v.arrived.on_device()) s.stream.note_host_read();
  const ConstTensor d_sum = dropped_gradient(
      s, dy, s.dropout(options_.hidden_dropout, options_.layer, Purpose::hidden_dropout2));
  const std::int64_t rows = v.arrived.rows(), room = v.arrived.room, tokens = d_sum.shape()[0];
  const Tensor d_out = s.gradient({room, width()}).rows(0, rows),
               dh = s.gradient({room, made()}).rows(0, rows),
               d_logits = s.gradient(v.logits.shape(), v.logits.dtype()),
               da = s.scratch({room, ffn()}).rows(0, rows),
               d_x = s.scratch({room, width()}).rows(0, rows),
               d_weight = s.scratch_sums({room}).rows(0, rows),
               dp = s.scratch_sums(v.expert.shape()),
               of_shared = options_.shared ? s.scratch(dx.shape()) : Tensor();
  const auto back_through_shared = [&] {
    options_.shared->backward(s, of_shared, d_sum, x, v.shared);
  };
  const bool beside = goes_aside(s);
  if (beside) aside(s, back_through_shared);
  ConstTensor d_made = d_sum;
  if (options_.latents) {
    const Tensor d_latent = s.scratch({tokens, width()});
    options_.latents->up.backward(s, d_latent, d_sum, v.summed);
    d_made = d_latent;
  }
  dispatch_.there(s, d_out, d_made, v.arrived);
  const bool behind = has_biases();  // p multiplies what the second product makes
  if (behind) {
    row_dots(d_weight, d_out, v.weighed, s.stream);
    scale_rows(d_out, d_out, v.weight, s.stream);
  }
  multiply_back(s, da, d_out, behind ? v.a : v.weighed, v, &Expert::fc2, &Expert::fc2_bias);
  if (!behind && !weighs_gates()) {
    row_dots(d_weight, da, v.a, s.stream);
    scale_rows(da, da, v.weight, s.stream);
  }
  if (weighs_gates())
    weighted_swiglu_backward(dh, d_weight, da, v.h, v.weight, s.stream);
  else if (options_.clamped)
    clamped_backward(dh, da, v.h, *options_.clamped, s.stream);
  else
    activation_backward(dh, da, v.h, options_.activation, s.stream);
  multiply_back(s, d_x, dh, v.x, v, &Expert::fc1, &Expert::fc1_bias);
  const Tensor d_read = options_.latents ? s.gradient({tokens, width()}) : dx;
  dispatch_.back(s, d_read, d_x, v.arrived);
  if (options_.latents) options_.latents->down.backward(s, dx, d_read, x);
  dispatch_.numbers_back(s, dp, d_weight, v.arrived);
  choose_experts_backward(d_logits, dp, v.logits, v.expert, options_.rules, s.stream);
  if (v.counts) balance_.backward(s, d_logits, v.logits, v.counts);
  if (varies(s)) {
    const Tensor varied = s.gradient(x.shape()), d_varied = s.scratch(dx.shape());
    jitter(varied, x, jitter_of(s), s.stream);
    router_.backward(s, d_varied, d_logits, varied, false);
    jitter(d_varied, d_varied, jitter_of(s), s.stream);
    add(dx, dx, d_varied, s.stream);
  } else {
    router_.backward(s, dx, d_logits, x, true);
  }
  if (!options_.shared) return;
  if (beside)
    s.stream.join();
  else
    back_through_shared();
  add(dx, dx, of_shared, s.stream);
}

}  // namespace mt
