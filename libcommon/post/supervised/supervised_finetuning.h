// SupervisedFinetuning: a language model learns what others wrote: the mean loss over all tokens of
// a global batch that are learnt.  A GPT learns packed texts, a T5 what its decoder is to say of
// what its encoder reads, a LLaVA packed texts with images, a Retro texts beside neighbours or,
// with its retriever off, without, and then what attends to these stays as it is.  A GPT with
// layers that predict further tokens learns these, too.
#pragma once

#include <memory>
#include <string>

#include "post/packed_task.h"
#include "post/supervised/sft_options.h"
#include "train/run/objective.h"

namespace mt {

class SupervisedFinetuning final : public PackedTask {
 public:
  // Without data it can be planned.  The model is complete, or becomes so by changed().
  explicit SupervisedFinetuning(const SftOptions& options, Data data = {});

  const Objective& objective() const override { return *objective_; }
  FieldSpecs sample_fields() const override;
  std::unique_ptr<Model> make_model(const StageRanges& stages,
                                    const TensorPart& part) const override;
  std::unique_ptr<Task> changed(const Change& change) const override;

 private:
  std::unique_ptr<Samples> make_samples(std::unique_ptr<PackedSamples> packed) const override;

  std::string loss_;
  std::int64_t decoder_seq_length_;  // of a T5
  bool retrieves_;                   // of a Retro
  bool freezes_lm_, freezes_vit_;    // of a LLaVA, and the most tiles of its samples
  std::int64_t tiles_ = 1;
  std::unique_ptr<const Objective> objective_;
};

// Reads the data of a run and completes its options, of which the data has the length.
std::unique_ptr<SupervisedFinetuning> open_sft(SftOptions& options, const Log& log);

}  // namespace mt
