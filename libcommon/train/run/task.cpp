#include "train/run/task.h"

#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/model.h"
#include "train/run/objective.h"

namespace mt {

ParamTable Task::rows() const {
  return std::move(make_model({{.end = std::ssize(layers_of(model()))}}, {})->table());
}

FieldSpecs Task::fields(std::int64_t ranks) const {
  FieldSpecs all = sample_fields();
  for (const FieldSpec& own : objective().fields(all)) all.push_back(own);
  for (FieldSpec& field : all)
    if (field.of_tokens) field.per_sample /= ranks;
  return all;
}

}  // namespace mt
