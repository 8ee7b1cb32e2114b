#include "train/plan.h"

#include <unistd.h>

#include <cstdio>

#include "optim/optimizer.h"

namespace mt {

StepShape step_shape(const TrainOptions& options) {
  return {.micro_batch_size = options.micro_batch_size,
          .seq_length = options.data.seq_length / options.parallel.context_parallel_size,
          .hidden_size = options.model.hidden_size,
          .dtype = options.compute_dtype(),
          .seed = options.seed,
          .document_masks = options.data.reset_attention_mask,
          .sequence_parallel = options.parallel.shares_rows(),
          .context_comm = options.parallel.context_comm(),
          .context_neighbours = options.parallel.head_ranks(ContextComm::a2a_p2p)};
}

TensorPart tensor_part(const TrainOptions& options, const World& world) {
  return {.rank = world.position().tp,
          .ranks = world.sizes().tp,
          .sequence_parallel = options.parallel.shares_rows()};
}

static std::size_t host_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
}

static std::size_t memory_of(Device device) {
  if (device == Device::cpu) return host_memory();
  return device::count() > 0 ? device::total_memory() : 0;
}

// One of the ranks at a place of the pipeline.
static int rank_at(const ParallelSizes& sizes, int stage) {
  int rank = 0;
  while (rank_position(sizes, rank).pp != stage) ++rank;
  return rank;
}

// With several chunks a smaller step may have more micro-batches in flight.
static void add_slots(StepMemory& memory, const TrainOptions& options, int stage) {
  const PipelineLayout& layout = options.pipeline_layout;
  if (layout.chunks == 1) return;
  for (const int micro_batches : options.micro_batches_of_steps()) {
    if (!layout.can_schedule(micro_batches)) continue;
    const Schedule schedule = layout.training(stage, micro_batches);
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      int& slots = memory.chunks[static_cast<std::size_t>(chunk)].slots;
      slots = std::max(slots, slot_count(schedule, chunk));
    }
  }
}

// Of a rank; adds its parameters to `parameters`.
static RankPlan plan_rank(const TrainOptions& options, int rank, std::int64_t& parameters) {
  Stream meta(Device::meta), counting(Device::meta);
  const std::unique_ptr<Group> measured = make_meta_group(rank, options.ranks, meta),
                               counted = make_meta_group(rank, options.ranks, counting);
  const World measured_world(*measured, options.parallel_sizes()),
      world(*counted, options.parallel_sizes());
  const PipelineLayout& layout = options.pipeline_layout;
  const int stage = world.position().pp;
  Gpt model(options.model, layout.of_rank(stage), tensor_part(options, world));
  Optimizer optimizer(model.table(), Device::meta, options.compute_dtype(), options.optimizer,
                      world);
  const Schedule training = layout.training(stage, options.micro_batches());
  const Schedule evaluation = options.eval_iters > 0 || options.data.full_validation
                                  ? layout.evaluation(stage, options.micro_batches())
                                  : Schedule();
  parameters += model.table().count();

  RankPlan plan;
  plan.memory.parameters = optimizer.value_bytes();
  plan.memory.gradients = optimizer.gradient_bytes();
  plan.memory.optimizer = optimizer.bytes();
  plan.memory.step =
      measure_memory(model, step_shape(options), training, evaluation, measured_world, meta);
  add_slots(plan.memory.step, options, stage);

  Executor executor(model, step_shape(options), plan.memory.step, world, counting);
  TensorNames names;
  executor.show_to(names);
  executor.share(optimizer.sharing());
  executor.run(training, {}, true);
  constexpr std::size_t kMost = 10;
  plan.largest = largest_tensors(model.table(), optimizer, executor, names, kMost);
  optimizer.step({}, options.ranks, counting);
  plan.step = counting.cost();
  plan.families = counting.family_costs();
  if (options.device() == Device::cuda)
    plan.memory.work = std::max(meta.work_bytes(), counting.work_bytes());
  return plan;
}

Plan make_plan(const TrainOptions& options) {
  Plan plan;
  plan.length = options.length();
  plan.model_flops = options.model.flops(options.batch_size(), options.data.seq_length);
  plan.ranks = options.ranks;
  plan.device = options.device();
  plan.device_memory = memory_of(plan.device);
  const ParallelSizes sizes = options.parallel_sizes();
  for (int stage = 0; stage < sizes.pp; ++stage)
    plan.pipeline.push_back(plan_rank(options, rank_at(sizes, stage), plan.parameters));
  return plan;
}

const RankPlan& Plan::fullest() const {
  return *std::ranges::max_element(pipeline, {},
                                   [](const RankPlan& rank) { return rank.memory.total(); });
}

std::size_t Plan::total() const {
  std::size_t bytes = 0;
  for (const RankPlan& rank : pipeline) bytes += rank.memory.total();
  return bytes * static_cast<std::size_t>(ranks) / pipeline.size();
}

void RankMemory::write(JsonWriter& json) const {
  json.begin_object()
      .member("parameters", parameters)
      .member("gradients", gradients)
      .member("optimizer", optimizer)
      .member("keep", step.keep())
      .member("layer", step.layer)
      .member("deferred", step.deferred());
  if (work > 0) json.member("scratch", work);
  json.member("total", total()).end_object();
}

