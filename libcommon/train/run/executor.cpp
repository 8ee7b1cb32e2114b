#include "train/run/executor.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include "model/config/model_config.h"
#include "ops/ops.h"

namespace mt {

static void wait(std::array<Pending, kWireTensors>& messages) {
  for (Pending& message : messages) message.wait();
}

std::size_t StepMemory::keep() const {
  std::size_t bytes = 0;
  for (const Chunk& chunk : chunks) bytes += static_cast<std::size_t>(chunk.slots) * chunk.keep;
  return bytes;
}

std::size_t StepMemory::deferred() const {
  std::size_t bytes = 0;
  for (const Chunk& chunk : chunks) bytes += static_cast<std::size_t>(chunk.slots) * chunk.deferred;
  return bytes;
}

static std::unique_ptr<Group> same_ranks(Group& ranks) {
  std::vector<int> everyone(static_cast<std::size_t>(ranks.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return ranks.split(everyone);
}

RouterSums router_sums_of(const ModelConfig& config) {
  return {.experts = config.num_experts,
          .losses = std::ssize(config.moe_router_load_balancing_type),
          .quantiles = config.has_quantiles()};
}

Executor::Executor(const Model& model, const Objective& objective, const StepShape& shape,
                   const StepMemory& memory, const World& world, Stream& stream)
    : model_(model),
      objective_(objective),
      shape_(shape),
      forwards_(world.pipeline(), 1),
      backwards_(world.pipeline(), -1),
      place_{.rank = forwards_.rank(),
             .ranks = forwards_.size(),
             .chunks = static_cast<int>(memory.chunks.size())},
      stream_(stream),
      layer_(Buffer(stream.device(), memory.layer)),
      tensor_(same_ranks(world.tensor())) {
  assert(!objective.terms().empty() && objective.terms().size() <= kMostLosses);
  for (const StepMemory::Chunk& chunk : memory.chunks) {
    std::vector<Slot>& slots = slots_.emplace_back();
    for (int i = 0; i < chunk.slots; ++i) {
      Slot& slot = slots.emplace_back();
      slot.chunk = static_cast<int>(slots_.size()) - 1;
      slot.keep = Arena(Buffer(stream.device(), chunk.keep));
      slot.deferred = Arena(Buffer(stream.device(), chunk.deferred));
      slot.saved = model.make_saved();
    }
  }
  // Sums of all rows travel beside products of weight gradients.
  if (shape.tensor_overlap) tensor_->reach(layer_.memory(), hidden_bytes());
  if (world.context().size() > 1)
    context_.emplace(world.context(), shape.context_comm, shape.context_neighbours,
                     layer_.memory());
  const ModelConfig& config = model.config();
  const bool spans_ranks = shape.experts && config.balances_by("global_aux_loss");
  if (objective.spans_ranks() || spans_ranks) data_ = same_ranks(world.data());
  if (shape.experts) {
    const std::int64_t layers = config.num_layers + config.mtp_num_layers * config.further_layers();
    const Shape sums{layers, router_sums_of(config).count()},
        so_far{spans_ranks ? 2 * layers : 0, config.num_experts};
    const std::size_t bytes = static_cast<std::size_t>(sums.numel()) * sizeof(double);
    router_storage_ =
        Buffer(stream.device(), bytes + static_cast<std::size_t>(so_far.numel()) * sizeof(double));
    router_sums_ = router_storage_.tensor(DType::f64, sums);
    if (spans_ranks) chosen_so_far_ = router_storage_.tensor(DType::f64, so_far, bytes);
    experts_.emplace(world.expert_grid(),
                     ExpertParallel::Options{.tensor_ranks = world.expert_tensor().size(),
                                             .gathers = shape.gathers_tokens,
                                             .buffer_factor = shape.expert_buffer_factor});
  }
  if (shape.shared_experts_aside) stream.open_aside();
  if (shape.fp8) fp8_.emplace(model.table(), *shape.fp8, stream);
  if (fp8_ && tensor_) fp8_->share_matrices(*tensor_);
  if (stream.device() == Device::cuda)
    stage_ = std::make_unique<InputStage>(step_input_bytes(shape));
}

void Executor::run(const Schedule& schedule, const LoadBatch& load, bool training) {
  const Stream::Queueing queueing(stream_);
  loss_count_ = 0;
  last_micro_batch_ = 0;
  weight_grads_.begin();
  if (experts_) begin_routers(training);
  weight_grads_.set_deferring(defers_weight_gradients(schedule));
  loss_room_ = std::ssize(schedule);
  if (const std::size_t bytes = objective_.terms().size() * schedule.size() * sizeof(double);
      losses_.bytes() < bytes)
    losses_ = Buffer(stream_.device(), bytes);
  for (const Action& action : schedule)
    last_micro_batch_ = std::max(last_micro_batch_, action.micro_batch);
  for (const Action& action : schedule) {
    if (watch_) watch_(action);
    act(action, load, training);
  }
  for (std::vector<Slot>& slots : slots_)
    for (Slot& slot : slots) wait(slot.sent);
  trained_ |= training;
}

void Executor::begin_routers(bool training) {
  if (!training) return experts_->set_losses({});
  set_zero(router_sums_, stream_);
  if (chosen_so_far_) set_zero(chosen_so_far_, stream_);
  experts_->set_losses(
      RouterLosses{.scale = weight_scale_, .sums = router_sums_, .so_far = chosen_so_far_});
}

Tensor Executor::losses(std::size_t term) const {
  const auto number = static_cast<std::int64_t>(term);
  return losses_.tensor(DType::f64, {loss_count_},
                        static_cast<std::size_t>(number * loss_room_) * sizeof(double));
}

std::vector<double> Executor::fetch_losses(std::size_t term) {
  std::vector<double> losses(static_cast<std::size_t>(loss_count_));
  if (losses.empty()) return losses;
  transfer(Tensor(losses.data(), DType::f64, {loss_count_}), this->losses(term), stream_);
  stream_.synchronize();
  return losses;
}

double Executor::loss(std::size_t term) {
  const std::vector<double> losses = fetch_losses(term);
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

std::vector<double> Executor::fetch_losses() {
  std::vector<double> all = fetch_losses(0);
  for (std::size_t term = 1; term < objective_.terms().size(); ++term)
    std::ranges::transform(all, fetch_losses(term), all.begin(), std::plus());
  return all;
}

Timers::Scope Executor::measure(Timed part, bool training) const {
  return timers_ != nullptr && training ? timers_->measure(part) : Timers::Scope(nullptr);
}

static Timed part_of(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::receive_forward:
      return Timed::forward_recv;
    case Action::Kind::forward:
      return Timed::forward_compute;
    case Action::Kind::send_forward:
      return Timed::forward_send;
    case Action::Kind::receive_backward:
      return Timed::backward_recv;
    case Action::Kind::backward:
    case Action::Kind::weight_gradients:
      return Timed::backward_compute;
    case Action::Kind::send_backward:
      return Timed::backward_send;
  }
  return Timed::forward_backward;
}

void Executor::act(const Action& action, const LoadBatch& load, bool training) {
  const Timed part = part_of(action.kind);
  const NamedRange range(kTimedParts[static_cast<std::size_t>(part)].name, " of micro-batch ",
                         action.micro_batch);
  const Timers::Scope timing = measure(part, training);
  std::optional<Stream::Working> message;
  if (!computes(action)) message.emplace(stream_, Family::communication);
  Slot& slot =
      slots_.at(static_cast<std::size_t>(action.chunk)).at(static_cast<std::size_t>(action.slot));
  switch (action.kind) {
    case Action::Kind::receive_forward:
      begin(slot, action, load, training);
      receive(forwards_, slot.in, slot, Model::Side::before, Way::forward);
      break;
    case Action::Kind::forward:
      if (place_.is_first(action.chunk)) begin(slot, action, load, training);
      forward(action, slot, training);
      break;
    case Action::Kind::send_forward:
      send(forwards_, slot.out, slot);
      break;
    case Action::Kind::receive_backward:
      receive(backwards_, slot.dout, slot, Model::Side::after, Way::backward);
      break;
    case Action::Kind::backward:
      backward(action, slot);
      break;
    case Action::Kind::send_backward:
      wait(slot.sent);
      send(backwards_, slot.din, slot);
      break;
    case Action::Kind::weight_gradients:
      weight_grads_.run(slot.queued, stream_);
      slot.deferred.rewind(0);
      break;
  }
}

// A slot's new micro-batch: the old one's memory is free once its last message has left.
void Executor::begin(Slot& slot, const Action& action, const LoadBatch& load, bool training) {
  wait(slot.sent);
  slot.keep.rewind(0);
  const Tensor block = slot.keep.alloc(DType::u8, {step_input_bytes(shape_)});
  const StepInput input = step_input_in(block, shape_);
  slot.record = input.record;
  slot.router_weight = input.router_weight;
  slot.batch = input.batch;
  slot.ends = objective_.ends(slot.batch, slot.keep, sum_dtype(shape_.dtype));
  if (stream_.device() == Device::meta) return;
  const StepInput host = stage_ ? step_input_in(stage_->block(), shape_) : input;
  {
    const Stream::Queueing loading(stream_, false);
    slot.first_sample = load(action.micro_batch, host.batch);
    *host.record = {.first_sample = slot.first_sample};
    if (training && experts_) *host.router_weight.as<double>() = router_weight_(action.micro_batch);
  }
  if (stage_) stage_->send(block, stream_);
  if (weight_scale_) objective_.scale_weights(slot.batch, weight_scale_, stream_);
}

// How large the hidden states of all rows of a micro-batch are, on the stage that has most.
std::size_t Executor::hidden_bytes() {
  Slot& slot = slots_.front().front();
  const Tensor block = slot.keep.alloc(DType::u8, {step_input_bytes(shape_)});
  slot.batch = step_input_in(block, shape_).batch;
  const Step s = step(slot, false);
  std::int64_t most = 0;
  for (const Model::Side side : {Model::Side::before, Model::Side::after})
    for (const Shape& shape : model_.wire(s, slot.batch, side))
      if (shape.rank() > 0) most = std::max(most, shape.numel());
  slot.batch = {};
  slot.keep.rewind(0);
  return static_cast<std::size_t>(s.shares_rows() ? most * tensor_->size() : most) *
         size_of(shape_.dtype);
}

Wire Executor::room_for_wire(Slot& slot, Model::Side side, Way way) {
  const Step s = step(slot, false);
  const WireShapes shapes = way == Way::forward ? model_.wire(s, slot.batch, side)
                                                : model_.gradient_wire(s, slot.batch, side);
  Wire wire;
  for (std::size_t i = 0; i < kWireTensors; ++i)
    if (shapes[i].rank() > 0) wire.tensors[i] = slot.keep.alloc(shape_.dtype, shapes[i]);
  return wire;
}

// A copy of it that outlives the layer.
Wire Executor::kept(const Wire& wire, Slot& slot, Model::Side side, Way way) {
  const Wire room = room_for_wire(slot, side, way);
  for (std::size_t i = 0; i < kWireTensors; ++i)
    if (room.tensors[i]) copy(room.tensors[i], wire.tensors[i], stream_);
  return room;
}

void Executor::receive(Ring& from, Wire& wire, Slot& slot, Model::Side side, Way way) {
  wire = room_for_wire(slot, side, way);
  for (const Tensor& tensor : wire.tensors)
    if (tensor) from.receive(tensor).wait();
}

void Executor::send(Ring& to, const Wire& wire, Slot& slot) {
  for (std::size_t i = 0; i < kWireTensors; ++i)
    if (wire.tensors[i]) slot.sent[i] = to.send(wire.tensors[i]);
}

Step Executor::step(Slot& slot, bool training) {
  return {.stream = stream_,
          .keep = slot.keep,
          .layer = layer_,
          .deferred = slot.deferred,
          .weight_grads = weight_grads_,
          .record = slot.record,
          .first_sample = slot.first_sample,
          .dtype = shape_.dtype,
          .chunk = slot.chunk,
          .seed = shape_.seed,
          .training = training,
          .batch_invariant = model_.config().batch_invariant,
          .tokens = {.sequences = shape_.micro_batch_size,
                     .length = slot.batch[Field::ids].numel() / shape_.micro_batch_size,
                     .positions = slot.batch[Field::positions],
                     .first_key = slot.batch[Field::first_key]},
          .probe = training ? probe_ : nullptr,
          .tensor = tensor_.get(),
          .sequence_parallel = shape_.sequence_parallel,
          .tensor_overlap = shape_.tensor_overlap,
          .context = context_ ? &*context_ : nullptr,
          .data = data_.get(),
          .experts = experts_ ? &*experts_ : nullptr,
          .imposed = slot.batch[Field::experts],
          .choices = training ? choices_ : nullptr,
          .largest_scores = training ? largest_scores_ : Tensor(),
          .fp8 = fp8_ ? &*fp8_ : nullptr,
          .sharing = sharing_};
}

// On a GPU as a graph, unless what the host does meanwhile is wanted too.
void Executor::queue(const Work& work, Slot& slot, const std::function<void()>& body) {
  if (stream_.device() != Device::cuda || !graphs_on_ || probe_ != nullptr || sharing_ != nullptr ||
      shape_.tensor_overlap || (gathered_codes() != nullptr && fp8_->casts_whole_weights()) ||
      (context_ && context_->copies()) || stream_.is_measured() || weight_grads_.deferring())
    return body();
  WeightGrads::Written written;
  if (graphs_.run(stream_, work, [&] { written = weight_grads_.written_by(body); })) {
    outcomes_[work] = {slot.keep.mark(), slot.out, slot.din, written};
    return;
  }
  const Outcome& outcome = outcomes_.at(work);
  slot.keep.rewind(outcome.keep);
  slot.out = outcome.out;
  slot.din = outcome.din;
  weight_grads_.add_written(outcome.written);
}

// A stage before the last hands its output on from `keep`, so that it outlives the layer.
void Executor::forward(const Action& action, Slot& slot, bool training) {
  const auto body = [&] {
    const ArenaScope scope(layer_);
    Step s = step(slot, training);
    s.new_weights = action.micro_batch == 0;
    slot.out = {};
    Ends ends = slot.ends;
    if (!training) ends.further_loss = {};  // which an evaluation does not find
    model_.forward(s, slot.out, slot.in, slot.batch, ends, training ? slot.saved.get() : nullptr);
    if (!training && slot.out) slot.out = kept(slot.out, slot, Model::Side::after, Way::forward);
  };
  queue({action.kind, action.chunk, action.slot, action.micro_batch == 0, training}, slot, body);
  if (slot.out) return;
  note_losses(slot, training);
  if (!training && scores_ != nullptr && slot.ends.logits) note_scores(slot.ends.logits);
}

void Executor::note_losses(const Slot& slot, bool training) {
  const std::int64_t micro_batch = loss_count_++;
  const std::size_t terms = training ? objective_.terms().size() : objective_.evaluated();
  for (std::size_t term = 0; term < terms; ++term)
    objective_.sum_losses(term, losses(term).rows(micro_batch, micro_batch + 1), slot.ends,
                          slot.batch, stream_);
}

void Executor::note_scores(const Tensor& scores) {
  with_float_type(scores.dtype(), [&]<class T>() {
    std::vector<T> here(static_cast<std::size_t>(scores.numel()));
    transfer(Tensor(here.data(), scores.dtype(), scores.shape()), scores, stream_);
    stream_.synchronize();
    scores_->insert(scores_->end(), here.begin(), here.end());
  });
}

void Executor::backward(const Action& action, Slot& slot) {
  if (experts_) experts_->weigh_losses(slot.router_weight);
  const auto body = [&] {
    const ArenaScope scope(layer_);
    Step s = step(slot, true);
    s.last = action.micro_batch == last_micro_batch_;
    Wire din;
    const std::size_t queued = weight_grads_.queued();
    model_.backward(s, din, slot.dout, *slot.saved);
    slot.queued = weight_grads_.queued() - queued;
    slot.din = din ? kept(din, slot, Model::Side::before, Way::backward) : Wire();
  };
  queue({action.kind, action.chunk, action.slot, action.micro_batch == 0, true}, slot, body);
}

StepMemory Executor::peak() const {
  StepMemory memory{.chunks = {}, .layer = layer_.peak_bytes()};
  for (const std::vector<Slot>& slots : slots_) {
    StepMemory::Chunk& chunk = memory.chunks.emplace_back();
    chunk.slots = static_cast<int>(slots.size());
    for (const Slot& slot : slots) {
      chunk.keep = std::max(chunk.keep, slot.keep.peak_bytes());
      chunk.deferred = std::max(chunk.deferred, slot.deferred.peak_bytes());
    }
  }
  return memory;
}

std::vector<Executor::Held> Executor::at_peak() const {
  std::vector<Held> all;
  const auto add = [&](const char* name, const Arena& arena) {
    for (const ConstTensor& tensor : arena.at_peak()) all.push_back({name, tensor});
  };
  for (const std::vector<Slot>& chunk : slots_)
    for (const Slot& slot : chunk) {
      add("keep", slot.keep);
      add("deferred", slot.deferred);
    }
  add("layer", layer_);
  return all;
}

// What a schedule does with its first micro-batch: the others need as much.
static Schedule first_of(const Schedule& schedule) {
  Schedule first;
  for (Action action : schedule) {
    action.slot = 0;
    if (action.micro_batch == 0) first.push_back(action);
  }
  return first;
}

StepMemory measure_memory(const Model& model_on_meta, const Objective& objective,
                          const StepShape& shape, const Schedule& training,
                          const Schedule& evaluation, const World& world_on_meta, Stream& meta) {
  const int chunks = std::max(chunk_count(training), chunk_count(evaluation));
  const std::size_t part = kMeasuring / static_cast<std::size_t>(chunks);
  StepMemory room{.chunks = {}, .layer = kMeasuring};
  room.chunks.assign(static_cast<std::size_t>(chunks),
                     {.keep = part, .deferred = part, .slots = 1});
  Executor executor(model_on_meta, objective, shape, room, world_on_meta, meta);
  executor.run(first_of(evaluation), {}, false);
  executor.run(first_of(training), {}, true);
  StepMemory memory = executor.peak();
  for (int chunk = 0; chunk < chunks; ++chunk)
    memory.chunks[static_cast<std::size_t>(chunk)].slots =
        std::max(slot_count(training, chunk), slot_count(evaluation, chunk));
  return memory;
}

}  // namespace mt
