#include "post/retrieval/orqa_task.h"

#include <cstdio>

#include "data/samples/batch_options.h"
#include "data/samples/ict_samples.h"
#include "model/config/megatron_args.h"
#include "model/model.h"
#include "model/model_table.h"
#include "post/finetune_options.h"

namespace mt {

std::unique_ptr<Model> OrqaTask::make_model(const StageRanges& stages,
                                            const TensorPart& part) const {
  return mt::make_model(model_, stages, part);
}

FieldSpecs OrqaTask::sample_fields() const {
  return query_fields(options_.seq_length, 1 + options_.negatives);
}

void OrqaTask::build(const TrainingLength&, std::uint64_t seed, const BatchOptions& batch,
                     const Log&) {
  if (!data_->training.empty()) {
    const EpochOptions order{.samples = std::ssize(data_->training),
                             .micro_batch_size = batch.micro_batch_size,
                             .ranks = batch.ranks,
                             .micro_batches = batch.micro_batches(),
                             .seed = seed};
    steps_ = order.steps();
    auto samples =
        std::make_unique<DprSamples>("training", std::move(data_->training), *data_->tokenizer,
                                     DprSamples::Options{.seq_length = options_.seq_length,
                                                         .negatives = options_.negatives,
                                                         .seed = static_cast<std::uint32_t>(seed),
                                                         .order = order});
    const std::int64_t size = samples->size();
    training_.reset(new SampleSet{"", std::move(samples), Sampler(size, {})});
  }
  for (auto& [name, questions] : data_->judged) {
    auto samples =
        std::make_unique<JudgedSamples>(name, std::move(questions), *data_->tokenizer,
                                        JudgedSamples::Options{.seq_length = options_.seq_length,
                                                               .contexts = 1 + options_.negatives,
                                                               .hard = options_.judged_hard,
                                                               .others = options_.judged_others});
    const std::int64_t size = samples->size();
    judged_.emplace_back(
        new SampleSet{name, std::move(samples), Sampler(size, {.past_end = PastEnd::padding})});
  }
}

std::span<const std::unique_ptr<SampleSet>> OrqaTask::evaluations(Split which) const {
  if (which == Split::test) return judged_;
  return {};
}

// As Megatron-LM prints a number.
static std::string two_digits(double x) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

std::vector<EpochReport> OrqaTask::end_epoch(std::int64_t epoch,
                                             std::span<const SetScores> sets) const {
  std::vector<EpochReport> reports;
  const std::vector<std::int64_t>& tops = options_.objective.tops;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto& judged = static_cast<const JudgedSamples&>(*judged_[i]->samples);
    const JudgedSamples::Ranks ranks =
        judged.ranks(sets[i].scores, options_.objective.width, options_.judged_together, tops);
    EpochReport& report = reports.emplace_back(
        EpochReport{.line = concat("epoch:", epoch, "|rank = ", two_digits(ranks.rank)),
                    .set = judged_[i]->name});
    report.numbers = {{"total", ranks.questions}, {"mean_rank", ranks.rank}};
    for (std::size_t k = 0; k < tops.size(); ++k) {
      const std::string name = concat("top", tops[k], "_acc");
      report.line += concat("|", name, " = ", two_digits(ranks.tops[k]));
      report.numbers.emplace_back(name, ranks.tops[k]);
    }
  }
  return reports;
}

void OrqaTask::describe(DType dtype, PyValue& args) const { add_model_args(model_, dtype, args); }

std::unique_ptr<Task> OrqaTask::changed(const Change& change) const {
  ModelConfig model = model_;
  Options options = options_;
  mt::change(model, options.seq_length, change);
  options.objective.seq_length = options.seq_length;
  return std::make_unique<OrqaTask>(model, options);
}

}  // namespace mt
