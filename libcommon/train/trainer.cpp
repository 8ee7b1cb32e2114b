#include "train/trainer.h"

#include <chrono>
#include <cmath>

#include "comm/group.h"
#include "model/gpt.h"
#include "ops/ops.h"
#include "train/checkpoint.h"
#include "train/executor.h"
#include "train/plan.h"
#include "train/run_log.h"

namespace mt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Worker threads of one rank: an equal share of what all may use.
int threads_of_rank(const TrainOptions& options) {
  return std::max(1, worker_threads(options.threads) / options.ranks);
}

std::string how_to_go_on(const TrainOptions& options) {
  if (options.save.empty()) return "; nothing was saved, for want of --save";
  if (goes_on_in_place(options)) return ", saved; run the same command to go on";
  return concat(", saved; run the same command with --load ", options.save, " to go on");
}

// One rank of the run.
class Trainer {
 public:
  Trainer(const TrainOptions& options, const TrainData& data, const Plan& plan, Group& ranks,
          Signals* signals, const Log& log);
  void run(const std::string& options_json);

 private:
  struct Sums {
    double loss = 0, tokens = 0;
  };
  Sums run_batch(const GptDataset& samples, std::int64_t consumed, bool training);
  StepReport train_step();
  double gradient_norm();
  void evaluate(Split which, const char* name, const char* where);
  std::optional<Signal> poll_signal();
  [[noreturn]] void stopped(Signal signal) const;
  void save();
  void report_start(const std::string& options_json);
  void report_end(const char* reason);
  RankMemory memory() const;
  bool speaks() const { return ranks_.rank() == 0; }

  const TrainOptions& options_;
  const TrainData& data_;
  Group& ranks_;
  Signals* signals_;  // on rank 0
  Log log_;
  Stream stream_;
  Gpt model_;
  Adam adam_;
  std::unique_ptr<Group> pipeline_ = make_single_group();
  Executor executor_;
  Schedule training_, evaluation_;
  StepRecord record_;
  TrainCounters counters_;
  RunLog run_log_;
  MegatronLog megatron_log_;
};

Gpt& allocated(Gpt& model, DType dtype) {
  model.table().allocate(Device::cpu, dtype, true);
  return model;
}

Trainer::Trainer(const TrainOptions& options, const TrainData& data, const Plan& plan, Group& ranks,
                 Signals* signals, const Log& log)
    : options_(options),
      data_(data),
      ranks_(ranks),
      signals_(signals),
      log_(log),
      stream_(Device::cpu, threads_of_rank(options)),
      model_(options.model),
      adam_(allocated(model_, options.compute_dtype()).table(), options.adam),
      executor_(model_, step_shape(options), plan.memory.step, *pipeline_, stream_),
      training_(one_f_one_b(0, 1, options.micro_batches())),
      evaluation_(forward_only(0, 1, options.micro_batches())),
      run_log_(speaks() ? options.run_log : "", speaks() && options.json),
      megatron_log_(log, options.log_interval, options.train_iters) {
  model_.initialize(options.seed, stream_);
  if (options.load.empty()) return;
  if (const auto loaded = load_training(options, model_, adam_, data, ranks))
    counters_ = *loaded;
  else
    log_.note(options.load + ": no checkpoint there, starting from initial weights");
}

// Forward, and in training backward, of one global batch; sums over all ranks.
Trainer::Sums Trainer::run_batch(const GptDataset& samples, std::int64_t consumed, bool training) {
  const std::int64_t size = options_.micro_batch_size;
  Sums sums;
  const LoadBatch load = [&](int micro_batch, const Batch& batch) {
    const std::int64_t first = consumed + (micro_batch * ranks_.size() + ranks_.rank()) * size;
    if (first + size > samples.size())
      fail(Exit::bad_config, "sample ", first + size, " is asked for, of ", samples.size());
    sums.tokens += fill_batch(samples, first, size, options_.micro_batches(), batch);
    return first;
  };
  sums.loss = executor_.run(training ? training_ : evaluation_, load, training);
  double values[] = {sums.loss, sums.tokens};
  ranks_.all_reduce({values, DType::f64, {2}}).wait();
  return {values[0], values[1]};
}

double Trainer::gradient_norm() {
  return std::sqrt(sum_squares(model_.table().gradients(), stream_)) / ranks_.size();
}

StepReport Trainer::train_step() {
  const Clock::time_point start = Clock::now();
  StepReport report{.learning_rate = options_.lr.at(counters_.consumed_train_samples)};
  set_zero(model_.table().gradients(), stream_);
  const Sums sums = run_batch(*data_.split(Split::train), counters_.consumed_train_samples, true);
  ranks_.all_reduce(model_.table().gradients()).wait();

  report.loss = sums.loss / sums.tokens;
  report.grad_norm = gradient_norm();
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm))
    fail(Exit::difference, "iteration ", counters_.iteration + 1, ": loss ", report.loss,
         ", gradient norm ", report.grad_norm, ": not finite; nothing was updated");
  const double clip = options_.clip_grad > 0 ? options_.clip_grad / (report.grad_norm + 1e-6) : 1;
  record_.gradient_scale = std::min(clip, 1.0) / ranks_.size();
  adam_.begin_step(record_, report.learning_rate, options_.weight_decay);
  adam_.step(model_.table(), &record_, stream_);

  counters_.iteration += 1;
  counters_.consumed_train_samples += options_.batch_size();
  counters_.floating_point_operations +=
      options_.model.flops(options_.batch_size(), options_.data.seq_length);
  report.iteration = counters_.iteration;
  report.consumed_samples = counters_.consumed_train_samples;
  report.global_batch_size = options_.batch_size();
  report.tokens = options_.batch_size() * options_.data.seq_length;
  report.next_learning_rate = options_.lr.at(counters_.consumed_train_samples);
  report.seconds = seconds_since(start);
  return report;
}

