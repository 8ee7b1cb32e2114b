// RetrievalObjective: the mean over all queries of how badly each finds its own context among those
// of a batch, the micro-batches of all data-parallel ranks; and, beside it, how many of a hundred
// find it among their k nearest.
#pragma once

#include <string>
#include <vector>

#include "nn/in_batch_retrieval.h"
#include "train/run/objective.h"

namespace mt {

class RetrievalObjective final : public Objective {
 public:
  struct Options {
    std::int64_t seq_length = 0, contexts = 1;  // contexts: of each query
    double factor = 1;                          // of the scores
    std::vector<std::int64_t> tops = {};        // each k; at most kMostTops
    std::int64_t width = 0;  // of the vectors that an evaluation collects; 0: it collects none
  };
  explicit RetrievalObjective(const Options& options);

  std::span<const Term> terms() const override { return terms_; }
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;
  bool spans_ranks() const override { return true; }
  // The vectors of a query and of its contexts.
  std::int64_t scores() const override { return width_ == 0 ? 0 : (1 + contexts_) * width_; }

 private:
  std::int64_t seq_length_, contexts_, width_;
  RetrievalRules rules_;
  std::vector<std::string> names_;
  std::vector<Term> terms_;
};

}  // namespace mt
