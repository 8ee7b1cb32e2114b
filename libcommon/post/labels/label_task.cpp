#include "post/labels/label_task.h"

#include "base/file.h"
#include "base/json.h"
#include "data/samples/batch_options.h"
#include "model/config/megatron_args.h"
#include "model/model_table.h"
#include "post/finetune_options.h"
#include "post/labels/label_scores.h"

namespace mt {

std::unique_ptr<Model> LabelTask::make_model(const StageRanges& stages,
                                             const TensorPart& part) const {
  std::unique_ptr<Model> model = mt::make_model(model_, stages, part);
  for (Param& row : model->table().rows())
    if (row.place.stack == model_.task_head) row.learning_rate_mult = options_.head_lr_mult;
  return model;
}

std::unique_ptr<SampleSet> LabelTask::epochs_of(const LabelledSamples& samples,
                                                const EpochOptions& order) {
  auto in_order = std::make_unique<EpochSamples>(samples, order);
  const std::int64_t size = in_order->size();
  return std::unique_ptr<SampleSet>(new SampleSet{"", std::move(in_order), Sampler(size, {})});
}

void LabelTask::build(const TrainingLength&, std::uint64_t seed, const BatchOptions& batch,
                      const Log&) {
  const std::int64_t choices = options_.sequences.choices;
  EpochOptions order{.choices = choices,
                     .micro_batch_size = batch.micro_batch_size / choices,
                     .ranks = batch.ranks,
                     .micro_batches = batch.micro_batches(),
                     .seed = seed,
                     .keep_last = options_.keep_last};
  if (data_.training) {
    order.samples = data_.training->set().samples();
    training_ = epochs_of(*data_.training, order);
    steps_ = order.steps();
  }
  order.seed = 0;
  order.changes = false;
  if (data_.validation) {
    order.samples = data_.validation->set().samples();
    order.keep_last = order.keep_last || order.steps() == 0;  // there is a step, at least
    validation_.push_back(epochs_of(*data_.validation, order));
  }
  for (std::unique_ptr<LabelledSamples>& test : data_.tests) {
    const std::string name = test->name();
    const std::int64_t size = test->size();
    tests_.emplace_back(
        new SampleSet{name, std::move(test), Sampler(size, {.past_end = PastEnd::padding})});
  }
}

std::span<const std::unique_ptr<SampleSet>> LabelTask::evaluations(Split which) const {
  if (which == Split::valid) return validation_;
  if (which == Split::test) return tests_;
  return {};
}

std::vector<EpochReport> LabelTask::end_epoch(std::int64_t epoch,
                                              std::span<const SetScores> sets) const {
  std::vector<EpochReport> reports;
  Tally all;
  std::string lines;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const SampleSet& set = *tests_[i];
    const LabelledSet& labelled = static_cast<const LabelledSamples&>(*set.samples).set();
    const bool choices = labelled.choices > 1;
    const LabelScores scores(
        labelled, sets[i].scores,
        choices ? std::vector<std::string>{"A", "B", "C", "D"} : model_.labels());
    scores.write_lines(set.name, lines);
    if (!labelled.has_labels) continue;
    const Tally tally = scores.tally();
    reports.push_back(epoch_report(epoch, set.name, tally, labelled.kind, sets[i].seconds));
    all.add(tally);
  }
  if (options_.predictions == "-")
    File::create("-").write(lines);
  else if (!options_.predictions.empty())
    write_file_atomically(options_.predictions, lines, true);
  if (!reports.empty()) reports.push_back(overall_report(epoch, all, options_.sequences.kind));
  return reports;
}

void LabelTask::describe(DType dtype, PyValue& args) const { add_model_args(model_, dtype, args); }

std::unique_ptr<Task> LabelTask::changed(const Change& change) const {
  ModelConfig model = model_;
  Options options = options_;
  mt::change(model, options.sequences.seq_length, change);
  return std::make_unique<LabelTask>(model, options);
}

}  // namespace mt
