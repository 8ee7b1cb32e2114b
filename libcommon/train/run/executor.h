// Executor: runs a schedule's actions on one rank of a pipeline.  It owns the memory of the three
// lifetimes (DESIGN D2): `keep` and `deferred` arenas for each slot of each chunk, one `layer`.
// Nothing else is allocated during a step, and how much is needed is found by running the same step
// on `meta`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "comm/ring.h"
#include "comm/world.h"
#include "model/model.h"
#include "nn/context_parallel.h"
#include "nn/expert_parallel.h"
#include "nn/fp8_layers.h"
#include "nn/step.h"
#include "nn/weight_grads.h"
#include "tensor/arena.h"
#include "tensor/graph.h"
#include "tensor/stream.h"
#include "train/report/timers.h"
#include "train/run/objective.h"
#include "train/run/schedule.h"
#include "train/run/step_input.h"
#include "train/run/step_memory.h"

namespace mt {

// Returns what each layer's router sums in a model of such settings.
RouterSums router_sums_of(const ModelConfig& config);

class ExpertChoices;
class Probe;

// Fills a micro-batch's fields, which lie in host memory, and returns the global number of its
// first sample.  Not called on meta.
using LoadBatch = std::function<std::int64_t(int micro_batch, const Fields& batch)>;

class Executor {
 public:
  Executor(const Model& model, const Objective& objective, const StepShape& shape,
           const StepMemory& memory, const World& world, Stream& stream);

  // Forward and backward of every micro-batch, by the schedule; gradients are added to the model's,
  // or replace them (Param::gradient_replaced).  A GPU's work is queued, not waited for.
  void run(const Schedule& schedule, const LoadBatch& load, bool training);

  // A term's shares of the last run's micro-batches (Objective::sum_losses), in the order of their
  // forwards: [n] f64 on the device; none on ranks before the last.
  Tensor losses(std::size_t term) const;
  // On the host, which waits; zeros on meta: the sum of a term's, and for each micro-batch the sum
  // of all terms'.
  double loss(std::size_t term);
  std::vector<double> fetch_losses();

  // Appends what evaluations say of samples, Ends::logits, from now on; null: nowhere.
  void collect(std::vector<double>* scores) { scores_ = scores; }

  // Shows what training computes from now on to a probe.
  void show_to(Probe& probe) { probe_ = &probe; }

  // Whether a GPU runs forwards and backwards as captured graphs, from the second time that it does
  // the same on; on from the start.
  void use_graphs(bool use) { graphs_on_ = use; }
  std::size_t graphs() const { return graphs_.graphs(); }
  // Has them captured anew, of kernels that may be others.  Nothing is under way.
  void forget_graphs() {
    graphs_ = {};
    trained_ = false;
  }
  // Whether a GPU may load kernels when this trains next: the first time, and where it is probed.
  bool may_load_kernels() const {
    return stream_.device() == Device::cuda && (!trained_ || probe_ != nullptr);
  }

  // Multiplies the weights of losses by a number, [1] f64 on the device, from now on.
  void scale_weights_by(const ConstTensor& scale) { weight_scale_ = scale; }

  // Losses of routers weigh so much in a micro-batch's objective from now on; asked of each that is
  // trained on, once it is loaded.
  void weigh_routers(std::function<double(int micro_batch)> weight) {
    router_weight_ = std::move(weight);
  }
  // What the last run in training found of them on this rank: RouterLosses::sums, on the device;
  // empty: there are none.
  Tensor router_sums() const { return router_sums_; }

  // Tells of the use of parameters from now on; null: to nobody.
  void share(ParamSharing* sharing) {
    sharing_ = sharing;
    weight_grads_.share(sharing);
  }

  // Called before each action from now on.
  void watch(std::function<void(const Action&)> watch) { watch_ = std::move(watch); }

  // Measures the parts of training from now on.
  void measure_with(Timers& timers) { timers_ = &timers; }

  // Has training's routers choose what is imposed, and what they choose kept, from now on.
  void keep_choices(ExpertChoices* choices) { choices_ = choices; }

  // Has training's attentions put their largest scores there (Step::largest_scores) from now on.
  void find_largest_scores(const Tensor& scores) { largest_scores_ = scores; }

