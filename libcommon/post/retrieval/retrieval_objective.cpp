#include "post/retrieval/retrieval_objective.h"

#include <algorithm>

#include "model/model.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

RetrievalObjective::RetrievalObjective(const Options& options)
    : seq_length_(options.seq_length),
      contexts_(options.contexts),
      width_(options.width),
      rules_{.factor = options.factor, .tops = {.count = static_cast<int>(options.tops.size())}} {
  std::ranges::copy(options.tops, rules_.tops.top);
  for (const std::int64_t top : options.tops)
    names_.push_back("top" + std::to_string(top) + "_acc");
  terms_.push_back({.name = "loss"});
  for (const std::string& name : names_) terms_.push_back({.name = name.c_str(), .weight = 0});
}

// Rows are of as many texts as there are contexts; those of queries are the first.
FieldSpecs RetrievalObjective::fields(const FieldSpecs&) const {
  return {{.field = Field::row_of, .per_sample = contexts_ * seq_length_},
          {.field = Field::rows, .per_sample = contexts_, .of_tokens = false},
          {.field = Field::weight, .dtype = DType::f32, .per_sample = 1, .of_tokens = false}};
}

double RetrievalObjective::count(std::size_t, const Fields& batch) const {
  double total = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for (const T mask : batch.span<T>(Field::loss_mask)) total += static_cast<double>(mask);
  });
  return total;
}

void RetrievalObjective::weigh(const Fields& batch, std::span<const double> each) const {
  const auto rows = batch.span<std::int32_t>(Field::rows),
             row_of = batch.span<std::int32_t>(Field::row_of);
  std::ranges::fill(row_of, -1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t token = i * static_cast<std::size_t>(seq_length_);
    rows[i] = static_cast<std::int32_t>(token);
    row_of[token] = static_cast<std::int32_t>(i);
  }
  with_float_type(batch[Field::weight].dtype(), [&]<class T>() {
    std::ranges::transform(batch.span<T>(Field::loss_mask), batch[Field::weight].as<T>(),
                           [&](T mask) { return mask * static_cast<T>(each[0]); });
  });
}

Ends RetrievalObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const std::int64_t queries = batch[Field::loss_mask].numel();
  Ends ends{.loss = keep.alloc(real, {queries}), .weight = batch[Field::weight]};
  if (rules_.tops.count > 0) ends.hits = keep.alloc(real, {rules_.tops.count * queries});
  if (width_ > 0) ends.logits = keep.alloc(real, {queries, scores()});
  ends.retrieval = &rules_;
  return ends;
}

void RetrievalObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                    const Fields& batch, Stream& stream) const {
  const std::int64_t queries = ends.loss.numel(), at = static_cast<std::int64_t>(term);
  dot(sum, term == 0 ? ends.loss : ends.hits.rows((at - 1) * queries, at * queries),
      batch[Field::loss_mask], stream);
}

void RetrievalObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
