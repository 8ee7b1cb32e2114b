// PackedTask: a task whose samples are packed examples: the part of it that does not depend on what
// is learnt of them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/samples/sample_sets.h"
#include "post/data/packed_samples.h"
#include "post/finetune_options.h"
#include "train/run/task.h"

namespace mt {

class PackedTask : public Task {
 public:
  struct Data {
    FinetuneOptions::Words words;
    std::shared_ptr<const Packed> train, valid;  // valid: null where there is none
    std::int64_t epochs = 0;                     // 0: as many as the run is long
  };

  const ModelConfig& model() const override { return model_; }
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  std::int64_t seq_length() const override { return seq_length_; }
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

 protected:
  PackedTask(const FinetuneOptions& options, Data data);

  virtual std::unique_ptr<Samples> make_samples(std::unique_ptr<PackedSamples> packed) const = 0;
  const Data& data() const { return data_; }

 private:
  ModelConfig model_;
  std::int64_t seq_length_;
  bool shuffle_, has_full_validation_;
  Data data_;
  std::array<std::vector<std::unique_ptr<SampleSet>>, kSplits> sets_;
};

struct ExampleOptions;

// HowPacked: how the examples of a task's files become samples.
struct HowPacked {
  std::function<void()> check;  // what is checked before they are read, check_before_data()
  std::string packing, overlong;
  std::int64_t longest = 0;         // ReadOptions's
  std::int64_t longest_target = 0;  // and its
  std::int64_t read_together = 1;   // its `together`
  std::int64_t together = 1;        // and how many are in samples, once prepared
  // What becomes of the examples that were read, before they are packed; null: nothing.
  std::function<std::vector<Example>(std::vector<Example>)> prepare = {};
};

// Reads the files of the options, tells what became of their lines, and sets the run's length by
// them where nothing else does.
PackedTask::Data read_packed(FinetuneOptions& options, const ExampleOptions& examples,
                             const HowPacked& how, const Log& log);

}  // namespace mt
