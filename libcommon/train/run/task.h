// Task: what a run trains and to what end: its model, its objective, and what a micro-batch brings.
#pragma once

#include <memory>

#include "model/families/gpt.h"
#include "train/options/train_options.h"
#include "train/run/objective.h"

namespace mt {

class Task {
 public:
  virtual ~Task() = default;
  // Some stages of a model, as one of the ranks that share every matrix has them.
  virtual std::unique_ptr<Model> make_model(const StageRanges& stages,
                                            const TensorPart& part) const = 0;
  virtual std::unique_ptr<Model> make_whole_model() const = 0;
  virtual const Objective& objective() const = 0;
  virtual FieldSpecs sample_fields() const = 0;  // what the samples that it learns from bring
  // All that a micro-batch brings, where its sequences are shared by so many ranks.
  FieldSpecs fields(std::int64_t ranks = 1) const;
};

// A language model learns to continue token files.
class Pretraining final : public Task {
 public:
  explicit Pretraining(const TrainOptions& options) : options_(options) {}

  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override {
    return std::make_unique<Gpt>(options_.model, stages, part);
  }
  std::unique_ptr<Model> make_whole_model() const override {
    return std::make_unique<Gpt>(options_.model);
  }
  const Objective& objective() const override { return objective_; }
  FieldSpecs sample_fields() const override {
    return gpt_fields(options_.data.seq_length, options_.data.reset_attention_mask);
  }

 private:
  const TrainOptions& options_;
  LanguageModelling objective_;
};

}  // namespace mt
