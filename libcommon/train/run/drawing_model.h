// DrawingModel: on every rank the model that it draws texts by, whichever layout learns from them,
// with the values that it has by now: all of it or, of ranks that draw together
// (DrawnWork::together), the rank's part of the matrices of all layers.
#pragma once

#include <memory>

#include "model/model.h"
#include "model/tensor_part.h"
#include "tensor/buffer.h"
#include "train/options/run_options.h"

namespace mt {

class Group;
class Optimizer;
class Task;
class World;

class DrawingModel {
 public:
  // Whether ranks of such a run, of which so many draw together, do not have between two steps just
  // what they draw by.
  static bool is_due(const RunOptions& options, int together);
  // How many ranks of consecutive numbers have the same layers in training: no others can draw
  // together.
  static std::int64_t ranks_of_layers(const ParallelSizes& sizes);
  // This rank's group of those, where they are not those that share matrices in training; else
  // null.  Called by every rank of `all`, in its turn among the collectives.
  static std::unique_ptr<Group> split(const RunOptions& options, int together, Group& all);

  // Without values; the rank's, of all.  The task draws.
  DrawingModel(const RunOptions& options, const Task& task, int rank)
      : DrawingModel(options, task, rank, options.device()) {}
  DrawingModel(const RunOptions& options, const Task& task, int rank, Device device);

  std::size_t bytes() const;  // of the values, and of what take() works in

  // Takes them from all ranks, each of which calls it; of frozen rows the first time alone, but for
  // buffers (model/keys.h), which steps change.
  const Model& take(Optimizer& optimizer, const World& world, Stream& stream);

 private:
  bool gives(const Param& row, const Optimizer& optimizer, const World& world) const;
  void put(const Param& row, const Param& there, const World& world, Stream& stream);
  void put_experts(const Param& row, ConstTensor own, Group& ranks, Stream& stream);
  ConstTensor gathered(const Param& row, Group& ranks, Stream& stream) const;
  void take_part(const Param& there, ConstTensor whole, Stream& stream) const;
  Tensor room(const Buffer& buffer, const Param& row, const Shape& shape) const {
    return buffer.tensor(row.value.dtype(), shape);
  }

  TensorPart part_;
  std::unique_ptr<Model> model_;
  Buffer room_, second_room_, room_of_experts_;
  bool has_frozen_ = false;
};

}  // namespace mt
