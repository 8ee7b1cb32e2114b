#include "formats/convert.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/json_parse.h"
#include "base/json_place.h"
#include "base/progress.h"
#include "base/threads.h"
#include "formats/convert_output.h"
#include "formats/convert_plan.h"
#include "formats/finite_weights.h"
#include "formats/gguf/gguf_mixture.h"
#include "formats/megatron/rank_files.h"
#include "formats/meta/meta_source.h"
#include "formats/names/gguf.h"
#include "formats/names/trtllm.h"
#include "formats/row_value.h"

namespace mt {

// Rows are written by so many at a time, whatever the number of threads: files do not depend on it.
constexpr std::size_t kParts = 4;
// Bytes of rows in memory beside the largest one.
constexpr std::uint64_t kMoreMemory = 160 << 20;

// Parts the rows so that all parts have equally many bytes, as far as rows allow.
static Parts parts_of(const ConvertPlan& plan, std::size_t count) {
  Parts parts(count);
  const std::uint64_t total = plan.bytes();
  std::uint64_t before = 0;
  for (const Param& row : plan.table.rows()) {
    auto& part = parts[std::min<std::uint64_t>(before * count / total, count - 1)];
    for (const std::string& state : plan.states_of(row)) part.push_back({&row, state});
    before += plan.bytes_of(row);
  }
  return parts;
}

// Calls body(part, row, state, memory) for all, several parts at a time; an error stops every part.
// A call has `copies` of its row in memory.
template <class Body>
static void for_each_state(const ConvertPlan& plan, const Parts& parts, int threads,
                           std::uint64_t copies, const std::function<void()>& check,
                           const Body& body) {
  std::atomic<bool> stopped = false;
  std::mutex checking;
  RowMemory memory(plan.largest_bytes() + kMoreMemory);
  const auto write_part = [&](std::size_t part) {
    for (const auto& [row, state] : parts[part]) {
      if (stopped) return;
      {
        const std::scoped_lock lock(checking);
        check();
      }
      const RowMemory::Place place(memory, copies * plan.bytes_of(*row, state));
      body(part, *row, state, memory);
    }
  };
  Workers(worker_threads(threads)).run([&] {
    parallel_for_ordered_errors(std::ssize(parts), [&](std::int64_t part) {
      try {
        write_part(static_cast<std::size_t>(part));
      } catch (...) {
        stopped = true;
        throw;
      }
    });
  });
}

// --- Reading back -------------------------------------------------------------------------------

// OUTPUT's row, and what of INPUT's must be there.
static void compare_row(const ConvertPlan& plan, const ModelSource& written, const Param& row,
                        const std::string& state, RowMemory& memory) {
  const DType dtype = plan.dtype_of(row, state);
  if (written.dtype_of(row, state) != dtype)
    fail(Exit::difference, plan.target.path, ": ", row.name(), " is ",
         name_of(written.dtype_of(row, state)), ", expected ", name_of(dtype));
  const RowValue a(*plan.source, row, state, dtype, memory), b(written, row, state, dtype, memory);
  ConstTensor expected = a.tensor(), found = b.tensor();
  Buffer rounded;
  if (is_quantized(plan.target.weights, row)) {
    rounded = Buffer(Device::cpu, expected.bytes());
    std::memcpy(rounded.data(), expected.data(), expected.bytes());
    round_to_format(plan.target, row, rounded.tensor(dtype, expected.shape()));
    expected = rounded.tensor(dtype, expected.shape());
  }
  if (row.is_vocabulary()) {  // the padding need not travel
    expected = expected.rows(0, plan.target.config.vocab_size);
    found = found.rows(0, plan.target.config.vocab_size);
  }
  if (std::memcmp(expected.data(), found.data(), expected.bytes()) != 0)
    fail(Exit::difference, plan.target.path, ": ", row.name(), state.empty() ? "" : ": ", state,
         ": differs from ", plan.source->path());
}

static std::unique_ptr<ModelSource> open_written(const ConvertPlan& plan,
                                                 const std::string& folder) {
  ModelSourceOptions there;
  there.vocab_size = plan.target.config.vocab_size;
  there.with_optimizer = plan.target.with_optimizer;
  there.check_while_reading = true;
  there.further = plan.target.config.mtp_num_layers;
  std::unique_ptr<ModelSource> written = open_model(folder, there);
  written->check_all_used(plan.table);
  return written;
}

static std::unique_ptr<GgufReader> open_written_gguf(const ConvertPlan& plan,
                                                     const std::string& folder) {
  auto written = std::make_unique<GgufReader>(folder + "/model.gguf");
  check_gguf_tensors(plan.target, plan.table, *written);
  return written;
}

static std::int64_t read_back(const ConvertPlan& plan, const std::string& folder, int threads,
                              const Log& log, const std::function<void()>& check) {
  const auto gguf = plan.gguf ? open_written_gguf(plan, folder) : nullptr;
  const auto written = plan.gguf ? nullptr : open_written(plan, folder);
  Progress progress(log, "comparing", "bytes", plan.bytes());
  std::atomic<std::int64_t> compared = 0;
  for_each_state(plan, parts_of(plan, kParts), threads, 2, check,
                 [&](std::size_t, const Param& row, const std::string& state, RowMemory& memory) {
                   if (gguf != nullptr) {
                     const RowValue value(*plan.source, row, state, plan.dtype_of(row, state),
                                          memory);
                     compare_with_gguf(plan.target, *gguf, row, value.tensor());
                   } else {
                     compare_row(plan, *written, row, state, memory);
                   }
                   progress.add(plan.bytes_of(row, state));
                   ++compared;
                 });
  progress.finish();
  if (written != nullptr) written->finish_reading();
  return compared;
}

// --- Converting ---------------------------------------------------------------------------------

// Counts the numbers of a tensor of T for which `is` holds.  A file's tensor may begin at any byte.
template <class T, class Is>
static std::int64_t count_numbers(ConstTensor tensor, const Is& is) {
  const auto* at = static_cast<const std::byte*>(tensor.data());
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i, at += sizeof(T)) {
    T number;
    std::memcpy(&number, at, sizeof number);
    count += is(number) ? 1 : 0;
  }
  return count;
}