  // What has codes of eight bits multiplied; null: nothing does.
  Fp8Layers* fp8() { return fp8_ ? &*fp8_ : nullptr; }
  const Fp8Layers* fp8() const { return fp8_ ? &*fp8_ : nullptr; }
  // The weights' codes that are to be gathered (Optimizer::gather_codes); null: none are.
  WeightCodes* gathered_codes() { return fp8_ && fp8_->rules().gathers_codes ? &*fp8_ : nullptr; }
  StepMemory peak() const;
  // On meta: what lies in each arena when that is fullest.
  struct Held {
    const char* arena;  // "keep", "layer" or "deferred"
    ConstTensor tensor;
  };
  std::vector<Held> at_peak() const;

 private:
  struct Slot {
    int chunk = 0;
    Arena keep, deferred;
    std::unique_ptr<Model::Saved> saved;
    StepRecord* record = nullptr;  // on the device
    std::int64_t first_sample = 0;
    Tensor router_weight;  // likewise
    Fields batch;
    Ends ends;
    Wire in, out, din, dout;
    std::array<Pending, kWireTensors> sent;  // what is on its way out of this slot's tensors
    std::size_t queued = 0;                  // weight gradients
  };
  // Work that is the same in every step, and what the host remembers of it.
  struct Work {
    Action::Kind kind = {};
    int chunk = 0, slot = 0;
    bool first = false, training = false;  // first: of a step's micro-batches
    friend auto operator<=>(const Work&, const Work&) = default;
  };
  struct Outcome {
    std::size_t keep = 0;  // mark
    Wire out, din;
    WeightGrads::Written written;
  };
  Timers::Scope measure(Timed part, bool training) const;
  void begin_routers(bool training);
  void act(const Action& action, const LoadBatch& load, bool training);
  void begin(Slot& slot, const Action& action, const LoadBatch& load, bool training);
  void queue(const Work& work, Slot& slot, const std::function<void()>& body);
  void forward(const Action& action, Slot& slot, bool training);
  void note_losses(const Slot& slot, bool training);
  void note_scores(const Tensor& scores);
  std::vector<double> fetch_losses(std::size_t term);
  void backward(const Action& action, Slot& slot);
  Step step(Slot& slot, bool training);
  std::size_t hidden_bytes();
  enum class Way : std::uint8_t { forward, backward };
  Wire room_for_wire(Slot& slot, Model::Side side, Way way);
  Wire kept(const Wire& wire, Slot& slot, Model::Side side, Way way);
  void receive(Ring& from, Wire& wire, Slot& slot, Model::Side side, Way way);
  void send(Ring& to, const Wire& wire, Slot& slot);

  const Model& model_;
  const Objective& objective_;
  StepShape shape_;
  Ring forwards_, backwards_;  // from stage to stage
  PipelinePlace place_;
  Stream& stream_;
  std::vector<std::vector<Slot>> slots_;  // of each chunk
  Arena layer_;
  std::unique_ptr<Group> tensor_;           // ends before the memory that its ranks reach
  std::unique_ptr<Group> data_;             // of an objective that spans ranks
  std::optional<ContextParallel> context_;  // likewise
  std::optional<ExpertParallel> experts_;   // likewise
  std::optional<Fp8Layers> fp8_;
  Buffer router_storage_;
  Tensor router_sums_, chosen_so_far_;  // RouterLosses'
  std::function<double(int)> router_weight_ = [](int) { return 1.0; };
  WeightGrads weight_grads_;
  bool graphs_on_ = true, trained_ = false;
  Graphs<Work> graphs_;
  std::map<Work, Outcome> outcomes_;
  Buffer losses_;  // on the device: of each term, `loss_room_` numbers
  std::int64_t loss_room_ = 0, loss_count_ = 0;
  std::vector<double>* scores_ = nullptr;
  std::unique_ptr<InputStage> stage_;  // on a GPU
  std::function<void(const Action&)> watch_;
  Timers* timers_ = nullptr;
  Probe* probe_ = nullptr;
  ExpertChoices* choices_ = nullptr;
  Tensor largest_scores_;
  ParamSharing* sharing_ = nullptr;
  ConstTensor weight_scale_;
  int last_micro_batch_ = 0;
};

// What the schedules of a rank need, measured by running them on a copy of its model that lives on
// meta.
StepMemory measure_memory(const Model& model_on_meta, const Objective& objective,
                          const StepShape& shape, const Schedule& training,
                          const Schedule& evaluation, const World& world_on_meta, Stream& meta);

}  // namespace mt
