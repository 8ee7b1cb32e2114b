#include "train/run/train_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "model/config/model_config.h"
#include "nn/probe.h"
#include "ops/ops.h"
#include "train/run/batch_loader.h"

namespace mt {

TrainStep::TrainStep(const RunOptions& options, const Parts& parts)
    : options_(options),
      parts_(parts),
      checks_(options.checks, parts.world.all()),
      clock_(parts.stream.device()) {
  if (options.optimizer.loss_scale.is_given())
    parts_.executor.scale_weights_by(parts_.optimizer.loss_scale_on_device());
  if (!options.qk_clip.is_on()) return;
  qk_clip_.emplace(options.qk_clip, parts.task.model(), parts.world, parts.stream);
  parts_.executor.find_largest_scores(qk_clip_->scores());
}

// The gradients of the step, this rank's part of them, and the optimizer's sums().
void TrainStep::forward_backward(const Asked& asked) {
  parts_.optimizer.zero_gradients(parts_.stream);
  if (qk_clip_) qk_clip_->begin();
  BatchLoader loader(options_.batch, options_.compute_dtype(), parts_.task, parts_.task.training(),
                     asked.first_sample, asked.micro_batches, parts_.world);
  {
    const auto timing = parts_.timers.measure(Timed::forward_backward);
    const auto load = [&](int i, const Fields& batch) {
      const auto loading = parts_.timers.measure(Timed::batch_generator);
      return loader.load(i, batch);
    };
    parts_.executor.weigh_routers([&](int i) { return loader.weight(i); });
    const int rank = parts_.world.pipeline().rank();
    const Schedule schedule = options_.ranks.layout.training(rank, asked.micro_batches,
                                                             parts_.executor.may_load_kernels());
    parts_.executor.run(schedule, load, true);
  }
  const bool is_last = parts_.world.pipeline().rank() == parts_.world.pipeline().size() - 1;
  const Tensor sums = parts_.optimizer.sums(terms());
  for (int i = 0; i < terms(); ++i) {
    const std::int64_t at = kRequests + 2 * i;
    const auto term = static_cast<std::size_t>(i);
    const double count = is_last ? loader.count(term) : 0;
    add_up(sums.rows(at, at + 1), parts_.executor.losses(term), parts_.stream);
    transfer(sums.rows(at + 1, at + 2), ConstTensor(&count, DType::f64, {1}), parts_.stream);
  }
  parts_.interruption.put_requests(sums.rows(0, kRequests), parts_.stream);
  sum_losses(parts_.world, sums, static_cast<std::size_t>(terms()));
}

// What all ranks found.
std::vector<double> TrainStep::sum_routers() {
  const Tensor sums = parts_.executor.router_sums();
  if (!sums) return {};
  parts_.world.all().all_reduce(sums).wait();
  std::vector<double> all(static_cast<std::size_t>(sums.numel()));
  transfer({all.data(), DType::f64, sums.shape()}, sums, parts_.stream);
  parts_.stream.synchronize();
  return all;
}

// Each expert's bias becomes larger where it was chosen less often than the mean, and smaller where
// more often (Wang et al.: arXiv:2408.15664, algorithm 1).
template <class T>
static void even_out(std::span<T> bias, std::span<const double> counts, double rate) {
  const double mean =
      std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  for (std::size_t e = 0; e < bias.size(); ++e)
    bias[e] += static_cast<T>(counts[e] < mean ? rate : counts[e] > mean ? -rate : 0);
}

// It becomes the mean of the micro-batches' quantiles, less the mean of all experts'.
template <class T>
static void take_quantiles(std::span<T> bias, std::span<const double> sums, double keeps,
                           double micro_batches) {
  std::vector<double> taken(bias.begin(), bias.end());
  double mean = 0;
  for (std::size_t e = 0; e < taken.size(); ++e) {
    taken[e] = keeps * taken[e] + (1 - keeps) * sums[e] / micro_batches;
    mean += taken[e] / static_cast<double>(taken.size());
  }
  for (std::size_t e = 0; e < taken.size(); ++e) bias[e] = static_cast<T>(taken[e] - mean);
}

// micro_batches: of all ranks.
void TrainStep::update_expert_biases(std::span<const double> routers, std::int64_t micro_batches) {
  const ModelConfig& config = parts_.task.model();
  const RouterSums numbers = router_sums_of(config);
  const auto experts = static_cast<std::size_t>(config.num_experts);
  for (const Param& row : parts_.model.table().rows()) {
    if (!row.is_buffer) continue;
    std::int64_t layer = *row.place.layer;
    if (!row.place.inner.empty())
      layer =
          config.num_layers + layer * config.further_layers() + row.place.inner_layer.value_or(0);
    const auto sums = routers.subspan(static_cast<std::size_t>(layer * numbers.count()));
    with_float_type(row.value.dtype(), [&]<class T>() {
      std::vector<T> bias(experts);
      const Tensor here(bias.data(), row.value.dtype(), row.value.shape());
      transfer(here, row.value, parts_.stream);
      parts_.stream.synchronize();
      if (numbers.quantiles)
        take_quantiles(std::span(bias),
                       sums.subspan(static_cast<std::size_t>(numbers.first_quantile()), experts),
                       config.moe_router_quantile_balancing_ema,
                       static_cast<double>(micro_batches));
      else
        even_out(std::span(bias), sums.subspan(2, experts), config.moe_router_bias_update_rate);
      transfer(row.value, here, parts_.stream);
      parts_.stream.synchronize();
    });
  }
}

// Where there is one loss it has the name that Megatron-LM v0.12 gives it, which knows no global
// one.
static const char* name_of_balance(const std::vector<std::string>& types, std::size_t loss) {
  if (types[loss] == "global_aux_loss") return "global_load_balancing_loss";
  return types[loss] == "seq_aux_loss" && types.size() > 1 ? "seq_load_balancing_loss"
                                                           : "load_balancing_loss";
}

// The means over layers with experts are reported, as in Megatron-LM.
void TrainStep::report_routers(const Begun& begun, Result& result) const {
  if (begun.routers.empty()) return;
  const ModelConfig& config = parts_.task.model();
  const std::vector<std::string>& types = config.moe_router_load_balancing_type;
  const auto experts = static_cast<std::size_t>(config.num_experts);
  const double micro_batches = static_cast<double>(begun.asked.micro_batches),
               ranks = parts_.world.data().size();
  const RouterSums numbers = router_sums_of(config);
  const auto stride = static_cast<std::size_t>(numbers.count());
  std::vector<double> balances(types.size());
  double z = 0, layers = 0;
  for (std::size_t at = 0; at < begun.routers.size(); at += stride) {
    const std::span<const double> counts = std::span(begun.routers).subspan(at + 2, experts);
    const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
    if (sum == 0) continue;
    for (std::size_t loss = 0; loss < types.size(); ++loss)  // a global one is all ranks' together
      balances[loss] += begun.routers[at + loss * (2 + experts)] /
                        (types[loss] == "global_aux_loss" ? micro_batches : micro_batches * ranks);
    z += begun.routers[at + 1] / (micro_batches * ranks);
    ++layers;
    result.experts.push_back(
        {.layer = static_cast<std::int64_t>(at / stride),
         .load = *std::ranges::max_element(counts) * static_cast<double>(experts) / sum,
         .dropped = begun.routers[at + static_cast<std::size_t>(numbers.dropped())] / sum});
  }
  if (layers == 0) return;
  if (!config.has_no_balance_loss())
    for (std::size_t loss = 0; loss < types.size(); ++loss)
      result.losses.push_back({name_of_balance(types, loss), balances[loss] / layers});
  if (config.moe_z_loss_coeff > 0) result.losses.push_back({"z_loss", z / layers});
}

// What the sum of the ranks' gradients is divided by: it is the sum of the data-parallel ranks'
// micro-batches' means, or that over all tokens.
double TrainStep::divisor(double tokens) const {
  return options_.batch.calculate_per_token_loss ? std::max(1.0, tokens)
                                                 : parts_.world.data().size();
}

// The norm of this rank's sum of gradients.
double TrainStep::gradient_norm() {
  std::vector<ConstTensor> parts;
  for (const FlatRows& flat : parts_.model.table().flat_rows())
    if (flat.gradients) parts.push_back(flat.gradients);
  return std::sqrt(sum_squares(parts, parts_.stream));
}

// Ends the run after a step whose loss or gradient is not finite.  The step is run again to see
// where that began.  It has the same bits, unless scales are delayed: those are a later step's by
// now, though what is not finite stays so with any scale.
void TrainStep::failed(const Asked& asked, double loss, double grad_norm) {
  NonFiniteProbe probe;
  parts_.executor.show_to(probe);
  // The gradients of each rank by itself.
  const bool own_gradients = parts_.optimizer.has_own_gradients();
  if (own_gradients) parts_.executor.share(nullptr);
  forward_backward(asked);
  if (own_gradients) probe.look_at_gradients(parts_.model.table(), parts_.stream);
  std::string where;
  if (probe.first())
    where = concat(", first seen in the ", probe.first()->what, " of the module with ",
                   probe.first()->parameter);
  checks_.check_losses(asked.iteration, parts_.executor.fetch_losses(), where);
  if (own_gradients) checks_.check_gradient(asked.iteration, gradient_norm(), where);
  fail(Exit::difference, "iteration ", asked.iteration, ": loss ", loss, ", gradient norm ",
       grad_norm, ": not finite", where.empty() ? ", though every rank's were" : where,
       "; nothing was updated");
}

// What asks for numbers of a step before it changes weights.
void TrainStep::check_before_update(const Asked& asked) {
  const CheckOptions& checks = options_.checks;
  if (!checks.spiky_loss && !checks.large_grads) return;
  std::array<LossSum, kMostLosses> sums = {};
  transfer({sums.data(), DType::f64, {2 * terms()}},
           parts_.optimizer.sums(terms()).rows(kRequests, kRequests + 2 * terms()), parts_.stream);
  parts_.stream.synchronize();
  const Objective& objective = parts_.task.objective();
  const double loss = objective.total(objective.values(sums));
  if (checks.finite && !std::isfinite(loss)) failed(asked, loss, 0);
  ResultChecks::Again again;
  const auto compare = [&](const std::vector<double>& first, const auto& of_step) {
    if (!checks.computes_again()) return;
    again = [&, first, of_step] {
      forward_backward(asked);
      return said_of_both(first, of_step());
    };
  };
  if (checks.spiky_loss) {
    const std::vector<double> losses = parts_.executor.fetch_losses();
    compare(losses, [&] { return parts_.executor.fetch_losses(); });
    checks_.check_losses(asked.iteration, losses, {}, again);
  }
  if (!checks.large_grads) return;
  const double scale =
      parts_.optimizer.loss_scale() * divisor(sums[0].count) / parts_.world.data().size();
  const double norm = gradient_norm();
  compare({norm}, [&] { return std::vector{gradient_norm()}; });
  checks_.check_gradient(asked.iteration, norm / scale, {}, again);
}

std::int64_t TrainStep::samples_of(const Asked& asked) const {
  return asked.micro_batches * options_.batch.micro_batch_size * parts_.world.data().size();
}

void TrainStep::begin(const Asked& asked) {
  const NamedRange range("step ", asked.iteration);
  const Stream::Queueing queueing(parts_.stream);
  clock_.begin(parts_.stream);
  forward_backward(asked);
  if (Fp8Layers* const fp8 = parts_.executor.fp8())
    fp8->update_scales({&parts_.world.tensor(), &parts_.world.data_context()}, parts_.stream);
  std::vector<double> routers = sum_routers();  // once all ranks have chosen
  if (parts_.routing != nullptr)
    parts_.routing->write_before(asked.first_sample + samples_of(asked), parts_.world.all());
  check_before_update(asked);
  update_expert_biases(routers, asked.micro_batches * parts_.world.data().size());
  const NamedRange update("optimizer");
  const auto timing = parts_.timers.measure(Timed::optimizer);
  parts_.optimizer.begin_step(
      {.rates = asked.rates,
       .rates_after_skipped = asked.rates_after_skipped,
       .divisor = options_.batch.calculate_per_token_loss ? 0.0 : parts_.world.data().size(),
       .losses = terms(),
       .all_finite = options_.checks.finite},
      parts_.stream);
  std::optional<double> largest;
  if (qk_clip_) {
    parts_.optimizer.finish_values();
    largest = qk_clip_->end(parts_.model.table(), parts_.optimizer.pieces());
  }
  parts_.task.end_step({.iteration = asked.iteration,
                        .samples = samples_of(asked),
                        .model = parts_.model,
                        .optimizer = parts_.optimizer,
                        .world = parts_.world,
                        .stream = parts_.stream});
  clock_.end(parts_.stream);
  begun_.push_back({asked, std::move(routers), largest});
}

TrainStep::Result TrainStep::end() {
  const Stream::Queueing queueing(parts_.stream);
  const Begun begun = std::move(begun_.front());
  begun_.pop_front();
  const Asked& asked = begun.asked;
  Result result{.update = parts_.optimizer.end_step(parts_.stream),
                .max_attention_logit = begun.max_attention_logit,
                .seconds = clock_.seconds(parts_.stream)};
  const Objective& objective = parts_.task.objective();
  result.losses = objective.values(result.update.losses);
  result.loss = objective.total(result.losses);
  report_routers(begun, result);
  result.divisor = divisor(result.update.losses[0].count);
  if (!options_.checks.finite) return result;
  if (!std::isfinite(result.loss)) failed(asked, result.loss, 0);
  if (!std::isfinite(result.update.grad_norm)) failed(asked, result.loss, result.update.grad_norm);
  return result;
}

}  // namespace mt
