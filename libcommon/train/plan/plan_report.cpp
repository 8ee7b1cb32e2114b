#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "comm/nccl_memory.h"
#include "data/samples/data_sources.h"
#include "train/plan/plan.h"
#include "train/plan/schedule_drawing.h"

namespace mt {

void RankMemory::write(JsonWriter& json) const {
  json.begin_object()
      .member("parameters", parameters)
      .member("gradients", gradients)
      .member("optimizer", optimizer)
      .member("keep", step.keep())
      .member("layer", step.layer)
      .member("deferred", step.deferred());
  if (work > 0) json.member("scratch", work);
  if (copy > 0) json.member("copy", copy);
  if (texts > 0) json.member("texts", texts);
  if (routes > 0) json.member("routes", routes);
  if (cuda > 0) json.member("cuda", cuda);
  if (nccl > 0) json.member("nccl", nccl);
  if (copies > 0) json.member("copies", copies);
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

static void write_messages(JsonWriter& json, const Plan& plan,
                           const std::vector<GroupMessages>& messages) {
  json.key("messages_by_group").begin_array();
  for (const GroupMessages& m : messages) {
    json.begin_object()
        .member("group", m.group)
        .member("collective", m.collective)
        .member("ranks", m.ranks)
        .member("messages", m.count)
        .member("bytes", m.bytes);
    if (plan.machine)
      json.member("link", m.within_node ? "node" : "network")
          .member("seconds", m.seconds)
          .member("waited_seconds", m.waited);
    json.end_object();
  }
  json.end_array();
}

static void write_cost(JsonWriter& json, const Cost& cost) {
  json.member("counted_flops", cost.flops)
      .member("counted_bytes", cost.bytes)
      .member("message_bytes", cost.message_bytes)
      .member("messages", cost.messages);
}

// The ranks of a pipeline, which differ.
static void write_pipeline(JsonWriter& json, const Plan& plan) {
  json.key("pipeline").begin_array();
  for (const RankPlan& rank : plan.pipeline) {
    json.begin_object();
    write_cost(json, rank.step);
    json.key("memory");
    rank.memory.write(json);
    write_messages(json, plan, rank.messages);
    json.end_object();
  }
  json.end_array();
}

static void write_machine(JsonWriter& json, const Machine& m) {
  json.key("machine")
      .begin_object()
      .member("name", m.name)
      .member("peak_flops", m.peak)
      .member("flops", m.products)
      .member("bytes_per_second", m.bytes)
      .member("launch_seconds", m.launch)
      .member("gpus_per_node", m.gpus_per_node)
      .member("link_bytes_per_second", m.node.bytes)
      .member("link_latency", m.node.latency)
      .member("network_bytes_per_second", m.network.bytes)
      .member("network_latency", m.network.latency)
      .end_object();
}

static void write_times(JsonWriter& json, const Plan& plan) {
  const StepTimes& times = *plan.times;
  json.key("time")
      .begin_object()
      .member("step_seconds", times.seconds)
      .member("tokens_per_second", static_cast<double>(plan.tokens) / times.seconds)
      .member("mfu", plan.mfu())
      .member("slowest_stage", times.slowest)
      .key("families")
      .begin_object();
  for (std::size_t i = 0; i < kFamilies; ++i)
    if (times.families[i] > 0) json.member(kFamilyNames[i], times.families[i]);
  json.end_object()
      .member("launches", times.launches)
      .member("waiting", times.waiting)
      .member("pipeline_idle", times.idle)
      .member("pipeline_idle_by_formula", times.formula)
      .end_object();
}

std::string plan_json(const Plan& plan) {
  const RankPlan& fullest = plan.fullest();
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-plan/1")
      .member("parameters", plan.parameters)
      .member("model_flops", plan.model_flops);
  write_cost(json, fullest.step);
  json.key("memory");
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
  write_messages(json, plan, fullest.messages);
  if (plan.pipeline.size() > 1) write_pipeline(json, plan);
  if (plan.machine) {
    write_machine(json, *plan.machine);
    write_times(json, plan);
  }
  if (plan.drawing) {
    json.key("drawing");
    plan.drawing->write(json);
  }
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

// As people read it: "50.6 GiB", "812.0 KiB".
static std::string size_text(std::size_t bytes) {
  constexpr double kStep = 1024;
  double size = static_cast<double>(bytes);
  const char* unit = "bytes";
  for (const char* const next : {"KiB", "MiB", "GiB"}) {
    if (size < kStep) break;
    size /= kStep;
    unit = next;
  }
  char text[64];
  std::snprintf(text, sizeof text, bytes < 1024 ? "%.0f %s" : "%.1f %s", size, unit);
  return text;
}

// What a rank's memory has to do with a GPU's, or with the machine's for all: the answer of a plan.
static std::string fits_text(const Plan& plan) {
  const bool on_cpu = plan.device == Device::cpu;
  const std::size_t needed =
      on_cpu ? plan.total() : std::max(plan.fullest().memory.total(), plan.of_drawer);
  if (plan.device_memory == 0) return concat("needs ", size_text(needed), " of a GPU\n");
  return concat(plan.fits() ? "fits: " : "does not fit: ", size_text(needed), " of ",
                size_text(plan.device_memory), on_cpu ? " of this machine" : " of a GPU", "\n");
}

static std::string memory_line(const char* name, std::size_t bytes, const char* note = "") {
  char text[160];
  std::snprintf(text, sizeof text, "memory: %-42s %10s%s\n", name, size_text(bytes).c_str(), note);
  return text;
}

static std::string largest_text(const std::vector<LargeTensor>& tensors) {
  std::string text;
  for (const LargeTensor& tensor : tensors) {
    char start[64];
    std::snprintf(start, sizeof start, "%-28s %10s: ", text.empty() ? "the largest tensors" : "",
                  size_text(tensor.bytes()).c_str());
    text += start + description(tensor) + "\n";
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

static std::string messages_text(const Plan& plan, const std::vector<GroupMessages>& messages) {
  std::string text;
  char row[160];
  for (const GroupMessages& m : messages) {
    if (text.empty())
      text = plan.machine ? "messages among          collective     ranks  over      number        "
                            "MB          ms   waited\n"
                          : "messages among          collective     ranks      number        MB\n";
    std::snprintf(row, sizeof row, "%-23s %-14s %5d", m.group.c_str(), m.collective.c_str(),
                  m.ranks);
    text += row;
    if (plan.machine) text += m.within_node ? "  node   " : "  network";
    std::snprintf(row, sizeof row, "%*.0f %9.1f", plan.machine ? 7 : 12, m.count, m.bytes * 1e-6);
    text += row;
    if (plan.machine) {
      std::snprintf(row, sizeof row, " %11.3f %8.3f", 1e3 * m.seconds, 1e3 * m.waited);
      text += row;
    }
    text += '\n';
  }
  return text;
}

static std::string times_text(const Plan& plan, int columns) {
  if (!plan.times) return {};
  const StepTimes& times = *plan.times;
  char row[160];
  const double rate = static_cast<double>(plan.tokens) / times.seconds;
  if (plan.device == Device::cpu)
    std::snprintf(row, sizeof row,
                  "a step on this CPU: about %.3g ms, %s tokens/s, if a rank multiplies at %.3g "
                  "GFLOP/s and moves %.3g GB/s\n",
                  1e3 * times.seconds, short_number(rate).c_str(), 1e-9 * plan.machine->products,
                  1e-9 * plan.machine->bytes);
  else
    std::snprintf(row, sizeof row, "a step on %d x %s: %.3f ms, %.0f tokens/s, MFU %.1f%%\n",
                  plan.ranks, plan.machine->name.c_str(), 1e3 * times.seconds, rate,
                  100 * plan.mfu());
  std::string text = row;
  const auto add = [&](const char* name, double seconds) {
    if (seconds == 0) return;
    std::snprintf(row, sizeof row, "%-23s %11.3f ms  %5.1f%%\n", name, 1e3 * seconds,
                  100 * seconds / times.seconds);
    text += row;
  };
  for (std::size_t i = 0; i < kFamilies; ++i) add(kFamilyNames[i], times.families[i]);
  add("launches", times.launches);
  add("waiting", times.waiting);
  if (plan.pipeline.size() == 1) return text;
  std::snprintf(row, sizeof row,
                "stages wait %.2f%% of the schedule, by formula %.2f%%; stage %zu is slowest\n",
                100 * times.idle, 100 * times.formula, times.slowest);
  return text + row + schedule_text(times, columns);
}

std::string plan_text(const Plan& plan, int columns) {
  const RankPlan& fullest = plan.fullest();
  const RankMemory& m = fullest.memory;
  const std::string measured = concat(", as measured with ", NcclMemory::kMeasuredRanks, " ranks");
  return fits_text(plan) + length_text(plan.length) +
         line("parameters", static_cast<double>(plan.parameters), "") +
         line("model FLOPs of a step", plan.model_flops, "") +
         line("counted FLOPs on a rank", fullest.step.flops, "") +
         line("counted traffic on a rank", fullest.step.bytes, "bytes") +
         line("messages of a rank", fullest.step.message_bytes, "bytes") +
         memory_line("parameters", m.parameters) + memory_line("gradients", m.gradients) +
         memory_line("optimizer", m.optimizer) +
         (m.work > 0 ? memory_line("scratch", m.work) : "") +
         (m.copy > 0 ? memory_line("of the model, to write texts by", m.copy) : "") +
         (m.texts > 0 ? memory_line("keys and values of texts in flight", m.texts) : "") +
         (m.routes > 0 ? memory_line("experts that routers choose", m.routes) : "") +
         (m.cuda > 0 ? memory_line("CUDA's own", m.cuda) : "") +
         (m.nccl > 0 ? memory_line("NCCL's", m.nccl, measured.c_str()) : "") +
         (m.copies > 0 ? memory_line("copies by ranks", m.copies) : "") +
         memory_line("kept from forward to backward", m.step.keep()) +
         memory_line("of one layer while it computes", m.step.layer) +
         memory_line("kept until gradients of weights are made", m.step.deferred()) +
         memory_line("a rank needs in all", m.total()) +
         (plan.drawers > 0 ? memory_line("each rank that draws for others", plan.of_drawer) : "") +
         largest_text(fullest.largest) + pipeline_text(plan) +
         messages_text(plan, fullest.messages) +
         line(plan.device == Device::cpu ? "ranks on this machine" : "ranks, a GPU each",
              plan.ranks, "") +
         times_text(plan, columns) + (plan.drawing ? plan.drawing->text() : "");
}

void write_plan_svg(const Plan& plan, const std::string& path, bool overwrite) {
  write_file_atomically(path, schedule_svg(*plan.times), overwrite);
}

}  // namespace mt
