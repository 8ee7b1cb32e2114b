// Distillation: a language model learns to say what another, its teacher, says of each token of
// what others wrote: the mean over all tokens of a global batch that are learnt.
#pragma once

#include <memory>
#include <vector>

#include "post/distillation/distill_options.h"
#include "post/packed_task.h"
#include "train/run/objective.h"

namespace mt {

// How far each token's probabilities are from the teacher's; beside it, weighed, the token's own
// loss, and how far hidden states are.
class DistillObjective final : public Objective {
 public:
  explicit DistillObjective(const DistillOptions& options);

  std::span<const Term> terms() const override { return terms_; }
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;

 private:
  LanguageModelling words_;
  std::vector<Term> terms_;
};

class Distillation final : public PackedTask {
 public:
  // Without data it can be planned.
  explicit Distillation(const DistillOptions& options, Data data = {});

  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  ParamTable rows() const override;
  std::unique_ptr<ModelSource> open_teacher() const override;
  double flops(std::int64_t samples) const override;
  const Objective& objective() const override { return objective_; }
  FieldSpecs sample_fields() const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  std::unique_ptr<Samples> make_samples(std::unique_ptr<PackedSamples> packed) const override {
    return packed;
  }

  DistillOptions options_;
  DistillObjective objective_;
};

// Reads the data of a run and completes its options, of which the data has the length.
std::unique_ptr<Distillation> open_distillation(DistillOptions& options, const Log& log);

}  // namespace mt
