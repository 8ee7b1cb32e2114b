#include "train/plan/plan.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "comm/meta_group.h"
#include "model/config/model_config.h"
#include "optim/optimizer.h"
#include "train/options/plan_options.h"
#include "train/options/run_options.h"
#include "train/plan/short_steps.h"
#include "train/run/drawing_model.h"
#include "train/run/executor.h"
#include "train/run/routing_files.h"
#include "train/run/task.h"

namespace mt {

StepShape step_shape(const RunOptions& options, const Task& task) {
  const ParallelOptions& parallel = options.ranks.parallel;
  return {.micro_batch_size = options.batch.micro_batch_size,
          .dtype = options.compute_dtype(),
          .seed = options.seed,
          .fields = task.fields(parallel.context_parallel_size),
          .sequence_parallel = parallel.shares_rows(),
          .tensor_overlap = parallel.tp_comm_overlap,
          .context_comm = parallel.context_comm(),
          .context_neighbours = parallel.head_ranks(ContextComm::a2a_p2p),
          .experts = task.model().num_experts > 0,
          .gathers_tokens = parallel.moe_token_dispatcher_type == "allgather",
          .expert_buffer_factor = parallel.moe_buffer_factor,
          .shared_experts_aside = parallel.moe_shared_expert_overlap,
          .fp8 = options.fp8.rules(task.model(), !options.optimizer.shards_values())};
}

TensorPart tensor_part(const ParallelOptions& options, const World& world) {
  const Group &experts = world.experts(), &expert_tensor = world.expert_tensor();
  return {.rank = world.position().tp,
          .ranks = world.sizes().tp,
          .sequence_parallel = options.shares_rows(),
          .experts = {.rank = experts.rank(), .ranks = experts.size()},
          .expert_tensor = Share{.rank = expert_tensor.rank(), .ranks = expert_tensor.size()}};
}

static std::size_t host_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
}

// The memory of this machine, or of a GPU: of one that is here, unless the plan supposes others.
static std::size_t memory_of(Device device, const PlanOptions& asked, const Machine& machine) {
  if (device == Device::cpu) return host_memory();
  if (asked.wanted && (asked.machine.is_named() || device::count() == 0)) return machine.memory;
  return device::count() > 0 ? device::total_memory() : 0;
}

// With several chunks a smaller step may have more micro-batches in flight.
static void add_slots(StepMemory& memory, const RunOptions& options, int stage) {
  const PipelineLayout& layout = options.ranks.layout;
  if (layout.chunks == 1) return;
  for (const int micro_batches : options.batch.micro_batches_of_steps()) {
    if (!layout.can_schedule(micro_batches)) continue;
    const Schedule schedule = layout.training(stage, ShortSteps::of(layout, micro_batches).second);
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      int& slots = memory.chunks[static_cast<std::size_t>(chunk)].slots;
      slots = std::max(slots, slot_count(schedule, chunk));
    }
  }
}

// For the reports of messages.
static void name_groups(const World& world) {
  const auto call = [](Group& group, const char* name) {
    dynamic_cast<MetaGroup&>(group).call(name);
  };
  call(world.tensor(), "tensor");
  call(world.context(), "context");
  call(world.data(), "data");
  call(world.data_context(), world.context().size() > 1 ? "data-context" : "data");
  call(world.pipeline(), "pipeline");
  for (const auto& group : world.sharing()) call(*group, "embedding");
  call(world.model(), "model");
  if (!world.sizes().experts_apart()) return;
  call(world.experts(), "experts");
  call(world.expert_grid(), "expert-tokens");
  call(world.expert_tensor(), "expert-tensor");
  call(world.expert_data(), "expert-data");
  call(world.expert_model(), "expert-model");
}

static Schedule first_micro_batch(const Schedule& schedule) {
  Schedule first;
  for (const Action& action : schedule)
    if (action.micro_batch == 0) first.push_back(action);
  return first;
}

// Ranks that share keys compute with pairs of chunks; those that share heads, with all tokens.
// All layers count as the first one.
static AttentionKind attention_kind(const Task& task, const ParallelOptions& parallel) {
  const int ranks = parallel.context_parallel_size,
            ring = ranks / parallel.head_ranks(parallel.context_comm().front());
  return {.head_dim = task.model().head_dim(),
          .seq_length = task.seq_length() / (ring > 1 ? 2 * ring : 1)};
}

namespace {

// The groups of a rank that learns, as train() makes them: of all ranks, and what it has with those
// that draw for others, if there are any.
struct DrawingGroups {
  MetaGroup everyone;
  std::unique_ptr<Group> learners;
  std::optional<MetaGroup> link;

