#include "train/run/train.h"

#include <unistd.h>

#include <cmath>

#include "base/progress.h"
#include "ckpt/save_lock.h"
#include "comm/nccl_group.h"
#include "comm/rendezvous.h"
#include "comm/world.h"
#include "model/layers.h"
#include "tensor/device.h"
#include "train/plan/out_of_memory.h"
#include "train/run/routing_files.h"
#include "train/run/save_folder.h"
#include "train/run/trainer.h"

namespace mt {

// Where ranks are processes, the first makes the indexes and folders that the others then find.
static std::unique_ptr<SaveLock> prepare(const RunOptions& options, Task& task, Rendezvous* others,
                                         const Log& log) {
  const bool first = others == nullptr || others->rank() == 0;
  if (!first) others->barrier();
  task.build(training_length(options.length, options.batch, options.evaluation,
                             task.has_full_validation()),
             options.seed, options.batch, log);
  std::unique_ptr<SaveLock> lock;
  if (first) lock = prepare_folders(options, log);
  if (first && others != nullptr) others->barrier();
  return lock;
}

// A signal that finds no step ending ends the run for this reason.  Rank 0 knows most of the
// others, and speaks first.
static void end_if_held(Rendezvous& others, const RunOptions& options, const Stream& stream,
                        Interruption::Limits& limits) {
  limits.is_in_step = [&] { return stream.queues_since().has_value(); };
  limits.held = [&](Signal signal, std::chrono::seconds since, bool saved) {
    others.end_waiting(
        concat(signal_name(signal), " came ", since.count(), " s ago, and no step has ended since",
               saved ? how_to_go_on(options.checkpoint) : ""),
        saved ? Exit::stopped : Exit::peer_failed);
  };
  if (others.rank() != 0) limits.patience += std::chrono::seconds(2);
}

// What is said at once of a signal that ends the run, before its step has ended.
static void tell_of(Signal signal, double seconds, const Log& log) {
  if (signal == Signal::interrupt) log.draw_no_more();
  std::string line = signal == Signal::interrupt ? "" : concat(signal_name(signal), ": ");
  line += "stops after this step";
  if (seconds > 0) line += concat(" (about ", short_duration(std::ceil(seconds)), ")");
  log.note(line + (signal == Signal::interrupt ? "; again: now" : ""));
}

namespace {

// Sides: those that draw texts are behind those that learn; each side has a group of its own, and
// the first of those that learn one with all that draw.
struct Sides {
  std::unique_ptr<Group> own, link;  // null: all ranks do both

