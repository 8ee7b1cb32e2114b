// WholeModel: on every rank all of the model that ranks train in parts, with the values that it has
// by now: what a text is drawn by, whichever layout learns from it.
#pragma once

#include <memory>

#include "model/model.h"
#include "train/options/run_options.h"

namespace mt {

class Optimizer;
class Task;
class World;

class WholeModel {
 public:
  // Without values.
  WholeModel(const RunOptions& options, const Task& task)
      : WholeModel(options, task, options.device()) {}
  WholeModel(const RunOptions& options, const Task& task, Device device);

  // Whether ranks of such a run have less than all of the model's values between two steps.
  static bool is_due(const RunOptions& options);

  std::size_t bytes() const;  // of the values

  // Takes them from all ranks, each of which calls it; of frozen rows the first time alone, but for
  // buffers (model/keys.h), which steps change.
  const Model& take(Optimizer& optimizer, const World& world, Stream& stream);

 private:
  std::unique_ptr<Model> model_;
  bool has_frozen_ = false;
};

}  // namespace mt
