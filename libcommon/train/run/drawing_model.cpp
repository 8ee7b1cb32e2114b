#include "train/run/drawing_model.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "ops/ops.h"
#include "optim/optimizer.h"
#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {

bool DrawingModel::is_due(const RunOptions& options, int together) {
  const ParallelSizes sizes = options.ranks.sizes();
  return sizes.tp != together || sizes.pp > 1 || sizes.experts_apart() ||
         (sizes.dp * sizes.cp > 1 &&
          (options.optimizer.shards_values() || options.optimizer.overlap_param_gather));
}

std::int64_t DrawingModel::ranks_of_layers(const ParallelSizes& sizes) {
  return sizes.tp * sizes.cp * (sizes.pp_before_dp && sizes.pp > 1 ? 1 : sizes.dp);
}

std::unique_ptr<Group> DrawingModel::split(const RunOptions& options, int together, Group& all) {
  if (together == 1 || together == options.ranks.sizes().tp) return nullptr;
  std::vector<int> members(static_cast<std::size_t>(together));
  std::iota(members.begin(), members.end(), all.rank() / together * together);
  return all.split(members);
}

// Whether a rank's part is some of a matrix's columns, one behind the other.
static bool has_columns(const Param& row) {
  return row.is_cut() && row.shape.rank() == 2 && row.dimension == 1 && row.cuts.size() == 1;
}

DrawingModel::DrawingModel(const RunOptions& options, const Task& task, int rank, Device device) {
  const ParallelSizes sizes = options.ranks.sizes();
  const int together = task.drawn_work()->together;
  part_ = {.rank = rank % together, .ranks = together};
  model_ = task.make_model({{.end = std::ssize(layers_of(task.model()))}}, part_);
  ParamTable& table = model_->table();
  table.allocate(device, options.compute_dtype(), false);
  if (together == 1 || (together == sizes.tp && !sizes.experts_apart())) return;
  std::size_t largest = 0, of_columns = 0, of_expert = 0;
  for (const Param& row : table.rows()) {
    if (!row.is_cut()) continue;
    const std::size_t bytes =
        static_cast<std::size_t>(row.shape.numel()) * size_of(row.value.dtype());
    largest = std::max(largest, bytes);
    if (has_columns(row)) of_columns = std::max(of_columns, bytes);
    if (row.copies == Copies::experts) of_expert = std::max(of_expert, bytes);
  }
  const bool gathers = sizes.tp > 1 || sizes.etp > 1;
  room_ = Buffer(device, gathers ? largest : of_columns);
  if (gathers) second_room_ = Buffer(device, of_columns);
  if (sizes.ep > 1)
    room_of_experts_ = Buffer(device, static_cast<std::size_t>(sizes.ep) * of_expert);
}

std::size_t DrawingModel::bytes() const {
  std::size_t sum = room_.bytes() + second_room_.bytes() + room_of_experts_.bytes();
  for (const FlatRows& flat : model_->table().flat_rows()) sum += flat.values.bytes();
  return sum;
}

// Of all of the model one of the ranks that have a part gives it; else each gives its own.
bool DrawingModel::gives(const Param& row, const Optimizer& optimizer, const World& world) const {
  if (part_.ranks > 1) return !row.copy;
  const Group& copies = row.copies == Copies::experts ? world.expert_data() : world.data_context();
  return copies.rank() == 0 && optimizer.counts(row);
}

// All of a row of which each of these ranks has a part.
ConstTensor DrawingModel::gathered(const Param& row, Group& ranks, Stream& stream) const {
  if (has_columns(row)) {
    const Shape& of_part = row.local;
    const Tensor parts = room(room_, row, of_part.with_front(ranks.size())),
                 whole = room(second_room_, row, row.shape);
    ranks.all_gather(parts, row.value).wait();
    swap_axes(whole, parts, ranks.size(), of_part[0], stream);
    return whole;
  }
  const Tensor whole = room(room_, row, {row.shape.numel()}),
               own = row.value.reshape({row.value.numel()});
  set_zero(whole, stream);
  for (const ElementRun& run : row.runs())
    copy(whole.rows(run.global, run.global + run.count), own.rows(run.local, run.local + run.count),
         stream);
  ranks.all_reduce(whole).wait();
  return whole;
}

void DrawingModel::take_part(const Param& there, ConstTensor whole, Stream& stream) const {
  if (has_columns(there)) {
    const std::int64_t rows = there.local[0];
    const Tensor parts = room(room_, there, Shape{part_.ranks * there.value.numel()});
    swap_axes(parts, whole, rows, part_.ranks, stream);
    const std::int64_t begin = part_.rank * there.value.numel();
    return copy(there.value.reshape({there.value.numel()}),
                parts.rows(begin, begin + there.value.numel()), stream);
  }
  const ConstTensor from = whole.reshape({whole.numel()});
  const Tensor to = there.value.reshape({there.value.numel()});
  for (const ElementRun& run : there.runs())
    copy(to.rows(run.local, run.local + run.count), from.rows(run.global, run.global + run.count),
         stream);
}

// Each of these ranks has other experts of the layer, and a row like this of one of them.
void DrawingModel::put_experts(const Param& row, ConstTensor own, Group& ranks, Stream& stream) {
  const std::int64_t here = row.experts / ranks.size(), size = row.shape.numel();
  const Tensor all = room(room_of_experts_, row, {ranks.size(), size});
  ranks.all_gather(all, own).wait();
  RowPlace place = row.place;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    place.expert = here * rank + *row.place.expert % here;
    take_part(model_->table().at(place.name()), all.rows(rank, rank + 1).reshape(row.shape),
              stream);
  }
}

void DrawingModel::put(const Param& row, const Param& there, const World& world, Stream& stream) {
  const Tensor from = row.value.reshape({row.value.numel()}),
               to = there.value.reshape({there.value.numel()});
  const bool is_expert = row.copies == Copies::experts,
             has_others = part_.ranks > 1 && is_expert && world.experts().size() > 1;
  if (row.local == there.local && !has_others) {
    copy(to, from, stream);
  } else if (part_.ranks > 1) {
    Group& ranks = is_expert ? world.expert_tensor() : world.tensor();
    const ConstTensor own = row.is_cut() ? gathered(row, ranks, stream) : ConstTensor(row.value);
    has_others ? put_experts(row, own, world.experts(), stream) : take_part(there, own, stream);
  } else {
    for (const ElementRun& run : row.runs())
      copy(to.rows(run.global, run.global + run.count), from.rows(run.local, run.local + run.count),
           stream);
  }
}

// Of each element one rank has the value, and the others nothing, which their sum leaves as it is.
// Of parts, each rank of a pipeline has the values of its layers.
const Model& DrawingModel::take(Optimizer& optimizer, const World& world, Stream& stream) {
  ParamTable& whole = model_->table();
  std::set<const Param*> known;
  std::vector<const FlatRows*> asked;
  const auto stays = [&](std::size_t row) {
    return !whole.rows()[row].trainable && !whole.rows()[row].is_buffer;
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
        if (!gives(row, optimizer, world)) return;
        const Param& there = whole.at(row.name());
        if (known.contains(&there)) return;
        put(row, there, world, stream);
        stream.synchronize();  // before other rows are put at its place
      },
      stream);
  Group& owners = part_.ranks > 1 ? world.pipeline() : world.all();
  for (const FlatRows* const flat : asked) owners.all_reduce(flat->values).wait();
  stream.synchronize();
  has_frozen_ = true;
  return *model_;
}

}  // namespace mt
