#include "optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ops/kept.h"
#include "tensor/host_copy.h"

namespace mt {

// With the learning rate and with the decoupled one, of a step after one that was not skipped and
// of one after one that was.
using Records = std::array<std::array<StepRecord, 2>, 2>;

const std::vector<std::string>& Optimizer::state_names(Rule rule) {
  static const std::vector<std::string> moments{"exp_avg", "exp_avg_sq"};
  static const std::vector<std::string> momentum{"momentum_buffer"};
  return rule == Rule::adam ? moments : momentum;
}

Optimizer::Rule Optimizer::rule_of(const Param& row) const {
  if (options_.name == "sgd") return Rule::sgd;
  const bool matrix = row.shape.rank() == 2 && !row.embedding_or_output;
  return options_.name == "muon" && matrix ? Rule::muon : Rule::adam;
}

// --- Who keeps what -----------------------------------------------------------------------------

Optimizer::Optimizer(ParamTable& table, Device device, DType dtype, const OptimizerOptions& options,
                     const World& world)
    : table_(table),
      options_(options),
      world_(world),
      buffers_(table, device, dtype, options, world),
      records_(device, sizeof(Records)),
      outcome_(device, sizeof(StepOutcome)),
      outcomes_(device),
      loss_scale_(options.loss_scale.start()) {
  for (Param& row : table.rows())
    if (options.decays(row)) row.decay_mult = 1;
  std::size_t scratch = 0;
  std::vector<std::size_t> ends;  // of each share's pieces
  for (SharedBuffer& buffer : buffers_.all()) {
    if (!buffer.is_trainable()) continue;
    const Need need = measure(buffer);
    bytes_ += need.state;
    scratch = std::max(scratch, need.scratch);
    shares_.push_back({.buffer = &buffer, .state = Arena(Buffer(device, need.state))});
    std::ranges::move(pieces_of(buffer, buffer.sharers().rank()), std::back_inserter(pieces_));
    ends.push_back(pieces_.size());
  }
  bytes_ += scratch;
  scratch_ = Arena(Buffer(device, scratch));
  numbers_ = Buffer(device, (shares_.size() + 2) * sizeof(double));
  for (std::size_t i = 0, begin = 0; i < shares_.size(); begin = ends[i++]) {
    Share& share = shares_[i];
    share.pieces = std::span(pieces_).subspan(begin, ends[i] - begin);
    place(share.pieces, share.buffer->values().dtype(), share.flat, share.state);
    upload_chunks(share);
  }
  set_scaler(loss_scale_);
}

std::vector<Optimizer::Piece> Optimizer::pieces_of(const SharedBuffer& buffer, int rank) const {
  std::vector<Piece> pieces;
  for (const OwnedRange& range : buffer.owned(rank)) {
    const Param& row = table_.rows()[range.param];
    pieces.push_back({.row = &row,
                      .begin = range.begin,
                      .end = range.end,
                      .rule = rule_of(row),
                      .value = buffer.value(range),
                      .gradient = buffer.gradient(range)});
  }
  return pieces;
}

// What the rank of the buffer's sharers needs that needs most.
Optimizer::Need Optimizer::measure(const SharedBuffer& buffer) const {
  // More than any rule needs, but not all addresses: a process may have many ranks.
  std::size_t elements = 0;
  for (const Param* row : buffer.rows()) elements += static_cast<std::size_t>(row->local.numel());
  const std::size_t room = 128 * elements + ((buffer.rows().size() + 1) << 20);
  Need most;
  for (const int rank : buffer.ranks_that_differ()) {
    std::vector<Piece> pieces = pieces_of(buffer, rank);
    Flat flat;
    Arena measured(Buffer(Device::meta, room));
    const Need need = place(pieces, buffer.values().dtype(), flat, measured);
    most = {std::max(most.state, need.state), std::max(most.scratch, need.scratch)};
  }
  return most;
}

bool Optimizer::keeps_own_pieces() const {
  return std::ranges::any_of(shares_,
                             [](const Share& share) { return share.buffer->is_first_copy(); });
}

// Places the pieces' states and masters.
Optimizer::Need Optimizer::place(std::span<Piece> pieces, DType of_values, Flat& flat,
                                 Arena& state) const {
  constexpr std::int64_t kAlignment = 64;  // elements, as in the table of parameters
  const DType dtype = sum_dtype(of_values);
  Need need;
  const auto length = [](const Piece& piece) { return piece.end - piece.begin; };
  const auto room = [&](const Piece& piece) {
    return (length(piece) + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (const Piece& piece : pieces)
    if (piece.rule != Rule::muon) flat.size += room(piece);
  const Rule rule = options_.name == "sgd" ? Rule::sgd : Rule::adam;
  const std::int64_t count = std::ssize(pieces);
  const auto keep_in = [&](DType kept_in) {
    Kept kept{.values = state.alloc(kept_in, {flat.size})};
    if (is_scaled(kept_in)) kept.scales = state.alloc(DType::f32, {2, count});
    return kept;
  };
  for (std::size_t i = 0; i < state_names(rule).size(); ++i)
    flat.state.push_back(keep_in(rule == Rule::adam ? options_.moment_dtype(i, dtype) : dtype));
  if (dtype != of_values) flat.master = keep_in(options_.master_dtype(dtype));
  std::int64_t at = 0;
  for (Piece& piece : pieces) {
    piece.master = piece.value;
    if (piece.rule == Rule::muon) {
      piece.state = {state.alloc(dtype, {length(piece)})};
      piece.scales = {Tensor()};
      need.scratch = std::max(need.scratch, muon_scratch_bytes(*piece.row, dtype, options_.muon));
      continue;
    }
    const auto part = [&](const Tensor& of_all) { return of_all.rows(at, at + length(piece)); };
    const std::int64_t number = &piece - pieces.data();
    const auto scale = [&](const Kept& of_all) {
      return of_all.scales ? of_all.scales.reshape({2 * count}).rows(number, number + 1) : Tensor();
    };
    for (const Kept& of_all : flat.state) {
      piece.state.push_back(part(of_all.values));
      piece.scales.push_back(scale(of_all));
    }
    piece.has_master = static_cast<bool>(flat.master.values);
    if (piece.has_master) {
      piece.master = part(flat.master.values);
      piece.master_scale = scale(flat.master);
    }
    at += room(piece);
  }
  need.state = state.peak_bytes();
  return need;
}

// What update_flat() goes by; a GPU wants it in small parts.
std::vector<UpdateChunk> Optimizer::chunks_of(const Share& share, const Part& part) const {
  const SharedBuffer& buffer = *share.buffer;
  const Tensor values = buffer.values(), gradients = buffer.gradients();
  const std::int64_t most = values.device() == Device::cuda ? kUpdateChunk : values.numel();
  std::vector<UpdateChunk> chunks;
  for (const Piece& piece : share.pieces) {
    if (piece.rule == Rule::muon || piece.row->embedding_or_output != part.decoupled ||
        buffer.turn_of(*piece.row) != part.turn)
      continue;
    const std::int64_t first = element_of(piece.value, values);
    const std::int64_t state = element_of(piece.state[0], share.flat.state[0].values);
    const std::int64_t gradient = element_of(piece.gradient, gradients);
    for (std::int64_t at = 0; at < piece.end - piece.begin; at += most)
      chunks.push_back({.first = first + at,
                        .state = state + at,
                        .count = std::min(most, piece.end - piece.begin - at),
                        .lr_mult = piece.row->learning_rate_mult,
                        .decay_mult = piece.row->decay_mult,
                        .gradient_shift = gradient - first,
                        .piece = &piece - share.pieces.data()});
  }
  return chunks;
}

void Optimizer::upload_chunks(Share& share) {
  const Device device = outcome_.device();
  for (std::size_t i = 0; i < 2 * share.buffer->turns(); ++i) {
    Part part{.turn = i / 2, .decoupled = i % 2 == 1};
    const std::vector<UpdateChunk> chunks = chunks_of(share, part);
    if (chunks.empty()) continue;
    for (const UpdateChunk& chunk : chunks) part.elements += chunk.count;
    if (device != Device::meta) {
      const auto bytes = static_cast<std::int64_t>(chunks.size() * sizeof(UpdateChunk));
      part.storage = Buffer(device, static_cast<std::size_t>(bytes));
      const HostCopy here = HostCopy::for_writing(part.storage.tensor(DType::u8, {bytes}));
      std::memcpy(here.tensor().data(), chunks.data(), here.tensor().bytes());
      here.upload();
      part.chunks = part.storage.tensor(DType::u8, {bytes});
    }
    share.parts.push_back(std::move(part));
  }
}

// Masters begin as the rounded values, as Megatron's do.  An update of less than half the distance
// between neighbours in 16 bits then leaves a weight's copy as it is: the first steps of a warm-up
// in bf16 are behind those in fp32, by 0.04 of the loss of a GPT-2 whose rate begins at 3e-5.
void Optimizer::set_values(const std::function<void(const Param&)>& fill, Stream& stream) {
  buffers_.set_values(fill, stream);
  std::vector<float> wide;
  for (const Piece& piece : pieces_) {
    if (!piece.has_master) continue;
    if (!piece.master_scale) {
      copy(piece.master, piece.value, stream);
      continue;
    }
    stream.synchronize();
    wide.resize(static_cast<std::size_t>(piece.value.numel()));
    read_all(wide, piece.value, {});
    write_all(piece.master, piece.master_scale, wide);
  }
}

// --- Gradients ----------------------------------------------------------------------------------

// Gradients of which each tensor-parallel rank has a part: those that this rank updates.
void Optimizer::sum_over_tensor_ranks() {
  std::vector<Pending> summed;
  for (const Piece& piece : pieces_)
    if (piece.row->summed_over == SummedOver::tp && tensor_of(*piece.row).size() > 1)
      summed.push_back(tensor_of(*piece.row).all_reduce(piece.gradient));
  for (Pending& sum : summed) sum.wait();
}

// Sums up the gradients of a row that several pipeline stages have: this rank's part of it, which
// is the same on all.
void Optimizer::sum_shared() {
  for (const Piece& piece : pieces_)
    if (piece.row->shared)
      world_.sharing()
          .at(static_cast<std::size_t>(piece.row->sharing_stages))
          ->all_reduce(piece.gradient)
          .wait();
}

void Optimizer::over_model(Tensor value) { world_.model().all_reduce(value).wait(); }

double Optimizer::parameter_norm(Stream& stream) {
  buffers_.finish();
  std::array<double, 2> sums = {};  // the second: of experts
  for (const SharedBuffer& buffer : buffers_.all()) {
    if (buffer.rows().front()->packed_as != PackedAs::none) continue;
    const bool of_experts = buffers_.is_of_experts(buffer);
    std::vector<ConstTensor> parts;
    if (buffer.shards_values()) {
      for (const OwnedRange& part : buffer.owned(buffer.sharers().rank()))
        if (counts(table_.rows()[part.param])) parts.push_back(buffer.value(part));
    } else if (world_.model().size() == 1 && !of_experts) {
      parts.push_back(buffer.values());
    } else {
      for (const Param* row : buffer.rows())
        if (counts(*row)) parts.push_back(row->value);
    }
    sums[of_experts ? 1 : 0] += mt::sum_squares(parts, stream);
  }
  const bool whole = has_whole_values();
  const auto over = [&](double& sum, Copies copies, Group& model) {
    const Tensor here(&sum, DType::f64, {1});
    if (!whole) buffers_.sharers(copies).numbers->all_reduce(here).wait();
    model.all_reduce(here).wait();
  };
  over(sums[0], Copies::dense, world_.model());
  if (world_.sizes().experts_apart()) over(sums[1], Copies::experts, world_.expert_model());
  return std::sqrt(sums[0] + sums[1]);
}

std::vector<ConstTensor> Optimizer::counted_gradients(const Share& share) const {
  std::vector<ConstTensor> parts;
  for (const Piece& piece : share.pieces)
    if (counts(*piece.row)) parts.push_back(piece.gradient);
  return parts;
}

// Adds up what put(share, number) puts into a number for each share of experts, or of all else, and
// over the ranks that share the optimizer's state of these.
void Optimizer::add_up_shares(bool of_experts, Tensor sum, const PutNumber& put, Stream& stream) {
  std::vector<const Share*> shares;
  for (const Share& share : shares_)
    if (buffers_.is_of_experts(*share.buffer) == of_experts) shares.push_back(&share);
  if (shares.size() == 1) {
    put(*shares.front(), sum);
  } else {
    const Tensor numbers = numbers_.tensor(DType::f64, {std::ssize(shares)});
    for (std::int64_t i = 0; i < numbers.numel(); ++i)
      put(*shares[static_cast<std::size_t>(i)], numbers.rows(i, i + 1));
    shares.empty() ? set_zero(sum, stream) : add_up(sum, numbers, stream);
  }
  const Copies copies = of_experts ? Copies::experts : Copies::dense;
  buffers_.sharers(copies).numbers->all_reduce(sum).wait();
}

// Adds to the sum over all else of the model what comes of the experts' shares, where they are
// apart.
void Optimizer::add_experts(Tensor sum, const PutNumber& put, Stream& stream) {
  if (!world_.sizes().experts_apart()) return;
  const auto begin = static_cast<std::size_t>(shares_.size() * sizeof(double));
  const Tensor both = numbers_.tensor(DType::f64, {2}, begin), own = both.rows(1, 2);
  transfer(both.rows(0, 1), sum, stream);
  add_up_shares(true, own, put, stream);
  world_.expert_model().all_reduce(own).wait();
  add_up(sum, both, stream);
}

// The sum of squares of the sum of all ranks' gradients; the requests go beside it.
void Optimizer::sum_squares(Stream& stream) {
  const auto of_share = [&](const Share& share, const Tensor& sum) {
    SharedBuffer& buffer = *share.buffer;
    if (world_.model().size() > 1 || buffers_.is_of_experts(buffer))
      return mt::sum_squares(sum, counted_gradients(share), stream);
    const std::vector<Tensor> all = buffer.own_gradients();
    mt::sum_squares(sum, std::vector<ConstTensor>(all.begin(), all.end()), stream,
                    [&](std::size_t part) { buffer.await_sum(part); });
  };
  const Tensor sum = of_outcome(offsetof(StepOutcome, sum_squares), 1);
  add_up_shares(false, sum, of_share, stream);
  over_model(of_outcome(offsetof(StepOutcome, sum_squares), 1 + kRequests));
  add_experts(sum, of_share, stream);
}

void Optimizer::count_zeros(Stream& stream) {
  const auto of_share = [&](const Share& share, const Tensor& zeros) {
    mt::count_zeros(zeros, counted_gradients(share), stream);
  };
  const Tensor zeros = of_outcome(offsetof(StepOutcome, zeros), 1);
  add_up_shares(false, zeros, of_share, stream);
  over_model(zeros);
  add_experts(zeros, of_share, stream);
}

void Optimizer::set_scaler(const LossScaleState& state) {
  loss_scale_ = state;
  if (outcome_.device() == Device::meta) return;
  const HostCopy here = HostCopy::for_writing(
      outcome_.tensor(DType::u8, {sizeof state}, offsetof(StepOutcome, loss_scale)));
  std::memcpy(here.tensor().data(), &state, sizeof state);
  here.upload();
}

// --- The step -----------------------------------------------------------------------------------

void Optimizer::begin_step(const StepOrder& order, Stream& stream) {
  {
    const Stream::Working working(stream, Family::communication);
    buffers_.reduce(stream);
    if (world_.model().size() > 1 || world_.sizes().experts_apart()) buffers_.await_sums();
    sum_over_tensor_ranks();
    sum_shared();
  }
  sum_squares(stream);
  if (options_.log_num_zeros_in_grad) count_zeros(stream);
  ++steps_;
  const std::span<StepRecord> records = put_records(order, stream);
  auto* const outcome = static_cast<StepOutcome*>(outcome_.data());
  decide_update(records, outcome,
                {.loss_scale = options_.loss_scale.rule(),
                 .losses = order.losses,
                 .divisor = order.divisor,
                 .clip_grad = options_.clip_grad,
                 .all_finite = order.all_finite},
                stream);
  outcomes_.send(outcome, stream);
  if (stream.device() == Device::cpu && outcome->skipped != 0) return;
  for (const Share& share : shares_) update(share, records, stream);
}

StepResult Optimizer::end_step(Stream& stream) {
  const StepOutcome outcome = outcomes_.receive(stream);
  StepResult result{.grad_norm = outcome.grad_norm, .skipped = outcome.skipped != 0};
  std::ranges::copy(outcome.losses, result.losses.begin());
  std::ranges::copy(outcome.requests, result.requests.begin());
  if (result.skipped)
    --steps_;
  else if (options_.log_num_zeros_in_grad)
    result.num_zeros = static_cast<std::int64_t>(outcome.zeros);
  loss_scale_ = outcome.loss_scale;
  result.loss_scale = loss_scale_.scale;
  return result;
}

// On the device; returns those that decide_update() completes.
std::span<StepRecord> Optimizer::put_records(const StepOrder& order, Stream& stream) {
  const auto record_of = [&](const StepRates& rates, double learning_rate, std::int64_t steps) {
    const auto bias_correction = [&](double beta) {
      return 1 - std::pow(beta, static_cast<double>(steps));
    };
    return StepRecord{.learning_rate = learning_rate,
                      .weight_decay = rates.weight_decay,
                      .bias_correction1 = bias_correction(options_.adam.beta1),
                      .bias_correction2 = bias_correction(options_.adam.beta2)};
  };
  const auto both = [&](const StepRates& rates, std::int64_t steps) {
    return std::array{record_of(rates, rates.learning_rate, steps),
                      record_of(rates, rates.decoupled_learning_rate, steps)};
  };
  const bool known = outcomes_.under_way() == 0;
  const Records records{both(order.rates, steps_),
                        both(order.rates_after_skipped, known ? steps_ : steps_ - 1)};
  const Shape bytes{sizeof records};
  transfer(records_.tensor(DType::u8, bytes), ConstTensor(records.data(), DType::u8, bytes),
           stream);
  return {static_cast<StepRecord*>(records_.data()), records[0].size()};
}

void Optimizer::update(const Share& share, std::span<const StepRecord> records, Stream& stream) {
  SharedBuffer& buffer = *share.buffer;
  for (const Piece& piece : share.pieces)
    if (piece.rule == Rule::muon)
      muon_step(*piece.row, piece.state[0].reshape(piece.row->shape), options_.muon, records.data(),
                scratch_, stream);
  auto part = share.parts.begin();
  for (std::size_t turn = 0; turn < buffer.turns(); ++turn) {
    for (; part != share.parts.end() && part->turn == turn; ++part)
      update_flat(share, *part, &records[part->decoupled ? 1 : 0], stream);
    const Stream::Working working(stream, Family::communication);
    buffer.gather(turn);
  }
  for (const Kept& kept : share.flat.state) take_scales(kept, records.data(), stream);
  take_scales(share.flat.master, records.data(), stream);
}

void Optimizer::update_flat(const Share& share, const Part& part, const StepRecord* record,
                            Stream& stream) {
  const Flat& flat = share.flat;
  const Tensor values = share.buffer->values();
  const bool has_masters = static_cast<bool>(flat.master.values);
  const FlatUpdate update{.p = has_masters ? flat.master : Kept{values},
                          .copy = has_masters ? values : Tensor(),
                          .g = share.buffer->gradients(),
                          .chunks = part.chunks,
                          .elements = part.elements};
  if (options_.name == "sgd")
    sgd(update, flat.state[0].values, options_.sgd_momentum, record, stream);
  else
    adam(update, flat.state[0], flat.state[1], options_.adam, record, stream);
}

}  // namespace mt
