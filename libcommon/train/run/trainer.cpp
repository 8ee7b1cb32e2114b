#include "train/run/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/progress.h"
#include "comm/world.h"
#include "data/samples/train_data.h"
#include "ops/ops.h"
#include "train/check/replica_check.h"
#include "train/run/save_folder.h"

namespace mt {

using Clock = StepClock::Clock;

static constexpr int kStepsToWarmUp = 10;
static constexpr double kLongRun = 7200;  // seconds to the end

static double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Trainer::Trainer(const RunOptions& options, const Task& task, const Plan& plan, const World& world,
                 const Others& drawing, RoutingFiles* routing, Stream& stream,
                 const Interruption::Limits& limits, const Log& log)
    : options_(options),
      task_(task),
      world_(world),
      drawing_(drawing),
      interruption_(world.all(), limits, options.device()),
      log_(log),
      parameters_(plan.parameters),
      stream_(stream),
      profiler_(options.report, options.compute_dtype(),
                options.batch.schedule.changes() ? PerFamily<Cost>{} : plan.of(world).families,
                world.all().rank(), stream_),
      model_(task.make_model(options.ranks.layout.of_rank(world.position().pp),
                             tensor_part(options.ranks.parallel, world))),
      optimizer_(model_->table(), options.device(), options.compute_dtype(), options.optimizer,
                 world),
      schedule_(options.schedule),
      executor_(*model_, task.objective(), step_shape(options, task), plan.of(world).memory.step,
                world, stream_),
      evaluator_(options, task, executor_, world),
      teacher_(task),
      flops_of_sample_(task.flops(1)),
      reports_(options, task.model(), log, world.all()),
      routing_(routing),
      step_(options, {task, *model_, optimizer_, executor_, world, stream_, reports_.timers(),
                      interruption_, routing}) {
  if (task.draws()) {
    const int together = task.drawn_work()->together;
    drawing_ranks_ = DrawingModel::split(options, together, world.all());
    if (together > 1)
      together_ = {.group = drawing_ranks_ ? drawing_ranks_.get() : &world.tensor(),
                   .stream = &stream};
    if (DrawingModel::is_due(options, together))
      drawn_by_.emplace(options, task, world.all().rank());
  }
  executor_.use_graphs(options.cuda_graphs);
  executor_.measure_with(reports_.timers());
  executor_.share(optimizer_.sharing());
  if (WeightCodes* const codes = executor_.gathered_codes())
    optimizer_.gather_codes(*codes, stream_);
  if (routing != nullptr) executor_.keep_choices(&routing->choices());
  stream_.reserve_work(plan.of(world).memory.work);
  search_products(stream_);
  if (world.all().rank() == 0 && !options.checkpoint.save.empty())
    tokenizer_ = {
        .files = tokenizer_copies(task.tokenizer_options()),
        .manifest = tokenizer_manifest(task.tokenizer_options(), task.tokenizer().identity())};
  const bool loads =
      !options.checkpoint.load.empty() || !options.checkpoint.pretrained_checkpoint.empty();
  draw(!loads);
  if (!loads) return;
  TrainingState state = this->state();
  const Loaded loaded = load_training(options, state, world, log);
  if (loaded == Loaded::nothing) {
    log_.note(options.checkpoint.load + ": no checkpoint there, starting from initial weights");
    if (teacher_) draw(true);
  }
  if (loaded == Loaded::lasting) saved_at_ = counters_.iteration;
  options.check_steps_from(counters_.consumed_train_samples);
  if (options.evaluation.skip_train) return;
  task.training().order.check_consumed(counters_.consumed_train_samples);
  task.training().samples->check_consumed(counters_.consumed_train_samples);
}

// Gives all rows their initial values, of a teacher those that it has.
void Trainer::draw(bool with_teacher) {
  optimizer_.set_values(
      [&](const Param& row) {
        if (!with_teacher || !teacher_.fill(row))
          initialize(row, row.value, options_.seed, stream_);
      },
      stream_);
}

// Whole micro-batches of empty samples are left out, but where stages have several chunks, whose
// memory is of so many.
int Trainer::micro_batches_of(const BatchOptions::StepSize& size) const {
  if (options_.ranks.layout.chunks > 1) return size.micro_batches;
  const std::int64_t each = options_.batch.micro_batch_size * world_.data().size(),
                     filled = task_.filled(counters_.consumed_train_samples, size.computed);
  return static_cast<int>(
      std::clamp<std::int64_t>((filled + each - 1) / each, 1, size.micro_batches));
}

// A step's end, and all that is told of it, comes when the next one has begun, if that may be, or
// when somebody wants to know how the run stands.
void Trainer::begin_step(const BatchOptions::StepSize& size) {
  if (const auto seconds = std::exchange(warm_step_seconds_, std::nullopt)) search_again(*seconds);
  if (profiler_.is_bound(counters_.iteration)) end_step();
  draw_samples(size);
  const int micro_batches = micro_batches_of(size);
  profiler_.before_step(counters_.iteration);
  const std::int64_t samples = counters_.scheduled_samples;
  try {
    step_.begin({.iteration = counters_.iteration + 1,
                 .first_sample = counters_.consumed_train_samples,
                 .micro_batches = micro_batches,
                 .rates = schedule_.at(samples),
                 .rates_after_skipped =
                     schedule_.at(begun_ ? samples - begun_->global_batch_size : samples)});
  } catch (const Error&) {
    if (world_.all().size() == 1) end_step();  // others may not come that far
    throw;
  }
  end_step();
  const double learning_rate = schedule_.at(counters_.scheduled_samples).learning_rate;
  counters_.iteration += 1;
  counters_.scheduled_samples += size.computed;
  counters_.consumed_train_samples += size.computed;
  counters_.skipped_train_samples += size.asked - size.computed;
  const std::int64_t computed =
      micro_batches * options_.batch.micro_batch_size * world_.data().size();
  const double flops = static_cast<double>(computed) * flops_of_sample_;
  counters_.floating_point_operations += flops;
  begun_ = {.iteration = counters_.iteration,
            .consumed_samples = counters_.consumed_train_samples,
            .skipped_samples = counters_.skipped_train_samples,
            .global_batch_size = size.computed,
            .tokens = computed * task_.seq_length(),
            .flops = flops,
            .learning_rate = learning_rate};
  if (options_.report.log_params_norm) begun_->params_norm = optimizer_.parameter_norm(stream_);
  const auto profile = profiler_.after_step(counters_.iteration);
  if (profile) reports_.profile(*profile);
  if (profiler_.is_bound(counters_.iteration) || !step_.may_begin_early()) end_step();
}

// Waits for the end of the step that has not ended, if there is one, and tells of it.
void Trainer::end_step() {
  if (!begun_) return;
  StepReport report = *std::exchange(begun_, std::nullopt);
  const TrainStep::Result result = step_.end();
  ended_at_ = report.iteration;
  report.losses = result.losses;
  if (!report.losses.empty())
    for (const TermValue& value : task_.told()) report.losses.push_back(value);
  report.experts = result.experts;
  report.grad_norm = result.update.grad_norm;
  report.num_zeros = result.update.num_zeros;
  report.max_attention_logit = result.max_attention_logit;
  report.loss_scale = result.update.loss_scale;
  report.skipped = result.update.skipped;
  if (report.skipped) counters_.scheduled_samples -= report.global_batch_size;
  const StepRates next = schedule_.at(counters_.scheduled_samples);
  report.next_learning_rate = next.learning_rate;
  if (schedule_.has_decoupled()) report.next_decoupled_learning_rate = next.decoupled_learning_rate;
  report.seconds = result.seconds;
  interruption_.step_ended(result.seconds);
  reports_.step(report, memory());
  interruption_.take(result.update.requests);
  if (++ended_ == kStepsToWarmUp) warm_step_seconds_ = report.seconds;
}

// In a long run a GPU's products are searched for a second time, which pays within two hours.  All
// ranks do so, or none: what a pipeline's next step does first depends on it.
void Trainer::search_again(double step_seconds) {
  end_step();
  stream_.synchronize();
  double left =
      static_cast<double>(options_.length.train_iters - counters_.iteration) * step_seconds;
  world_.all().all_reduce({&left, DType::f64, {1}}, Reduction::max).wait();
  if (left <= kLongRun) return;
  const bool searches = search_products_again(stream_);
  executor_.forget_graphs();
  if (!searches) return;
  log_.note("the fastest matrix products are searched for again, once for this kind of GPU");
}

// Validation goes on through its samples from one evaluation to the next; the test, what
// --skip-train evaluates, and a validation of all there is start at the first.  An evaluation that
// is interrupted counts as done.
void Trainer::evaluate(Split which, const char* name, const char* where) {
  const bool all = which == Split::valid && task_.has_full_validation();
  const bool goes_on = which == Split::valid && !options_.evaluation.skip_train && !all;
  if (options_.evaluation.eval_iters == 0 && !all) return;
  end_step();
  if (which == Split::valid && task_.validates()) return validate_drawn();
  reports_.train_progress().doing("evaluating");
  const std::int64_t size = options_.batch.evaluated();
  const std::int64_t first = goes_on ? counters_.consumed_valid_samples : 0;
  for (const auto& set : task_.evaluations(which)) {
    const std::int64_t batches =
        all ? (set->samples->size() + size - 1) / size : options_.evaluation.eval_iters;
    auto losses = evaluator_.run(*set, first, batches, [&] { return interruption_.poll(); });
    if (!losses) {
      log_.note(concat("evaluation at iteration ", counters_.iteration, " given up"));
      break;
    }
    reports_.evaluation({.split = name,
                         .set = set->name,
                         .where = where,
                         .iteration = counters_.iteration,
                         .consumed_samples = counters_.consumed_train_samples,
                         .losses = std::move(*losses)});
  }
  if (goes_on && !task_.evaluations(which).empty())
    counters_.consumed_valid_samples += options_.evaluation.eval_iters * size;
  reports_.train_progress().doing("training");
}

// What an evaluation of all of a set comes to; nothing where it is interrupted.
std::optional<std::vector<double>> Trainer::score(const SampleSet& set) {
  const std::int64_t size = options_.batch.evaluated(), samples = set.samples->size();
  std::vector<double> scores;
  const auto losses = evaluator_.run(
      set, 0, (samples + size - 1) / size, [&] { return interruption_.poll(); }, &scores);
  if (!losses) return std::nullopt;
  scores.resize(static_cast<std::size_t>(samples * task_.objective().scores()));
  return scores;
}

void Trainer::begin_task() {
  task_.begin(counters_.iteration, [&](const SampleSet& set) {
    reports_.train_progress().doing("evaluating");
    auto scores = score(set);
    if (!scores) stopped(*interruption_.signal());
    reports_.train_progress().doing("training");
    return std::move(*scores);
  });
}

// Evaluates all that a task has to say of itself at an epoch's end; interrupted, it says nothing.
void Trainer::end_epoch(std::int64_t epoch) {
  end_step();
  reports_.train_progress().doing("evaluating");
  std::vector<Task::SetScores> sets;
  for (const auto& set : task_.evaluations(Split::test)) {
    const Clock::time_point start = Clock::now();
    auto scores = score(*set);
    if (!scores) {
      log_.note(concat("evaluation at iteration ", counters_.iteration, " given up"));
      return;
    }
    sets.push_back({.scores = std::move(*scores), .seconds = seconds_since(start)});
  }
  if (world_.all().rank() == 0)
    reports_.epoch(epoch, counters_.iteration, task_.end_epoch(epoch, sets));
  reports_.train_progress().doing("training");
}

void Trainer::save_once() {
  if (std::exchange(saved_at_, counters_.iteration) != counters_.iteration) save(true);
}

void Trainer::save(bool lasting) {
  if (options_.checkpoint.save.empty()) return;
  end_step();
  if (!std::isfinite(optimizer_.parameter_norm(stream_)))
    fail(Exit::difference, "iteration ", counters_.iteration,
         ": weights are not finite; nothing was saved");
  finish_save(true);
  task_.await_drawn(drawing());
  const Clock::time_point start = Clock::now();
  reports_.train_progress().doing("saving");
  saving_.emplace(options_, lasting, state(), world_, [this] { interruption_.count_written(); });
  ++saves_;
  save_report_ = {
      .folder = saving_->folder(),
      .iteration = counters_.iteration,
      .seconds = seconds_since(start),
      .flops = counters_.floating_point_operations,
      .tokens = static_cast<double>(counters_.consumed_train_samples * task_.seq_length()),
      .async = options_.checkpoint.async_save};
  if (options_.checkpoint.async_save)
    reports_.saving(save_report_);
  else
    finish_save(true);
  reports_.train_progress().doing("training");
}

// Publishes the checkpoint that is on its way, if there is one: now, or if all is known to be
// written.
void Trainer::finish_save(bool wait) {
  if (!saving_ || !(wait || interruption_.all_written(saves_))) return;
  const Clock::time_point start = Clock::now();
  saving_->publish();
  saving_.reset();
  if (save_report_.iteration == ended_at_) interruption_.all_saved();
  save_report_.seconds += seconds_since(start);
  reports_.saved(save_report_);
}

RankMemory Trainer::memory() const {
  const Fp8Layers* const fp8 = executor_.fp8();
  return {.parameters = optimizer_.value_bytes() + (fp8 != nullptr ? fp8->bytes() : 0),
          .gradients = optimizer_.gradient_bytes(),
          .optimizer = optimizer_.bytes(),
          .work = stream_.work_bytes(),
          .copy = drawn_by_ ? drawn_by_->bytes() : 0,
          .routes = route_bytes(options_, task_, routing_),
          .step = executor_.peak()};
}

void Trainer::report_end(const std::string& reason) {
  end_step();
  finish_save(true);
  optimizer_.finish_values();
  if (const auto profile = profiler_.at_end(counters_.iteration)) reports_.profile(*profile);
  reports_.end(reason, counters_.iteration, memory());
}

// Ends the run after a signal: with Exit::stopped if it can go on later, else as the signal would
// have.
void Trainer::stopped(Signal signal) const {
  const Exit died = static_cast<Exit>(128 + static_cast<int>(signal));
  fail(options_.checkpoint.save.empty() ? died : Exit::stopped, "stopped by ", signal_name(signal),
       " after iteration ", counters_.iteration, how_to_go_on(options_.checkpoint));
}

// --iterations-to-skip: the samples are consumed, and nothing else happens.
void Trainer::skip_step(const BatchOptions::StepSize& size) {
  end_step();
  counters_.iteration += 1;
  counters_.consumed_train_samples += size.computed;
  counters_.skipped_train_samples += size.computed;
  log_.event("skipped", {{"iteration", counters_.iteration}});
}

// Under a ramp-up Megatron saves before the first of the steps with more micro-batches.
void Trainer::save_before_larger_steps(int micro_batches) {
  const int before = std::exchange(micro_batches_, micro_batches);
  if (before != 0 && micro_batches > before) save_once();
}

// Ends the run if a signal came.  After an evaluation or a save, during which one may have come,
// a GPU has nothing to do, and ranks ask one another before the next steps.
void Trainer::heed_signals() {
  if (!begun_ && step_.may_begin_early()) interruption_.poll();
  if (!interruption_.signal()) return;
  save_once();
  task_.dismiss(drawing());
  report_end(signal_name(*interruption_.signal()));
  stopped(*interruption_.signal());
}

// After a step, in Megatron's order: a signal, the save that is due, the time, the interval.  What
// came with the step before is known of one that has not ended.  Returns why the run ends here.
std::optional<std::string> Trainer::save_and_decide() {
  const auto is_due = [&](const std::optional<std::int64_t>& interval) {
    return interval && counters_.iteration % *interval == 0;
  };
  const bool exits = is_due(options_.length.exit_interval);
  if (exits || interruption_.time_is_over()) end_step();
  heed_signals();
  if (is_due(options_.checkpoint.save_interval))
    save_once();
  else if (is_due(options_.checkpoint.non_persistent_save_interval))
    save(false);
  heed_signals();
  if (interruption_.time_is_over()) {
    save_once();
    log_.note(concat("exiting program after ", *options_.length.exit_duration_in_mins, " minutes"));
    return "exit-duration";
  }
  if (exits) {
    save_once();
    log_.note(concat("exiting program at iteration ", counters_.iteration));
    return "exit-interval";
  }
  return std::nullopt;
}

void Trainer::compare_replicas() {
  end_step();
  optimizer_.finish_values();
  ReplicaCheck(model_->table(), world_, stream_).check(counters_.iteration);
}

// Returns false if the run ends before its last step.
bool Trainer::train_to_the_end() {
  if (options_.checks.compares_replicas()) compare_replicas();
  while (counters_.iteration < options_.length.train_iters) {
    const auto size = options_.batch.step_size(counters_.consumed_train_samples);
    save_before_larger_steps(size.micro_batches);
    if (std::ranges::count(options_.checks.iterations_to_skip, counters_.iteration) > 0) {
      skip_step(size);
      continue;
    }
    begin_step(size);
    if (options_.checks.compares_replicas_after(counters_.iteration)) compare_replicas();
    finish_save(false);
    if (counters_.iteration % options_.evaluation.eval_interval == 0)
      evaluate(Split::valid, "valid", "");
    if (const std::int64_t steps = task_.steps_of_epoch();
        steps > 0 && counters_.iteration % steps == 0) {
      save_once();
      end_epoch(counters_.iteration / steps - 1);
    }
    if (const auto reason = save_and_decide()) {
      report_end(*reason);
      return false;
    }
  }
  end_step();
  // Saved first: a finished run that is started again evaluates the same samples again.
  save_once();
  return true;
}

// A run of epochs has said all, unless it trained nothing.
void Trainer::evaluate_at_end() {
  if (task_.steps_of_epoch() > 0) {
    if (options_.evaluation.skip_train) end_epoch(-1);
    return;
  }
  evaluate(Split::valid, "valid", " on validation set");
  if (!interruption_.signal()) evaluate(Split::test, "test", " on test set");
}

void Trainer::run(const std::string& options_json) {
  reports_.start(counters_.iteration, parameters_, counters_.floating_point_operations,
                 options_json);
  begin_task();
  if (!options_.evaluation.skip_train && !train_to_the_end()) return task_.dismiss(drawing());
  evaluate_at_end();
  task_.dismiss(drawing());
  report_end(interruption_.signal() ? signal_name(*interruption_.signal()) : "done");
  if (interruption_.signal()) stopped(*interruption_.signal());
}

}  // namespace mt
