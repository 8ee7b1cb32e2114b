// Stack: layers, each of residual branches, one after another.  x, y: [rows, hidden_size].  Runs of
// layers may be made again in the backward, which then needs no more than their input.
#pragma once

#include <vector>

#include "nn/branch.h"
#include "nn/layer_run.h"

namespace mt {

class Stack {
 public:
  struct Layer {
    std::int64_t number = 0;  // in the model
    std::vector<Branch> branches;
    RowRange rows;  // of the model's table
  };
  struct LayerSaved {
    std::vector<ConstTensor> x;  // of each branch
    std::vector<Branch::Saved> branches;
  };
  struct Saved {
    std::vector<Tensor> x;           // of each run
    std::vector<LayerSaved> layers;  // of runs that are not made again
  };
  // runs: all layers, in order.
  Stack(std::vector<Layer> layers, std::vector<LayerRun> runs)
      : layers_(std::move(layers)), runs_(std::move(runs)) {}

  // Returns y, in `keep` if `saved`, else x overwritten.
  Tensor forward(Step& s, Tensor x, Saved* saved) const;
  // Returns dx; dy is overwritten, unless weight gradients wait that read it.
  Tensor backward(Step& s, Tensor dy, const Saved& saved) const;

 private:
  void forward(Step& s, const Layer& layer, Tensor y, ConstTensor x, LayerSaved* saved) const;
  void backward(Step& s, const Layer& layer, Tensor& dy, Tensor& spare,
                const LayerSaved& saved) const;
  std::vector<LayerSaved> run_again(Step& s, const LayerRun& run, Tensor x) const;

  std::vector<Layer> layers_;
  std::vector<LayerRun> runs_;
};

}  // namespace mt
