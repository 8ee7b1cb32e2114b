#include "train/run/task.h"

#include "formats/model_source.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/model.h"
#include "model/model_table.h"
#include "train/run/objective.h"

namespace mt {

ParamTable Task::rows() const {
  return std::move(make_model({{.end = std::ssize(layers_of(model()))}}, {})->table());
}

std::unique_ptr<ModelSource> Task::open_teacher() const { return nullptr; }

FieldSpecs Task::fields(std::int64_t ranks) const {
  FieldSpecs all = sample_fields();
  for (const FieldSpec& own : objective().fields(all)) all.push_back(own);
  for (FieldSpec& field : all)
    if (field.of_tokens) field.per_sample /= ranks;
  return all;
}

double Task::flops(std::int64_t samples) const {
  SampleLengths lengths;
  for (const FieldSpec& spec : sample_fields()) {
    if (spec.field == Field::ids) lengths.tokens = spec.per_sample;
    // Of a LLaVA's images there are no ids.
    if (spec.field == Field::encoder_ids || spec.field == Field::encoder_positions)
      lengths.encoder = spec.per_sample;
  }
  return model_flops(model(), rows(), samples, lengths);
}

void Task::begin(std::int64_t, const Scorer&) const {}

bool Task::draw(const Drawing&) const { return true; }

std::optional<DrawnReport> Task::validate(const Drawing& drawing) const {
  return DrawnReport{.iteration = drawing.iteration};
}

std::vector<EpochReport> Task::end_epoch(std::int64_t, std::span<const SetScores>) const {
  return {};
}

void Task::Change::put_into(ModelConfig& model,
                            const std::function<void(int ranks)>& complete) const {
  if (recomputes) model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  if (tensor_ranks)
    complete(*tensor_ranks);
  else if (recomputes)
    model.recompute.complete(model.num_layers);
}

}  // namespace mt
