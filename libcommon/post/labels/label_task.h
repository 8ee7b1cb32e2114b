// LabelTask: a model learns to tell the labels of texts, or which of some choices is right: its
// scores come from the head of a task, which it has in place of what it was pretrained with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/samples/sample_sets.h"
#include "model/config/model_config.h"
#include "post/labels/epoch_order.h"
#include "post/labels/labelled_samples.h"
#include "text/tokenizer.h"
#include "train/run/label_objective.h"
#include "train/run/task.h"

namespace mt {

// LabelData: what a task learns from and is evaluated on.
struct LabelData {
  TokenizerOptions tokenizer_options;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<LabelledSamples> training = {}, validation = {};  // if there are
  std::vector<std::unique_ptr<LabelledSamples>> tests = {};         // the parts of the validation
};

class LabelTask final : public Task {
 public:
  struct Options {
    SequenceOptions sequences;
    double head_lr_mult = 1;  // of the head's learning rate
    bool keep_last = false;   // EpochOptions's
    std::string predictions;  // a file of JSON lines, of each epoch; "-": stdout; "": none
  };
  // To be planned.
  LabelTask(const ModelConfig& model, const Options& options)
      : model_(model),
        options_(options),
        objective_(options.sequences.labelled(), asks(options.sequences)) {}
  LabelTask(const ModelConfig& model, const Options& options, LabelData data)
      : model_(model),
        options_(options),
        objective_(options.sequences.labelled(), asks(options.sequences)),
        data_(std::move(data)) {}

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  const Objective& objective() const override { return objective_; }
  std::int64_t seq_length() const override { return options_.sequences.seq_length; }
  FieldSpecs sample_fields() const override { return sequence_fields(options_.sequences); }
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return *training_; }
  std::span<const std::unique_ptr<SampleSet>> evaluations(Split which) const override;
  bool has_full_validation() const override { return false; }
  std::int64_t steps_of_epoch() const override { return steps_; }
  std::vector<EpochReport> end_epoch(std::int64_t epoch,
                                     std::span<const SetScores> sets) const override;
  const Tokenizer& tokenizer() const override { return *data_.tokenizer; }
  const TokenizerOptions& tokenizer_options() const override { return data_.tokenizer_options; }
  void describe(DType dtype, PyValue& args) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  static LabelObjective::Asks asks(const SequenceOptions& sequences) {
    return sequences.is_bert ? LabelObjective::Asks::first_of_text
                             : LabelObjective::Asks::last_of_text;
  }
  static std::unique_ptr<SampleSet> epochs_of(const LabelledSamples& samples,
                                              const EpochOptions& order);

  ModelConfig model_;
  Options options_;
  LabelObjective objective_;
  LabelData data_;
  std::unique_ptr<SampleSet> training_;
  std::vector<std::unique_ptr<SampleSet>> validation_, tests_;
  std::int64_t steps_ = 1;
};

}  // namespace mt
