// ModelBench: a model of one kind, or a stage of one, with its memory, a micro-batch, and the
// losses of its tokens with their weights.
#pragma once

#include <memory>

#include "model/model.h"
#include "model/stage_range.h"
#include "tests/support/host_tensor.h"
#include "tests/support/workbench.h"

namespace mt {

template <class M>
class ModelBench {
 public:
  ParamTable& table() { return model_.table(); }
  const HostTensor& loss() const { return loss_; }
  double objective() const { return dot_of(weight_, loss_); }
  double evaluate() {
    forward({}, false);
    return objective();
  }
  Wire forward(const Wire& in, bool save = true) {
    Step s = bench_.step();
    for (Arena* arena : {&s.keep, &s.layer, &s.deferred}) arena->rewind(0);
    saved_ = model_.make_saved();
    Wire out;
    model_.forward(s, out, in, batch(), {.loss = loss_, .weight = weight_},
                   save ? saved_.get() : nullptr);
    if (save) s.layer.rewind(0);
    return out;
  }
  Wire backward(const Wire& dout) {
    Step s = bench_.step();
    Wire din;
    model_.backward(s, din, dout, *saved_);
    bench_.run_weight_grads();
    return din;
  }
  void clear_gradients() {  // before a forward, in which those of the head come
    for (Param& row : table().rows()) fill_with(row.grad, [](std::int64_t) { return 0; });
  }
  void forward_and_backward() {
    clear_gradients();
    forward({});
    backward({});
  }
  WireShapes wire(Model::Side side) { return model_.wire(bench_.step(), batch(), side); }

 protected:
  // In double precision; the weights are 0.
  ModelBench(const ModelConfig& config, const StageRange& range, const WorkbenchOptions& options)
      : model_(config, StageRanges{range}),
        bench_(options),
        weight_(DType::f64, {options.sequences * options.seq_length}),
        loss_(DType::f64, weight_.view().shape()) {
    model_.table().allocate(Device::cpu, DType::f64, true);
    model_.initialize(7, bench_.stream());
  }
  ~ModelBench() = default;

  HostTensor& weight() { return weight_; }

 private:
  virtual Fields batch() const = 0;

  M model_;
  Workbench bench_;
  HostTensor weight_, loss_;
  std::unique_ptr<Model::Saved> saved_;
};

}  // namespace mt
