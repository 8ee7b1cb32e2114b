#include "train/run/whole_model.h"

#include <algorithm>
#include <set>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/layers.h"
#include "ops/ops.h"
#include "optim/optimizer.h"
#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {

bool WholeModel::is_due(const RunOptions& options) {
  const ParallelSizes sizes = options.ranks.sizes();
  return sizes.tp > 1 || sizes.pp > 1 || sizes.ep > 1 ||
         (sizes.dp * sizes.cp > 1 &&
          (options.optimizer.shards_values() || options.optimizer.overlap_param_gather));
}

WholeModel::WholeModel(const RunOptions& options, const Task& task, Device device)
    : model_(task.make_model({{.end = std::ssize(layers_of(task.model()))}}, {})) {
  model_->table().allocate(device, options.compute_dtype(), false);
}

std::size_t WholeModel::bytes() const {
  std::size_t sum = 0;
  for (const FlatRows& flat : model_->table().flat_rows()) sum += flat.values.bytes();
  return sum;
}

// Of each element one rank has the value, and the others nothing, which their sum leaves as it is.
const Model& WholeModel::take(Optimizer& optimizer, const World& world, Stream& stream) {
  ParamTable& whole = model_->table();
  std::set<const Param*> known;
  std::vector<const FlatRows*> asked;
  const auto stays = [&](std::size_t row) {
    return !whole.rows()[row].trainable && !is_buffer(whole.rows()[row]);
  };
  for (const FlatRows& flat : whole.flat_rows()) {
    if (has_frozen_ && std::ranges::all_of(flat.rows, stays)) {
      for (const std::size_t row : flat.rows) known.insert(&whole.rows()[row]);
      continue;
    }
    asked.push_back(&flat);
    set_zero(flat.values, stream);
  }
  optimizer.read_values(
      [&](const Param& row) {
        const Group& copies =
            row.copies == Copies::experts ? world.expert_data() : world.data_context();
        if (copies.rank() != 0 || !optimizer.counts(row)) return;
        const Param& there = whole.at(row.name());
        if (known.contains(&there)) return;
        const Tensor from = row.value.reshape({row.value.numel()}),
                     to = there.value.reshape({there.value.numel()});
        for (const ElementRun& run : row.runs())
          copy(to.rows(run.global, run.global + run.count),
               from.rows(run.local, run.local + run.count), stream);
        stream.synchronize();  // before other rows are put at its place
      },
      stream);
  for (const FlatRows* const flat : asked) world.all().all_reduce(flat->values).wait();
  stream.synchronize();
  has_frozen_ = true;
  return *model_;
}

}  // namespace mt