  DrawingGroups(int rank, const RankOptions& ranks, Stream& counting, RankClock& clock)
      : everyone(rank, ranks.count + ranks.drawers, counting, &clock),
        learners(everyone.split(ranks_between(0, ranks.count), Carries::numbers)) {
    if (rank > 0 || ranks.drawers == 0) return;
    link.emplace(everyone, ranks.linked_ranks(), Carries::tensors);
    link->carries_others();
  }
};

// StepCount: what a step counts on a rank.
struct StepCount {
  Cost step = {};
  PerFamily<Cost> families = {};
  std::vector<GroupMessages> messages = {};
  RankParts parts = {};
};

Cost of_step(const ShortSteps& steps, const Cost& few, const Cost& second) {
  return {.flops = steps.of_step(few.flops, second.flops),
          .bytes = steps.of_step(few.bytes, second.bytes),
          .message_bytes = steps.of_step(few.message_bytes, second.message_bytes),
          .messages = steps.of_step(few.messages, second.messages),
          .code_flops = steps.of_step(few.code_flops, second.code_flops)};
}

// With the second's parts.
StepCount of_step(const ShortSteps& steps, StepCount few, StepCount second) {
  few.messages.resize(second.messages.size());
  second.step = of_step(steps, few.step, second.step);
  for (std::size_t i = 0; i < kFamilies; ++i)
    second.families[i] = of_step(steps, few.families[i], second.families[i]);
  for (std::size_t i = 0; i < second.messages.size(); ++i) {
    const GroupMessages& before = few.messages[i];
    GroupMessages& m = second.messages[i];
    m.count = steps.of_step(before.count, m.count);
    m.bytes = steps.of_step(before.bytes, m.bytes);
    m.seconds = steps.of_step(before.seconds, m.seconds);
    m.waited = std::max(0.0, steps.of_step(before.waited, m.waited));
  }
  return second;
}

// PlannedSteps: what steps of a rank are counted and timed by.
struct PlannedSteps {
  Executor& executor;
  Optimizer& optimizer;
  RankClock& clock;
  Stream& counting;
  int ranks;

  StepCount train(const Schedule& schedule) const {
    const Cost before = counting.cost();
    const PerFamily<Cost> families_before = counting.family_costs();
    optimizer.zero_gradients(counting);
    executor.run(schedule, {}, true);
    clock.begin_part(false);
    optimizer.step({}, ranks, counting);
    StepCount count{.step = counting.cost() - before, .parts = clock.end()};
    count.messages = clock.messages();
    for (std::size_t i = 0; i < kFamilies; ++i)
      count.families[i] = counting.family_costs()[i] - families_before[i];
    clock.begin_step();
    return count;
  }
  double evaluate(const Schedule& schedule) const {  // seconds
    executor.run(schedule, {}, false);
    double seconds = 0;
    for (const RankClock::Part& part : clock.end()) seconds += part.seconds();
    clock.begin_step();
    return seconds;
  }
};

}  // namespace

// The plan of a rank.
static RankPlan plan_rank(const RunOptions& options, const Task& task, const Machine& machine,
                          int rank, PlanDetail detail, bool has_times) {
  const RankOptions& ranks = options.ranks;
  Stream meta(Device::meta), counting(Device::meta);
  RankClock clock(machine, attention_kind(task, ranks.parallel), counting);
  const std::unique_ptr<Group> measured = make_meta_group(rank, ranks.count, meta);
  const DrawingGroups counted(rank, ranks, counting, clock);
  const World measured_world(*measured, ranks.sizes(), ranks.layout.sharing),
      world(*counted.learners, ranks.sizes(), ranks.layout.sharing);
  name_groups(world);
  const auto drawing_ranks =
      task.drawn_work()
          ? DrawingModel::split(options, task.drawn_work()->together, *counted.learners)
          : nullptr;
  const PipelineLayout& layout = ranks.layout;
  const int stage = world.position().pp;
  const auto model = task.make_model(layout.of_rank(stage), tensor_part(ranks.parallel, world));
  Optimizer optimizer(model->table(), Device::meta, options.compute_dtype(), options.optimizer,
                      world);
  const Schedule training = layout.training(stage, options.batch.micro_batches());
  const bool asks = task.drawn_work() && task.drawn_work()->asks;
  // A task whose objective says something of samples may ask that of the model at any time.
  const bool evaluates = options.evaluation.eval_iters > 0 || task.has_full_validation() ||
                         task.steps_of_epoch() > 0 || task.objective().scores() > 0;
  const Schedule evaluation =
      evaluates ? layout.evaluation(stage, options.batch.evaluated_micro_batches()) : Schedule();

  RankPlan plan;
  plan.memory.gradients = optimizer.gradient_bytes();
  plan.memory.optimizer = optimizer.bytes();
  plan.memory.copy = copy_bytes(options, task);
  plan.memory.texts = flight_bytes(options, task);
  const StepShape shape = step_shape(options, task);
  StepShape alone = shape;  // without an optimizer, which gathers codes
  if (alone.fp8) alone.fp8->gathers_codes = false;
  plan.memory.step =
      measure_memory(*model, task.objective(), alone, training, evaluation, measured_world, meta);
  add_slots(plan.memory.step, options, stage);

  Executor executor(*model, task.objective(), shape, plan.memory.step, world, counting);
  if (WeightCodes* const codes = executor.gathered_codes())
    optimizer.gather_codes(*codes, counting);
  plan.memory.parameters = optimizer.value_bytes();
  if (const Fp8Layers* const fp8 = executor.fp8()) plan.memory.parameters += fp8->bytes();
  TensorNames names;
  if (detail == PlanDetail::all) executor.show_to(names);
  executor.share(optimizer.sharing());
  executor.watch([&](const Action& a) { clock.begin_part(a.kind != Action::Kind::forward); });
  // Values that a step leaves on their way arrive in the next, which also knows what it will need.
  if (options.optimizer.overlap_param_gather) {
    executor.run(first_micro_batch(training), {}, true);
    optimizer.step({}, ranks.count, counting);
    clock.begin_step();
  }
  const PlannedSteps planned{executor, optimizer, clock, counting, ranks.count};
  const int micro_batches = options.batch.micro_batches();
  const ShortSteps steps = ShortSteps::of(layout, micro_batches);
  StepCount count = planned.train(layout.training(stage, steps.few));
  if (steps.more > 0) {
    const Schedule second = layout.training(stage, steps.second);
    count = of_step(steps, count, planned.train(second));
    if (has_times) count.parts = steps.of_step(count.parts, second, training);
  }
  plan.step = count.step;
  plan.families = count.families;
  plan.messages = std::move(count.messages);
  plan.parts = std::move(count.parts);
  constexpr std::size_t kMost = 10;
  if (detail == PlanDetail::all)
    plan.largest = largest_tensors(model->table(), optimizer, executor, names, kMost);
  if (asks) {
    const auto seconds_of = [&](int count_of_step) {
      return planned.evaluate(layout.evaluation(stage, count_of_step));
    };
    plan.evaluation = seconds_of(steps.few);
    if (steps.more > 0) plan.evaluation = steps.of_step(plan.evaluation, seconds_of(steps.second));
    plan.evaluation *= micro_batches / layout.evaluated_at_once(micro_batches);
  }
  if (options.device() == Device::cuda) {
    plan.memory.work = std::max(meta.work_bytes(), counting.work_bytes());
    plan.memory.cuda = kCudaMemory;
    plan.memory.nccl = counted.everyone.nccl_bytes();
    plan.memory.copies = counted.everyone.copies_bytes();
  }
  return plan;
}

