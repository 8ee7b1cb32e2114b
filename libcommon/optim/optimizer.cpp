#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ops/ops.h"

namespace mt {

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
                     Group& ranks)
    : table_(table),
      options_(options),
      ranks_(ranks),
      dtype_(dtype),
      loss_scale_(options.loss_scale) {
  for (const Param& row : table_.rows()) counts_.push_back(row.shape.numel());
  if (distributed()) {
    layout_ = make_layout();
    table_.allocate(device, dtype, true, {layout_.starts, layout_.size()});
  } else {
    table_.allocate(device, dtype, true);
  }
  Need most;
  for (int rank = 0; rank < (distributed() ? ranks_.size() : 1); ++rank) {
    std::vector<Piece> pieces = pieces_of(rank);
    Arena measure(Buffer(Device::meta, kMeasuring));
    const Need need = place(pieces, measure);
    most = {std::max(most.state, need.state), std::max(most.scratch, need.scratch)};
  }
  bytes_ = most.state + most.scratch;
  state_ = Arena(Buffer(device, most.state));
  scratch_ = Arena(Buffer(device, most.scratch));
  pieces_ = pieces_of(ranks_.rank());
  place(pieces_, state_);
}

BufferLayout Optimizer::make_layout() const {
  if (options_.name == "muon") return make_whole_layout(counts_, ranks_.size());
  return mt::make_layout({.counts = counts_, .ranks = ranks_.size()});
}

std::vector<Optimizer::Piece> Optimizer::pieces_of(int rank) const {
  std::vector<Piece> pieces;
  const auto add = [&](std::size_t index, std::int64_t begin, std::int64_t end) {
    const Param& row = table_.rows()[index];
    if (row.trainable)
      pieces.push_back({.row = &row, .begin = begin, .end = end, .rule = rule_of(row)});
  };
  if (distributed())
    for (const OwnedRange& r : owned_ranges(layout_, counts_, rank, ranks_.size()))
      add(r.param, r.begin, r.end);
  else
    for (std::size_t i = 0; i < counts_.size(); ++i) add(i, 0, counts_[i]);
  return pieces;
}

// Places the pieces' states.
Optimizer::Need Optimizer::place(std::vector<Piece>& pieces, Arena& state) const {
  Need need;
  for (Piece& piece : pieces) {
    for (std::size_t i = 0; i < state_names(piece.rule).size(); ++i)
      piece.state.push_back(state.alloc(dtype_, {piece.end - piece.begin}));
    if (piece.rule == Rule::muon)
      need.scratch = std::max(need.scratch, muon_scratch_bytes(*piece.row, dtype_, options_.muon));
  }
  need.state = state.peak_bytes();
  return need;
}

// --- Gradients ----------------------------------------------------------------------------------

void Optimizer::zero_gradients(Stream& stream) const { set_zero(table_.gradients(), stream); }

// This rank's slice of a bucket of `buffer`.
Tensor Optimizer::own_slice(const Tensor& buffer, const Bucket& bucket) const {
  const std::int64_t slice = bucket.slice(ranks_.size());
  const std::int64_t begin = bucket.begin + ranks_.rank() * slice;
  return buffer.rows(begin, begin + slice);
}

void Optimizer::reduce_gradients() {
  const Tensor gradients = table_.gradients();
  if (!distributed()) return ranks_.all_reduce(gradients).wait();
  for (const Bucket& bucket : layout_.buckets)
    ranks_.reduce_scatter(own_slice(gradients, bucket), gradients.rows(bucket.begin, bucket.end))
        .wait();
}

void Optimizer::gather_values() {
  const Tensor values = table_.values();
  for (const Bucket& bucket : layout_.buckets)
    ranks_.all_gather(values.rows(bucket.begin, bucket.end), own_slice(values, bucket)).wait();
}

double Optimizer::all_ranks(double value) {
  ranks_.all_reduce({&value, DType::f64, {1}}).wait();
  return value;
}

// Of all ranks' sum.
double Optimizer::gradient_norm(Stream& stream) {
  const Tensor gradients = table_.gradients();
  if (!distributed()) return std::sqrt(sum_squares(gradients, stream));
  double sum = 0;
  for (const Bucket& bucket : layout_.buckets)
    sum += sum_squares(own_slice(gradients, bucket), stream);
  return std::sqrt(all_ranks(sum));
}

static Tensor part_of(const Tensor& whole, const Optimizer::Piece& piece) {
  return whole.reshape({whole.numel()}).rows(piece.begin, piece.end);
}

std::int64_t Optimizer::count_zeros(Stream& stream) {
  std::int64_t zeros = 0;
  for (const Piece& piece : pieces_)
    zeros += mt::count_zeros(part_of(piece.row->grad, piece), stream);
  return distributed() ? static_cast<std::int64_t>(all_ranks(static_cast<double>(zeros))) : zeros;
}

// --- The step -----------------------------------------------------------------------------------

StepResult Optimizer::step(const StepRates& rates, double divisor, Stream& stream) {
  const double factor = divisor * loss_scale_.value();
  reduce_gradients();
  StepResult result{.grad_norm = gradient_norm(stream) / factor};
  result.skipped = !std::isfinite(result.grad_norm);
  loss_scale_.update(result.skipped);
  result.loss_scale = loss_scale_.value();
  if (result.skipped) return result;
  if (options_.log_num_zeros_in_grad) result.num_zeros = count_zeros(stream);
  // 1e-6 as in Megatron's clip_grad_by_total_norm_fp32.
  const double clip = options_.clip_grad > 0 ? options_.clip_grad / (result.grad_norm + 1e-6) : 1;
  update(rates, std::min(clip, 1.0) / factor, stream);
  if (distributed()) gather_values();
  return result;
}

void Optimizer::update(const StepRates& rates, double gradient_scale, Stream& stream) {
  ++steps_;
  record_.weight_decay = rates.weight_decay;
  record_.bias_correction1 = 1 - std::pow(options_.adam.beta1, static_cast<double>(steps_));
  record_.bias_correction2 = 1 - std::pow(options_.adam.beta2, static_cast<double>(steps_));
  record_.gradient_scale = gradient_scale;
  decoupled_record_ = record_;
  record_.learning_rate = rates.learning_rate;
  decoupled_record_.learning_rate = rates.decoupled_learning_rate;
  for (const Piece& piece : pieces_)
    update(piece, piece.row->embedding_or_output ? &decoupled_record_ : &record_, stream);
}

void Optimizer::update(const Piece& piece, const StepRecord* record, Stream& stream) {
  const Param& row = *piece.row;
  const Tensor p = part_of(row.value, piece), g = part_of(row.grad, piece);
  switch (piece.rule) {
    case Rule::adam:
      return adam(p, piece.state[0], piece.state[1], g, options_.adam, row.learning_rate_mult,
                  row.decay_mult, record, stream);
    case Rule::sgd:
      return sgd(p, piece.state[0], g, options_.sgd_momentum, row.learning_rate_mult,
                 row.decay_mult, record, stream);
    case Rule::muon:
      return muon_step(row, piece.state[0].reshape(row.shape), options_.muon, record, scratch_,
                       stream);
  }
}

}  // namespace mt