// How long the run is, and how many samples it asks of the data; null if that is not known.
static void write_length(JsonWriter& json, const TrainingLength& length) {
  if (length.train_iters == 0) {
    json.null();
    return;
  }
  const auto samples = target_samples(length);
  json.begin_object().member("iterations", length.train_iters);
  for (int i = 0; i < kSplits; ++i) {
    json.key(std::array{"train_samples", "valid_samples", "test_samples"}[i]);
    if (samples[i])
      json.value(*samples[i]);
    else
      json.null();  // all there is
  }
  json.end_object();
}

// The ranks of a pipeline, which differ.
static void write_pipeline(JsonWriter& json, const Plan& plan) {
  json.key("pipeline").begin_array();
  for (const RankPlan& rank : plan.pipeline) {
    json.begin_object()
        .member("counted_flops", rank.step.flops)
        .member("counted_bytes", rank.step.bytes)
        .member("message_bytes", rank.step.message_bytes)
        .member("messages", rank.step.messages)
        .key("memory");
    rank.memory.write(json);
    json.end_object();
  }
  json.end_array();
}

std::string plan_json(const Plan& plan) {
  const RankPlan& fullest = plan.fullest();
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-plan/1")
      .member("parameters", plan.parameters)
      .member("model_flops", plan.model_flops)
      .member("counted_flops", fullest.step.flops)
      .member("counted_bytes", fullest.step.bytes)
      .member("message_bytes", fullest.step.message_bytes)
      .member("messages", fullest.step.messages)
      .key("memory");
  fullest.memory.write(json);
  json.key("largest").begin_array();
  for (const LargeTensor& tensor : fullest.largest) {
    json.begin_object()
        .member("tensor", tensor.what)
        .member("dtype", name_of(tensor.dtype))
        .key("shape")
        .begin_array();
    for (const std::int64_t extent : tensor.shape.extents()) json.value(extent);
    json.end_array().member("count", tensor.count).member("bytes", tensor.bytes()).end_object();
  }
  json.end_array();
  if (plan.pipeline.size() > 1) write_pipeline(json, plan);
  json.key("run");
  write_length(json, plan.length);
  json.member("ranks", plan.ranks)
      .member(plan.device == Device::cpu ? "host_memory" : "gpu_memory", plan.device_memory)
      .member("fits", plan.fits())
      .end_object();
  return json.text() + "\n";
}

static std::string line(const char* name, double value, const char* unit) {
  char text[128];
  std::snprintf(text, sizeof text, "%-28s %20.0f %s\n", name, value, unit);
  return text;
}

static std::string largest_text(const std::vector<LargeTensor>& tensors) {
  std::string text;
  for (const LargeTensor& tensor : tensors) {
    text += line(text.empty() ? "the largest tensors" : "", static_cast<double>(tensor.bytes()),
                 "bytes:");
    text.back() = ' ';  // instead of the line's end
    text += description(tensor) + "\n";
  }
  return text;
}

static std::string length_text(const TrainingLength& length) {
  if (length.train_iters == 0) return {};
  const auto count = [](const char* name, std::int64_t value) {
    return line(name, static_cast<double>(value), "");
  };
  std::string text = count("steps of the run", length.train_iters);
  const auto samples = target_samples(length);
  for (int i = 0; i < kSplits; ++i)  // of a full validation the plan does not know
    if (samples[i]) text += count(concat("samples: ", kSplitNames[i]).c_str(), *samples[i]);
  return text;
}

static std::string pipeline_text(const Plan& plan) {
  std::string text;
  if (plan.pipeline.size() == 1) return text;
  for (std::size_t i = 0; i < plan.pipeline.size(); ++i) {
    const RankPlan& rank = plan.pipeline[i];
    text += line(concat("pipeline rank ", i, ": FLOPs").c_str(), rank.step.flops, "") +
            line(concat("pipeline rank ", i, ": memory").c_str(),
                 static_cast<double>(rank.memory.total()), "bytes");
  }
  return text;
}

std::string plan_text(const Plan& plan) {
  const RankPlan& fullest = plan.fullest();
  const RankMemory& m = fullest.memory;
  const auto bytes = [](const char* name, std::size_t count) {
    return line(name, static_cast<double>(count), "bytes");
  };
  return length_text(plan.length) + line("parameters", static_cast<double>(plan.parameters), "") +
         line("model FLOPs of a step", plan.model_flops, "") +
         line("counted FLOPs on a rank", fullest.step.flops, "") +
         line("counted traffic on a rank", fullest.step.bytes, "bytes") +
         line("messages of a rank", fullest.step.message_bytes, "bytes") +
         bytes("memory: parameters", m.parameters) + bytes("memory: gradients", m.gradients) +
         bytes("memory: optimizer", m.optimizer) +
         (m.work > 0 ? bytes("memory: scratch", m.work) : "") +
         bytes("memory: keep", m.step.keep()) + bytes("memory: layer", m.step.layer) +
         bytes("memory: deferred", m.step.deferred()) +
         bytes("memory: total of a rank", m.total()) + largest_text(fullest.largest) +
         pipeline_text(plan) + line("ranks on this machine", plan.ranks, "") +
         bytes(plan.device == Device::cpu ? "this machine has" : "its GPU has", plan.device_memory);
}

}  // namespace mt
