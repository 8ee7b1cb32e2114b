#include "nn/router_balance.h"

#include <utility>

#include "comm/group.h"
#include "nn/context_parallel.h"
#include "nn/expert_parallel.h"
#include "ops/expert_capacity.h"
#include "ops/ops.h"
#include "ops/quantile_balance.h"
#include "ops/router_losses.h"

namespace mt {

using Over = BalanceLoss::Over;

bool RouterBalance::is_on(const Step& s) { return s.experts != nullptr && s.experts->losses(); }

// Rows of a sequence that several ranks share lie one after another on the tensor-parallel ones.
static RouterGroups groups_of(const Step& s, Over over) {
  const bool whole = over != Over::sequences;
  return {.groups = whole ? 1 : s.tokens.sequences,
          .group_rows = whole ? s.tokens.count() : s.tokens.length,
          .first = s.first_row()};
}

// Where each of a group's N tokens goes to k of E experts, the balance is weighed by E / (k N^2),
// and its mean over groups counts; the squares count by their mean over tokens.
std::vector<RouterBalance::Part> RouterBalance::parts(const Step& s) const {
  std::vector<Part> all;
  const int context = s.context != nullptr ? s.context->size() : 1;
  std::int64_t line = 0;
  for (const BalanceLoss& loss : options_.losses) {
    RouterGroups of = groups_of(s, loss.over);
    of.sigmoid = options_.scores == RouterScores::sigmoid;
    of.sqrt_softplus = options_.scores == RouterScores::sqrt_softplus;
    const int data = loss.over == Over::global_batch ? s.data->size() : 1;
    const auto experts = static_cast<double>(options_.experts),
               chosen = static_cast<double>(options_.chosen),
               tokens = static_cast<double>(of.group_rows * context * data),
               groups = static_cast<double>(of.groups),
               rows = static_cast<double>(s.tokens.count() * context);
    const RouterFactors factors{.by_balance = experts / (chosen * tokens * tokens * groups),
                                .by_square = 1 / rows};
    all.push_back({loss, of, factors, line, line + of.groups});
    line += of.groups;
  }
  return all;
}

Tensor RouterBalance::sums_of_layer(const Step& s) const {
  const Tensor all = s.experts->losses()->sums;
  return all.rows(options_.layer, options_.layer + 1).reshape({all.shape()[1]});
}

// A forward that is repeated for its backward counts micro-batches for itself: they come in the
// same order.
void RouterBalance::sum_over_ranks(Step& s, Tensor counts) const {
  if (s.shares_rows()) s.tensor->all_reduce(counts).wait();
  if (s.context != nullptr) s.context->ranks().all_reduce(counts).wait();
  for (const Part& part : parts(s)) {
    if (part.loss.over != Over::global_batch) continue;
    const Tensor own = counts.rows(part.begin, part.end), so_far = s.experts->losses()->so_far;
    if (s.data->size() > 1) s.data->all_reduce(own).wait();
    const std::int64_t row = 2 * options_.layer + (s.again ? 1 : 0);
    mean_counts(own, so_far.rows(row, row + 1), s.stream);
  }
}

Tensor RouterBalance::forward(Step& s, ConstTensor logits, ConstTensor expert,
                              const void* saved) const {
  const std::vector<Part> all = parts(s);
  const Tensor counts = s.kept_sums(saved, {all.back().end, options_.experts});
  const ArenaScope scope(s.layer);
  for (const Part& part : all)
    count_experts(counts.rows(part.begin, part.end), expert, part.groups, s.stream);
  const Tensor own = s.layer.alloc(counts.dtype(), counts.shape());
  copy(own, counts, s.stream);
  sum_over_ranks(s, counts);
  if (s.again) return counts;
  const std::int64_t rows = logits.shape()[0], width = 2 + options_.experts;
  const Tensor balance = s.layer.alloc(DType::f64, {rows}),
               square = s.layer.alloc(DType::f64, {rows});
  Tensor sums = sums_of_layer(s);
  for (const Part& part : all) {
    router_losses(balance, square, logits, counts.rows(part.begin, part.end), part.groups,
                  s.stream);
    add_router_sums(sums.rows(0, width), balance, square, own.rows(part.begin, part.end),
                    part.factors, s.stream);
    sums = sums.rows(width, sums.numel());
  }
  return counts;
}

void RouterBalance::backward(Step& s, Tensor d_logits, ConstTensor logits,
                             ConstTensor counts) const {
  const RouterLosses& losses = *s.experts->losses();
  double z = options_.z;
  for (const Part& part : parts(s)) {
    const RouterFactors by{.by_balance = part.factors.by_balance * part.loss.weight,
                           .by_square = part.factors.by_square * std::exchange(z, 0)};
    if (by.by_balance != 0 || by.by_square != 0)
      router_losses_backward(d_logits, logits, counts.rows(part.begin, part.end), by, losses.scale,
                             losses.weight, part.groups, s.stream);
  }
}

void RouterBalance::add_drops(Step& s, ConstTensor kept) const {
  if (!is_on(s) || s.again) return;
  const Tensor sums = sums_of_layer(s);
  add_dropped(sums.rows(numbers().dropped(), numbers().dropped() + 1), kept, s.stream);
}

// Each of the ranks that share the tokens finds the same, and adds its share.
void RouterBalance::add_quantiles(Step& s, ConstTensor logits, ConstTensor beta) const {
  if (!is_on(s) || s.again) return;
  const ArenaScope scope(s.layer);
  int ranks = 1;
  const auto gather = [&](Group& over) {
    const Tensor all =
        s.layer.alloc(logits.dtype(), {logits.shape()[0] * over.size(), options_.experts});
    over.all_gather(all, logits).wait();
    logits = all;
    ranks *= over.size();
  };
  if (s.shares_rows()) gather(*s.tensor);
  if (s.context != nullptr) gather(s.context->ranks());
  const Tensor sums = sums_of_layer(s);
  const std::int64_t first = numbers().first_quantile();
  mt::add_quantiles(sums.rows(first, first + options_.experts), logits, beta, options_.chosen,
                    1.0 / ranks, s.stream);
}

}  // namespace mt
