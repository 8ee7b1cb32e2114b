// ImagePretraining: a Vision Transformer learns to tell the classes of images
// (pretrain_vision_classify.py), or to paint what it does not see of them
// (pretrain_vision_inpaint.py).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "data/images/image_samples.h"
#include "data/samples/sample_sets.h"
#include "data/samples/train_data.h"
#include "model/config/model_config.h"
#include "text/null_tokenizer.h"
#include "train/run/objective.h"
#include "train/run/task.h"

namespace mt {

struct PretrainOptions;

class ImagePretraining final : public Task {
 public:
  // Reads which images there are.  Without trees it is to be planned.
  using Trees = std::array<std::shared_ptr<const ImageTree>, 2>;  // to learn from, to validate with
  // `mask`: which patches are to be painted, if any are.
  ImagePretraining(const ModelConfig& model, const DataOptions& options,
                   std::optional<PatchMask> mask, Trees trees = {});

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  const Objective& objective() const override { return *objective_; }
  std::int64_t seq_length() const override { return model_.image_tokens(); }
  FieldSpecs sample_fields() const override;
  void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
             const Log& log) override;
  const SampleSet& training() const override { return *training_; }
  std::span<const std::unique_ptr<SampleSet>> evaluations(Split which) const override;
  bool has_full_validation() const override { return options_.full_validation; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const TokenizerOptions& tokenizer_options() const override { return options_.tokenizer; }
  void describe(DType dtype, PyValue& args) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  ImageShape shape() const;
  std::unique_ptr<Samples> samples(std::size_t tree, std::unique_ptr<const Sampler> order,
                                   std::int64_t size, std::uint64_t seed) const;

  ModelConfig model_;
  DataOptions options_;
  Trees trees_;
  std::optional<PatchMask> mask_;
  std::unique_ptr<const Objective> objective_;
  NullTokenizer tokenizer_;
  std::unique_ptr<SampleSet> training_;
  std::vector<std::unique_ptr<SampleSet>> validation_;
};

// Reads which images the two folders of a run have.
ImagePretraining::Trees open_image_trees(const PretrainOptions& options);

// Reads the two folders of a run, completes its options, and makes the task.
std::unique_ptr<ImagePretraining> open_images(PretrainOptions& options);

}  // namespace mt