  Sides(Group& everyone, const RankOptions& ranks) {
    if (ranks.drawers == 0) return;
    const int rank = everyone.rank();
    const bool learns = rank < ranks.count;
    own = everyone.split(learns ? ranks_between(0, ranks.count) : ranks.drawing_ranks(),
                         Carries::numbers);
    link = everyone.split(learns && rank > 0 ? std::vector{rank} : ranks.linked_ranks());
  }
};

}  // namespace

// A rank that draws texts for others has all of the model.
static void draw_for_others(const RunOptions& options, const Task& task, const Sides& sides,
                            Rendezvous* others, Stream& stream) {
  const std::unique_ptr<Model> model =
      task.make_model({{.end = std::ssize(layers_of(task.model()))}}, {});
  model->table().allocate(options.device(), options.compute_dtype(), false);
  task.draw_for(
      {.first = *sides.link, .own = *sides.own, .model = *model, .stream = stream, .met = others});
}

static void check_memory(const RunOptions& options, const Task& task, const Plan& plan,
                         const Log& log) {
  if (plan.device == Device::cuda && plan.device_memory == 0)
    fail(Exit::unavailable, "--device cuda: there is no GPU that CUDA can use");
  if (plan.fits()) return;
  if (!plan.drawers_fit())
    fail(Exit::out_of_memory, "out of GPU memory: each of ", plan.drawers,
         " ranks that draw needs ", plan.of_drawer, " bytes, a GPU has ", plan.device_memory);
  fail_out_of_memory(
      concat("out of ", plan.device == Device::cpu ? "host" : "GPU", " memory: ", plan.ranks,
             " ranks need ", plan.fullest().memory.total(), " bytes each, ",
             plan.device == Device::cpu ? "this machine" : "a GPU", " has ", plan.device_memory),
      options, task, plan, log);
}

// All ranks, as threads; or, among others that are processes, this one.
static void train_with(Rendezvous* others, const RunOptions& options, Task& task, Signals& signals,
                       const Log& log, const std::string& options_json) {
  const auto start = Interruption::Clock::now();
  if (options.device() == Device::cuda) device::use(options.ranks.process.gpu(device::count()));
  const Plan plan = make_plan(options, task);
  check_memory(options, task, plan, log);
  std::optional<RoutingFiles> routing;
  if (options.routing.is_on())
    routing.emplace(options.routing, task.model(), options.ranks.has_processes());
  const std::unique_ptr<SaveLock> lock = prepare(options, task, others, log);
  if (routing && options.ranks.process.rank == 0) routing->open();
  const auto run_rank = [&](Group& everyone, Stream& stream) {
    std::optional<Rendezvous::Patience> patience;
    const Sides sides(everyone, options.ranks);
    if (others != nullptr) signals.answer({});  // they have met
    const auto told = [&](const auto& part) {
      others == nullptr ? part() : tell_failures(*others, part);
    };
    if (everyone.rank() >= options.ranks.count) {
      told([&] { draw_for_others(options, task, sides, others, stream); });
      patience.emplace(others);  // until those that learn come to their end
      return;
    }
    Group& ranks = sides.own ? *sides.own : everyone;
    const World world(ranks, options.ranks.sizes(), options.ranks.layout.sharing);
    const bool is_told = ranks.rank() == 0 || others != nullptr;
    Interruption::Limits limits{is_told ? &signals : nullptr, start,
                                options.length.exit_duration_in_mins};
    limits.came = [&](Signal signal, double seconds) { tell_of(signal, seconds, log); };
    if (others != nullptr) end_if_held(*others, options, stream, limits);
    Trainer trainer(options, task, plan, world, {sides.link.get(), others},
                    routing ? &*routing : nullptr, stream, limits,
                    ranks.size() > 1 ? log.for_rank(ranks.rank()) : log);
    told([&] { trainer.run(options_json); });
  };
  try {
    if (others == nullptr)
      return run_ranks(options.ranks.count + options.ranks.drawers, [&](Group& ranks) {
        Stream stream(options.device(), options.ranks.threads_of_each());
        run_rank(ranks, stream);
      });
    Stream stream(options.device(), options.ranks.threads_of_each());
    run_rank(*make_nccl_group(*others, stream), stream);
  } catch (const Error& error) {  // others use the memory too
    if (error.code() != Exit::out_of_memory) throw;
    fail_out_of_memory(error.what(), options, task, plan, log);
  }
}

void train(const RunOptions& options, Task& task, Signals& signals, const Log& log,
           const std::string& options_json) {
  if (!options.ranks.has_processes())
    return train_with(nullptr, options, task, signals, log, options_json);
  const auto end = [&](Signal signal) {  // others may never come
    if (options.ranks.process.local_rank == 0)
      log.error(concat("stopped by ", signal_name(signal), " while ranks met; no step had begun"),
                static_cast<int>(Exit::stopped));
    ::_exit(static_cast<int>(Exit::stopped));
  };
  signals.answer(end);
  if (const std::optional<Signal> before = signals.poll()) end(*before);
  run_process(options.ranks.process, options.ranks.launch.timeout(), [&](Rendezvous& others) {
    others.if_stuck([&](const std::string& line, Exit code) {
      log.error(line, static_cast<int>(code));
      ::_exit(static_cast<int>(code));
    });
    train_with(&others, options, task, signals, log.for_rank(others.rank()), options_json);
  });
}

}  // namespace mt