// What float16 cannot hold would become infinite, and compare as equal with itself; what a scale of
// blocks cannot, would be lost.
static void check_range(const ConvertPlan& plan, const Param& row, const std::string& state,
                        ConstTensor value) {
  if (const GgufMixture* const mixture = plan.target.mixture; mixture && is_gguf_quantized(row)) {
    const float largest = (mixture->base == GgufType::q8_0 ? 127 : 1) * 65504.0F;
    const std::int64_t lost =
        count_numbers<float>(value, [&](float x) { return !(std::fabs(x) <= largest); });
    if (lost > 0)
      fail(Exit::bad_config, plan.source->path(), ": ", row.name(), ": ", lost,
           " numbers are not finite, or too large for ", mixture->name,
           ", whose scales are float16; see --dtype");
    return;
  }
  if (value.dtype() != DType::f16 || plan.source->dtype_of(row, state) == DType::f16) return;
  constexpr std::uint16_t kMagnitude = 0x7FFF, kInfinity = 0x7C00;
  const std::int64_t infinite = count_numbers<std::uint16_t>(
      value, [](std::uint16_t bits) { return (bits & kMagnitude) == kInfinity; });
  if (infinite > 0)
    fail(Exit::bad_config, plan.source->path(), ": ", row.name(), ": ", infinite,
         " numbers are infinite or too large for float16, which ends at 65504; see --dtype");
}

static std::unique_ptr<ModelSink> make_sink(const ConvertOptions& options,
                                            const ConvertPlan& plan) {
  const RowTypes types = [&](const Param& row, const std::string& state) {
    return plan.dtype_of(row, state);
  };
  if (options.saver == "hf") return make_hugging_face_sink(plan.target, plan.table, types);
  if (options.saver == "meta") return make_meta_sink(plan.target, plan.table, types);
  if (options.saver == "trtllm") return make_trtllm_sink(plan.target, plan.table, types);
  if (plan.gguf) return make_gguf_sink(plan.target, plan.table, types);
  if (plan.by_stages) return make_rank_files_sink(plan.target, types);
  if (options.ckpt_format == "torch_dcp") return make_dcp_sink(plan.target, plan.table, kParts);
  return make_core_sink(plan.target, plan.table, kParts);
}

// Nothing without --cost-text.
static std::optional<TextSequences> cost_text_of(const ConvertPlan& plan,
                                                 const ConvertOptions& options) {
  if (options.cost_text.empty()) return {};
  TextOptions text = options.calibration;
  text.text = options.cost_text;
  return read_cost_text(*plan.source, text);
}

static QuantizationCost cost_of(const ConvertPlan& plan, const std::string& folder,
                                const TextSequences& text, const ConvertOptions& options,
                                const Log& log) {
  const auto written = open_written(plan, folder);
  QuantizationCost cost;
  Workers(worker_threads(options.threads)).run([&] {
    cost = quantization_cost(*plan.source, *written, text, options.calibration, log);
  });
  return cost;
}

// Files beside the weights that are copied, though nobody can read them: tokenizers are told by
// notes.
static void warn_of_damaged(const ModelSource& source, const Log& log) {
  for (const Companion& file : source.companions()) {
    const std::string place = file.path.empty() ? file.name : file.path;
    const auto tells = [&](const std::string& note) { return note.find(place) != note.npos; };
    if (!file.name.ends_with(".json") || std::ranges::any_of(source.notes(), tells)) continue;
    if (const std::string where = json_place(with_plain_numbers(file.read())); !where.empty())
      log.warn(concat(place, ": ", where, "no JSON; it travels as it is"));
  }
}

