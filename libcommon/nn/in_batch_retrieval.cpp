#include "nn/in_batch_retrieval.h"

#include "comm/group.h"
#include "ops/ops.h"
#include "ops/retrieval_loss.h"

namespace mt {

static std::int64_t ranks_of(const Step& s) { return s.data != nullptr ? s.data->size() : 1; }
static std::int64_t rank_of(const Step& s) { return s.data != nullptr ? s.data->rank() : 0; }

// This rank's part of what all have, `count` each.
static Tensor own_part(const Step& s, const Tensor& all, std::int64_t count) {
  return all.rows(rank_of(s) * count, (rank_of(s) + 1) * count);
}

static void gather(Step& s, const Tensor& all, ConstTensor own) {
  const ArenaScope scope(s.layer);
  if (ranks_of(s) == 1) return copy(all, own, s.stream);
  const Tensor here = s.scratch_sums(own.shape());
  copy(here, own, s.stream);
  s.data->all_gather(all, here).wait();
}

void InBatchRetrieval::forward(Step& s, const Out& out, ConstTensor queries, ConstTensor contexts,
                               const RetrievalRules& rules, Saved* saved) {
  const ArenaScope scope(s.layer);
  const std::int64_t own = queries.shape()[0], width = queries.shape()[1], n = own * ranks_of(s);
  const std::int64_t m = contexts.shape()[0] * ranks_of(s);
  const Tensor all_queries = s.kept_sums(saved, {n, width}),
               all_contexts = s.kept_sums(saved, {m, width}), scores = s.kept_sums(saved, {n, m});
  gather(s, all_queries, queries);
  gather(s, all_contexts, contexts);
  matmul({.out = scores, .a = all_queries, .b = all_contexts, .transpose_b = true}, s.stream);
  if (rules.factor != 1) scale(scores, scores, rules.factor, s.stream);
  Tensor weight;
  if (saved) {
    weight = s.scratch_sums({n});
    gather(s, weight, out.weight);
  }
  const Tensor losses = s.scratch_sums({n});
  const std::int64_t tops = rules.tops.count;
  const Tensor hits = tops > 0 ? s.scratch_sums({tops, n}) : Tensor();
  retrieval_loss(losses, hits, scores, weight, rules.tops, s.stream);
  copy(out.loss, own_part(s, losses, own), s.stream);
  for (std::int64_t k = 0; k < tops; ++k)
    copy(out.hits.rows(k * own, (k + 1) * own),
         own_part(s, hits.reshape({tops * n}).rows(k * n, (k + 1) * n), own), s.stream);
  if (!saved) return;
  if (rules.factor != 1) scale(scores, scores, rules.factor, s.stream);
  *saved = {.queries = all_queries, .contexts = all_contexts, .gradient = scores};
}

void InBatchRetrieval::backward(Step& s, Tensor d_queries, Tensor d_contexts, const Saved& v) {
  const ArenaScope scope(s.layer);
  const std::int64_t own = d_queries.shape()[0];
  const Tensor of_queries = s.scratch_sums(d_queries.shape()),
               of_contexts = s.scratch_sums(v.contexts.shape());
  matmul({.out = of_queries, .a = own_part(s, v.gradient, own), .b = v.contexts}, s.stream);
  matmul({.out = of_contexts, .a = v.gradient, .b = v.queries, .transpose_a = true}, s.stream);
  copy(d_queries, of_queries, s.stream);
  copy(d_contexts, own_part(s, of_contexts, d_contexts.shape()[0]), s.stream);
}

}  // namespace mt