// Validation goes on through its samples from one evaluation to the next; the test starts at its
// first.
void Trainer::evaluate(Split which, const char* name, const char* where) {
  const GptDataset* samples = data_.split(which);
  if (samples == nullptr || options_.eval_iters == 0) return;
  const bool valid = which == Split::valid;
  // Another --eval-iters or --eval-interval before may have consumed more than there are now.
  const std::int64_t whole = samples->size() / options_.batch_size() * options_.batch_size();
  std::int64_t consumed = valid ? counters_.consumed_valid_samples : 0;
  Sums total;
  for (std::int64_t i = 0; i < options_.eval_iters; ++i) {
    const Sums sums = run_batch(*samples, consumed % std::max<std::int64_t>(1, whole), false);
    total.loss += sums.loss;
    total.tokens += sums.tokens;
    consumed += options_.batch_size();
  }
  if (valid) counters_.consumed_valid_samples = consumed;
  if (!speaks()) return;
  const double loss = total.loss / total.tokens;
  JsonWriter json = RunLog::event("eval");
  json.member("split", name).member("iteration", counters_.iteration).member("loss", loss);
  run_log_.write(json);
  megatron_log_.evaluation(counters_.iteration, where, loss);
}

// All ranks learn what came to rank 0.
std::optional<Signal> Trainer::poll_signal() {
  double number = 0;
  if (signals_ != nullptr)
    if (const auto signal = signals_->poll())
      number = static_cast<double>(static_cast<int>(*signal));
  ranks_.broadcast({&number, DType::f64, {1}}, 0).wait();
  if (number == 0) return std::nullopt;
  return static_cast<Signal>(static_cast<int>(number));
}

void Trainer::save() {
  if (options_.save.empty()) return;
  if (!std::isfinite(sum_squares(model_.table().values(), stream_)))
    fail(Exit::difference, "iteration ", counters_.iteration,
         ": weights are not finite; nothing was saved");
  if (speaks()) {
    const Clock::time_point start = Clock::now();
    save_training(options_, counters_, model_, adam_, data_);
    JsonWriter json = RunLog::event("save");
    json.member("iteration", counters_.iteration).member("seconds", seconds_since(start));
    run_log_.write(json);
    log_.event("saved", {{"iteration", counters_.iteration}, {"folder", options_.save}});
  }
  ranks_.barrier();
}

RankMemory Trainer::memory() const {
  return {.parameters = model_.table().values().bytes(),
          .gradients = model_.table().gradients().bytes(),
          .optimizer = adam_.bytes(),
          .step = executor_.peak()};
}

void Trainer::report_start(const std::string& options_json) {
  JsonWriter json = RunLog::event("start");
  json.member("iteration", counters_.iteration)
      .member("parameters", model_.table().count())
      .key("options")
      .raw(options_json);
  run_log_.write(json);
}

void Trainer::report_end(const char* reason) {
  if (!speaks()) return;
  JsonWriter json = RunLog::event("end");
  json.member("reason", reason).member("iteration", counters_.iteration).key("memory");
  memory().write(json);
  run_log_.write(json);
}

// Ends the run after a signal: with Exit::stopped if it can go on later, else as the signal would
// have.
void Trainer::stopped(Signal signal) const {
  const Exit died = static_cast<Exit>(128 + static_cast<int>(signal));
  fail(options_.save.empty() ? died : Exit::stopped, "stopped by ", signal_name(signal),
       " after iteration ", counters_.iteration, how_to_go_on(options_));
}

void Trainer::run(const std::string& options_json) {
  if (speaks()) report_start(options_json);
  std::int64_t saved_at = counters_.iteration;
  while (counters_.iteration < options_.train_iters) {
    const StepReport report = train_step();
    if (speaks()) {
      run_log_.step(report);
      megatron_log_.step(report);
    }
    if (counters_.iteration % options_.eval_interval == 0) evaluate(Split::valid, "valid", "");
    const std::optional<Signal> signal = poll_signal();
    const bool stop = signal && *signal != Signal::user2;
    const bool due = options_.save_interval && counters_.iteration % *options_.save_interval == 0;
    if (due || stop) {
      save();
      saved_at = counters_.iteration;
    }
    if (stop) {
      report_end(signal_name(*signal));
      stopped(*signal);
    }
    if (signal && speaks())
      log_.event("state", {{"iteration", counters_.iteration},
                           {"consumed_samples", counters_.consumed_train_samples}});
  }
  // Saved first: a finished run that is started again evaluates the same samples again.
  if (saved_at != counters_.iteration) save();
  evaluate(Split::valid, "valid", " on validation set");
  evaluate(Split::test, "test", " on test set");
  report_end("done");
}

}  // namespace

void train(const TrainOptions& options, TrainData& data, Signals& signals, const Log& log,
           const std::string& options_json) {
  const Plan plan = make_plan(options);
  if (!plan.fits())
    fail(Exit::out_of_memory, "out of host memory: ", plan.ranks, " ranks need ",
         plan.memory.total(), " bytes each, this machine has ", plan.host_memory);
  data.build(options.length(), options.seed);
  if (data.split(Split::train) == nullptr)
    fail(Exit::bad_config, "--split ", options.data.split, ": leaves nothing to train on");
  prepare_save_folder(options, log);
  run_ranks(options.ranks, [&](Group& ranks) {
    Trainer trainer(options, data, plan, ranks, ranks.rank() == 0 ? &signals : nullptr,
                    ranks.size() > 1 ? log.for_rank(ranks.rank()) : log);
    trainer.run(options_json);
  });
}

}  // namespace mt
