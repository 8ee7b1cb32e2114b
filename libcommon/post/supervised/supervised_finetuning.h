// SupervisedFinetuning: a language model learns what others wrote: the mean loss over all tokens of
// a global batch that are learnt, as in posttraining's L = sum of w_t (-lp_t) / sum of w_t.
#pragma once

#include <memory>
#include <optional>

#include "data/samples/sample_sets.h"
#include "post/data/packed_samples.h"
#include "post/supervised/sft_options.h"
#include "train/run/objective.h"
#include "train/run/task.h"

namespace mt {

class SupervisedFinetuning final : public Task {
 public:
  struct Data {
    FinetuneOptions::Words words;
    std::shared_ptr<const Packed> train, valid;  // valid: null where there is none
    std::int64_t epochs = 0;                     // 0: as many as the run is long
  };
  // To be planned.  The model is complete, or becomes so by changed().
  explicit SupervisedFinetuning(const SftOptions& options);
  SupervisedFinetuning(const SftOptions& options, Data data);

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  const Objective& objective() const override { return objective_; }
  std::int64_t seq_length() const override { return seq_length_; }
  FieldSpecs sample_fields() const override;
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return *sets_.front().front(); }
  std::span<const std::unique_ptr<SampleSet>> evaluations(Split which) const override {
    return sets_[static_cast<std::size_t>(which)];
  }
  bool has_full_validation() const override { return has_full_validation_; }
  const Tokenizer& tokenizer() const override { return *data_.words.tokenizer; }
  const TokenizerOptions& tokenizer_options() const override { return data_.words.options; }
  void describe(DType dtype, PyValue& args) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  ModelConfig model_;
  std::int64_t seq_length_;
  bool shuffle_, has_full_validation_;
  Data data_;
  LanguageModelling objective_;
  std::array<std::vector<std::unique_ptr<SampleSet>>, kSplits> sets_;
};

// Reads the data of a run and completes its options, of which the data has the length.
std::unique_ptr<SupervisedFinetuning> open_sft(SftOptions& options, const Log& log);

}  // namespace mt
