// Pretraining: a model learns from token files: to continue them, or what was masked in them.
#pragma once

#include "data/samples/train_data.h"
#include "model/config/model_config.h"
#include "train/run/objective.h"
#include "train/run/task.h"

namespace mt {

struct PretrainOptions;

// What a model of this kind is pretrained to.
std::unique_ptr<const Objective> pretraining_objective(const ModelConfig& model,
                                                       const DataOptions& options);

class Pretraining : public Task {
 public:
  // To be planned.  The model is complete, or becomes so by changed().
  Pretraining(const ModelConfig& model, const DataOptions& options)
      : model_(model), options_(options), objective_(pretraining_objective(model, options)) {}
  Pretraining(const ModelConfig& model, const DataOptions& options, TrainData data)
      : model_(model),
        options_(options),
        data_(std::move(data)),
        objective_(pretraining_objective(model, options)) {}

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  const Objective& objective() const override { return *objective_; }
  std::int64_t seq_length() const override { return options_.seq_length; }
  FieldSpecs sample_fields() const override;
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return data_->training(); }
  std::span<const std::unique_ptr<SampleSet>> evaluations(Split which) const override {
    return data_->sets(which);
  }
  bool has_full_validation() const override { return options_.full_validation; }
  const Tokenizer& tokenizer() const override { return data_->tokenizer(); }
  const TokenizerOptions& tokenizer_options() const override { return data_->tokenizer_options(); }
  void describe(DType dtype, PyValue& args) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  ModelConfig model_;
  DataOptions options_;
  std::optional<TrainData> data_;
  std::unique_ptr<const Objective> objective_;
};

// Opens the data of a run and completes its options, of which the data has the vocabulary.
Pretraining open_pretraining(PretrainOptions& options);

}  // namespace mt
