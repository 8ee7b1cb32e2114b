#include "nn/stack.h"

#include "nn/weight_grads.h"
#include "ops/ops.h"

namespace mt {

// y may be x; empty: not wanted.  A product behind an attention to a cache reads ahead what follows
// it.
void Stack::forward(Step& s, const Layer& layer, Tensor y, ConstTensor x, LayerSaved* saved) const {
  const NamedRange range("layer ", layer.number, s.again ? " again" : "");
  const ArenaScope scope(s.layer);
  const std::vector<Branch>& branches = layer.branches;
  if (saved) {
    saved->x.resize(branches.size());
    saved->branches.resize(branches.size());
  }
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const bool is_last = i + 1 == branches.size();
    const Tensor to = is_last && x.data() != y.data() ? y : s.kept(saved, x.shape());
    if (saved) saved->x[i] = x;
    branches[i].forward(s, to, x, saved ? &saved->branches[i] : nullptr,
                        !is_last && s.past.cache ? branches[i + 1].first_weight() : ConstTensor());
    x = to;
  }
  if (x.data() != y.data()) copy(y, x, s.stream);
}

// Each run's output is the next one's input, which its backward needs: kept.  Layers of one run,
// and without `saved` all, write to one buffer in turn.
Tensor Stack::forward(Step& s, Tensor x, Saved* saved) const {
  if (saved) {
    saved->x.clear();
    saved->layers.resize(layers_.size());
  }
  for (const LayerRun& run : runs_) {
    const Tensor y = saved ? s.kept(saved, x.shape()) : x;
    if (saved) saved->x.push_back(x);
    for (std::size_t i = run.begin; i < run.end; ++i) {
      forward(s, layers_[i], y, x, saved && !run.again ? &saved->layers[i] : nullptr);
      x = y;
    }
  }
  return x;
}

// The forward of a run once more, now keeping what its backward needs.  Its output is known.
std::vector<Stack::LayerSaved> Stack::run_again(Step& s, const LayerRun& run, Tensor x) const {
  Step repeated = s;
  repeated.again = true;
  std::vector<LayerSaved> again(run.end - run.begin);
  for (std::size_t i = run.begin; i < run.end; ++i) {
    const Tensor y = i + 1 < run.end ? repeated.kept(&again, x.shape()) : Tensor();
    forward(repeated, layers_[i], y, x, &again[i - run.begin]);
    x = y;
  }
  return again;
}

void Stack::backward(Step& s, const Layer& layer, Tensor& dy, Tensor& spare,
                     const LayerSaved& v) const {
  const NamedRange range("layer ", layer.number, " backward");
  const ArenaScope scope(s.layer);
  for (std::size_t i = layer.branches.size(); i-- > 0;) {
    const Tensor dx = spare ? spare : s.gradient(dy.shape());
    layer.branches[i].backward(s, dx, dy, v.x[i], v.branches[i]);
    if (spare) spare = dy;
    dy = dx;
  }
  s.complete(layer.rows);
}

// Two buffers take turns, unless weight gradients wait that read them.
Tensor Stack::backward(Step& s, Tensor dy, const Saved& saved) const {
  Tensor spare;
  if (!layers_.empty() && !s.weight_grads.deferring()) spare = s.gradient(dy.shape());
  for (std::size_t r = runs_.size(); r-- > 0;) {
    const LayerRun& run = runs_[r];
    if (!run.again) {
      backward(s, layers_[run.begin], dy, spare, saved.layers[run.begin]);
      continue;
    }
    const ArenaScope scope(s.layer, Arena::End::back);
    const std::vector<LayerSaved> again = run_again(s, run, saved.x[r]);
    for (std::size_t i = run.end; i-- > run.begin;)
      backward(s, layers_[i], dy, spare, again[i - run.begin]);
  }
  return dy;
}

}  // namespace mt