ConvertReport convert_checkpoint(const ConvertOptions& options, const Log& log,
                                 const std::function<void()>& check) {
  ConvertPlan plan(options);
  check_output(options, plan.target);
  for (const std::string& note : plan.source->notes()) log.note(note);
  options.compute.warn(log);
  warn_of_damaged(*plan.source, log);
  note_what_stays(options, plan.target, log);
  ConvertReport report{.from = plan.source->format(),
                       .to = options.saver == "core" ? options.ckpt_format : options.saver,
                       .rows = std::ssize(plan.table.rows()),
                       .bytes = plan.written_bytes()};
  const std::unique_ptr<ModelSink> sink = make_sink(options, plan);
  const std::optional<TextSequences> cost_text = cost_text_of(plan, options);
  plan.calibrate(options, log);
  for (const std::string& warning : sink->warnings()) log.warn(warning);
  if (const auto lost = std::ranges::count_if(
          plan.table.rows(), [&](const Param& row) { return lacks_states(*plan.source, row); });
      plan.states.size() > 1 && lost > 0)
    log.warn(concat(plan.source->path(), ": ", lost,
                    " rows have no state of the optimizer: they were frozen, or it is lost"));
  std::atomic<bool> warned = false;
  // What is copied in any case is looked at, the first such tensor told.
  const auto look_at = [&](const Param& row, const RowValue& value) {
    if (!value.is_copy() || warned) return;
    const std::string text = non_finite_text(plan.source->path(), row, value.tensor());
    if (!text.empty() && !warned.exchange(true)) log.warn(text);
  };
  Progress progress(log, "converting", "bytes", plan.bytes());
  const Parts parts = plan.by_stages ? rank_file_parts(plan.target, plan.table)
                                     : parts_of(plan, plan.in_order ? 1 : kParts);
  for_each_state(
      plan, parts, options.threads, 1, check,
      [&](std::size_t part, const Param& row, const std::string& state, RowMemory& memory) {
        const RowValue value(*plan.source, row, state, plan.dtype_of(row, state), memory);
        check_range(plan, row, state, value.tensor());
        if (is_quantized(plan.target.weights, row))
          check_finite(plan.source->path(), row, value.tensor());
        else if (state.empty())
          look_at(row, value);
        sink->write(part, row, state, value.tensor());
        progress.add(value.tensor().bytes());
      });
  progress.finish();
  plan.source->finish_reading();
  const std::string written = sink->finish();
  if (options.verify) report.compared = read_back(plan, written, options.threads, log, check);
  if (options.try_written) options.try_written(written);
  if (cost_text) report.cost = cost_of(plan, written, *cost_text, options, log);
  sink->publish();
  return report;
}

void ConvertReport::write(JsonWriter& json) const {
  json.begin_object()
      .member("schema", "mt-convert/1")
      .member("from", from)
      .member("to", to)
      .member("tensors", rows)
      .member("bytes", bytes)
      .member("compared", compared);
  if (cost) {
    json.key("cost");
    cost->write(json);
  }
  json.end_object();
}

std::string describe_conversion(const ConvertOptions& options) {
  const ConvertPlan plan(options);
  check_output(options, plan.target);
  std::string text;
  for (const Param& row : plan.table.rows())
    for (const std::string& state : plan.states_of(row)) {
      text += concat(row.name(), state.empty() ? "" : " ", state, "  ",
                     name_of(plan.dtype_of(row, state)), ' ', row.shape);
      const auto add = [&](const std::vector<ForeignName>& names) {
        for (const ForeignName& name : names) {
          const Shape shape = hugging_face_shape(row, name, plan.target.config);
          if (is_quantized(plan.target.weights, row))
            for (const auto& made :
                 quantized_entries(plan.target.weights, name.name, plan.target.dtype, shape))
              text += concat("  ", made.name, ' ', name_of(made.dtype), ' ', made.shape);
          else
            text += concat("  ", name.name, ' ', shape);
        }
      };
      if (options.saver == "hf") {
        const std::vector<ForeignName> names = hugging_face_names(plan.target.config, row);
        add(names);
        for (const std::string& copy : hugging_face_copies(plan.target.config, row))
          add({{.name = copy, .transform = names.front().transform}});
      }
      if (options.saver == "meta") add(meta_tensors(plan.target.config, row));
      if (options.saver == "trtllm")
        for (const TrtllmName& name : trtllm_names(plan.target.config, row))
          text += "  " + name.name;
      if (plan.gguf)
        for (const std::string& name : gguf_names(plan.target, row)) text += "  " + name;
      text += '\n';
    }
  return text;
}

}  // namespace mt
