// DinoPretraining: a Vision Transformer learns from images alone (pretrain_vision_dino.py;
// model/families/dino.h).  Where it is validated it says how often the images to learn from that
// its teacher knows by about the same numbers as an image of the others are of that one's class.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "data/images/crop_samples.h"
#include "data/samples/sample_sets.h"
#include "data/samples/train_data.h"
#include "model/config/model_config.h"
#include "text/null_tokenizer.h"
#include "train/options/vision_options.h"
#include "train/run/task.h"
#include "train/run/view_objective.h"

namespace mt {

struct PretrainOptions;

class DinoPretraining final : public Task {
 public:
  // Images to learn from, and those to validate with; none where it is to be planned.
  using Trees = std::array<std::shared_ptr<const ImageTree>, 2>;
  DinoPretraining(const ModelConfig& model, const DataOptions& options, const DinoOptions& dino,
                  Trees trees = {});

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  const Objective& objective() const override { return objective_; }
  std::int64_t seq_length() const override { return 2 * model_.image_tokens(); }
  FieldSpecs sample_fields() const override { return crop_fields(shape_); }
  double flops(std::int64_t samples) const override;
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return *training_; }
  std::span<const std::unique_ptr<SampleSet>> evaluations(Split) const override { return {}; }
  bool has_full_validation() const override { return options_.full_validation; }
  bool validates() const override { return true; }
  std::optional<DrawnReport> validate(const Drawing& drawing) const override;
  void end_step(const StepEnd& step) const override;
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const TokenizerOptions& tokenizer_options() const override { return options_.tokenizer; }
  void describe(DType dtype, PyValue& args) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  // Images that stand alone, and their classes.
  struct Known {
    std::unique_ptr<SampleSet> set;
    std::vector<std::int32_t> labels;
  };
  Known known(const std::shared_ptr<const ImageTree>& tree, std::int64_t images) const;

  ModelConfig model_;
  DataOptions options_;
  DinoOptions dino_;
  Trees trees_;
  CropShape shape_;
  ViewObjective objective_;
  NullTokenizer tokenizer_;
  std::int64_t train_iters_ = 1;
  std::unique_ptr<SampleSet> training_;
  Known known_, asked_;
};

// Reads the two folders of a run, completes its options, and makes the task.
std::unique_ptr<DinoPretraining> open_dino(PretrainOptions& options);

}  // namespace mt