// Of each rank alike; what a file has routers choose is read for it.
static std::size_t planned_routes(const RunOptions& options, const Task& task) {
  if (options.device() != Device::cpu || !options.routing.is_on()) return 0;
  const RoutingFiles routing(options.routing, task.model(), options.ranks.has_processes());
  return route_bytes(options, task, &routing);
}

Plan make_plan(const RunOptions& options, const Task& task, const PlanOptions& asked,
               PlanDetail detail) {
  Plan plan;
  plan.parameters = task.rows().count();
  plan.length = training_length(options.length, options.batch, options.evaluation,
                                task.has_full_validation());
  plan.model_flops = task.flops(options.batch.largest());
  plan.tokens = options.batch.divided(options.batch.largest()).computed * task.seq_length();
  plan.ranks = options.ranks.count;
  plan.device = options.device();
  const bool on_cpu = plan.device == Device::cpu;
  Machine machine = on_cpu && asked.wanted
                        ? measure_cpu(asked.machine, options.compute_dtype(), plan.ranks,
                                      options.ranks.threads_of_each())
                        : asked.machine.machine();
  if (options.report.peak_tflops) machine.peak = *options.report.peak_tflops * 1e12;
  plan.device_memory = memory_of(plan.device, asked, machine);
  plan.drawers = options.ranks.drawers;
  if (const auto drawer = plan_drawer(options, task, plan.device_memory))
    plan.of_drawer = drawer->bytes();
  const std::size_t routes = planned_routes(options, task);
  const bool has_times = options.plans_times() || (on_cpu && asked.wanted);
  // One rank at each place of the pipeline.
  for (const int rank : rank_group(options.ranks.sizes(), "pp", 0)) {
    plan.pipeline.push_back(plan_rank(options, task, machine, rank, detail, has_times));
    plan.pipeline.back().memory.routes = routes;
  }
  if (has_times) {
    plan.machine = machine;
    std::vector<const RankParts*> parts;
    for (const RankPlan& rank : plan.pipeline) parts.push_back(&rank.parts);
    plan.times = step_times(options.ranks.layout, options.batch.micro_batches(), parts);
    if (task.drawn_work()) plan.drawing = plan_drawing(options, task, plan);
  }
  return plan;
}

Plan make_plan(const RunOptions& options, const Task& task) { return make_plan(options, task, {}); }

double Plan::mfu() const { return model_flops / (machine->peak * times->seconds * ranks); }

const RankPlan& Plan::fullest() const {
  return *std::ranges::max_element(pipeline, {},
                                   [](const RankPlan& rank) { return rank.memory.total(); });
}

std::size_t Plan::total() const {
  std::size_t bytes = 0;
  for (const RankPlan& rank : pipeline) bytes += rank.memory.total();
  return bytes * static_cast<std::size_t>(ranks) / pipeline.size() +
         static_cast<std::size_t>(drawers) * of_drawer;
}

}  // namespace mt
