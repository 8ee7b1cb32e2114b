// OrqaTask: two towers learn to find passages that answer questions, from questions with passages
// that do and others that do not (DPR), as Megatron-LM's tasks/main.py --task RET-FINETUNE-NQ has
// it.
#pragma once

#include <memory>
#include <vector>

#include "data/samples/sample_sets.h"
#include "model/config/model_config.h"
#include "post/retrieval/dpr_samples.h"
#include "post/retrieval/retrieval_objective.h"
#include "train/run/task.h"

namespace mt {

// OrqaData: what is learnt, and the sets that are judged, each by the name of its file.
struct OrqaData {
  TokenizerOptions tokenizer_options = {};
  std::unique_ptr<Tokenizer> tokenizer = {};
  std::vector<DprQuestion> training = {};
  std::vector<std::pair<std::string, std::vector<DprQuestion>>> judged = {};
};

class OrqaTask final : public Task {
 public:
  struct Options {
    std::int64_t seq_length = 0, negatives = 0;
    std::int64_t judged_hard = 30, judged_others = 30;
    std::int64_t judged_together = 1;  // questions
    RetrievalObjective::Options objective;
  };
  // To be planned.
  OrqaTask(const ModelConfig& model, const Options& options)
      : model_(model), options_(options), objective_(options.objective) {}
  OrqaTask(const ModelConfig& model, const Options& options, std::unique_ptr<OrqaData> data)
      : model_(model), options_(options), objective_(options.objective), data_(std::move(data)) {}

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  const Objective& objective() const override { return objective_; }
  std::int64_t seq_length() const override { return options_.seq_length; }
  FieldSpecs sample_fields() const override;
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return *training_; }
  std::span<const std::unique_ptr<SampleSet>> evaluations(Split which) const override;
  bool has_full_validation() const override { return false; }
  std::int64_t steps_of_epoch() const override { return steps_; }
  std::vector<EpochReport> end_epoch(std::int64_t epoch,
                                     std::span<const SetScores> sets) const override;
  const Tokenizer& tokenizer() const override { return *data_->tokenizer; }
  const TokenizerOptions& tokenizer_options() const override { return data_->tokenizer_options; }
  void describe(DType dtype, PyValue& args) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  ModelConfig model_;
  Options options_;
  RetrievalObjective objective_;
  std::unique_ptr<OrqaData> data_;
  std::unique_ptr<SampleSet> training_;
  std::vector<std::unique_ptr<SampleSet>> judged_;
  std::int64_t steps_ = 1;
};

}  // namespace mt
