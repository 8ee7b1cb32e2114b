#include "post/supervised/supervised_finetuning.h"

#include "data/samples/gpt_dataset.h"

namespace mt {

SupervisedFinetuning::SupervisedFinetuning(const SftOptions& options, Data data)
    : PackedTask(options, std::move(data)), loss_(options.loss), objective_(loss_ == "dft") {}

FieldSpecs SupervisedFinetuning::sample_fields() const { return gpt_fields(seq_length(), true); }

std::unique_ptr<Task> SupervisedFinetuning::changed(const Change& change) const {
  SftOptions options;
  options.model = model();
  options.seq_length = seq_length();
  options.loss = loss_;
  mt::change(options.model, options.seq_length, change);
  return std::make_unique<SupervisedFinetuning>(options);
}

std::unique_ptr<SupervisedFinetuning> open_sft(SftOptions& options, const Log& log) {
  PackedTask::Data data = read_packed(
      options, options.examples,
      {.packing = options.packing, .overlong = options.overlong, .longest = options.longest_text()},
      log);
  options.complete();
  return std::make_unique<SupervisedFinetuning>(options, std::move(data));
}

}  // namespace mt
