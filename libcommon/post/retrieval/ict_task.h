// IctTask: two towers learn to find a block of text by one of its sentences: the inverse cloze task
// (data/samples/ict_dataset.h), as Megatron-LM's pretrain_ict.py has it.
#pragma once

#include <memory>
#include <optional>

#include "data/samples/ict_dataset.h"
#include "data/samples/train_data.h"
#include "model/config/model_config.h"
#include "post/retrieval/retrieval_objective.h"
#include "train/run/task.h"

namespace mt {

// IctData: token files of sentences, and one of titles for each.
struct IctData {
  LoadedTokenizer tokenizer;
  WordPieces pieces = {};
  DataSources sources = {};
  TokenFiles files = {}, titles = {};
};

class IctTask final : public Task {
 public:
  struct Options {
    DataOptions text;  // which files, and how they are read
    IctDatasetOptions samples;
    RetrievalObjective::Options objective;
  };
  // To be planned.
  IctTask(const ModelConfig& model, const Options& options)
      : model_(model), options_(options), objective_(options.objective) {}
  IctTask(const ModelConfig& model, const Options& options, std::unique_ptr<IctData> data)
      : model_(model), options_(options), objective_(options.objective), data_(std::move(data)) {}

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  const Objective& objective() const override { return objective_; }
  std::int64_t seq_length() const override { return options_.samples.seq_length; }
  FieldSpecs sample_fields() const override;
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return sets_.training(); }
  std::span<const std::unique_ptr<SampleSet>> evaluations(Split which) const override {
    return sets_.of(which);
  }
  bool has_full_validation() const override { return false; }
  const Tokenizer& tokenizer() const override { return *data_->tokenizer.tokenizer; }
  const TokenizerOptions& tokenizer_options() const override { return data_->tokenizer.options; }
  void describe(DType dtype, PyValue& args) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  ModelConfig model_;
  Options options_;
  RetrievalObjective objective_;
  std::unique_ptr<IctData> data_;
  SampleSets sets_;
};

}  // namespace mt
