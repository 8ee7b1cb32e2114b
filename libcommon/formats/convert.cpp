#include "formats/convert.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <span>

#include "base/progress.h"
#include "base/threads.h"
#include "ckpt/megatron_checkpoint.h"
#include "formats/awq.h"
#include "formats/convert_output.h"
#include "formats/finite_weights.h"
#include "formats/gguf/gguf_mixture.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/megatron/bucket_states.h"
#include "formats/megatron/legacy_classes.h"
#include "formats/megatron/rank_files.h"
#include "formats/megatron/rank_optimizer.h"
#include "formats/meta/meta_source.h"
#include "formats/model_sink.h"
#include "formats/names/gguf.h"
#include "formats/row_value.h"
#include "formats/smoothed_source.h"
#include "formats/smoothing.h"
#include "formats/translated_source.h"
#include "formats/upcycled_source.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

namespace fs = std::filesystem;

// Rows are written by so many at a time, whatever the number of threads: files do not depend on it.
constexpr std::size_t kParts = 4;
// Bytes of rows in memory beside the largest one.
constexpr std::uint64_t kMoreMemory = 160 << 20;

// --- What is made of what -----------------------------------------------------------------------

namespace {

// Whose vocabulary is not padded.
bool is_foreign(const ModelSource& source) {
  return source.format() == kHuggingFaceFormat || source.format() == kMetaFormat ||
         source.format() == kGgufFormat;
}

// A conversion before any row of it is written.
struct Plan {
  explicit Plan(const ConvertOptions& options)
      : source(open_source(options)),
        config(config_of(options, *source)),
        target(target_of(options, *source, config)),
        table(model_rows(target.config)),
        stored_dtype(options.dtype.empty()),
        gguf(options.saver == "gguf"),
        in_order(options.saver == "meta"),
        by_stages(target.legacy || (options.saver == "core" && options.ckpt_format == "torch")) {
    check_loader(options.loader);
    const bool bert = target.config.family == ModelFamily::bert;
    if (!options.model_type.empty() && (options.model_type == "BERT") != bert)
      fail(Exit::bad_config, source->path(), ": is ", bert ? "a BERT" : "no BERT",
           ", but --model-type is ", options.model_type);
    if (target.expert_parallel > 1 &&
        (target.config.num_experts == 0 || target.config.num_experts % target.expert_parallel != 0))
      fail(Exit::bad_config, "--target-expert-parallel-size ", target.expert_parallel,
           ": does not divide ", target.config.num_experts, " experts");
    if (options.moe_grouped_gemm && target.config.num_experts == 0)
      fail(Exit::bad_config, "--moe-grouped-gemm: ", source->path(), " has no experts");
    if (target.config.family == ModelFamily::retro && by_stages && target.pipeline_parallel > 1)
      fail(Exit::bad_config, "--target-pipeline-parallel-size ", target.pipeline_parallel,
           ": Megatron-LM's Retro has one stage");
    if (target.legacy) check_legacy(target.config);
    if (target.config.family == ModelFamily::llava && by_stages)
      fail(Exit::bad_config, "--ckpt-format torch: ", source->path(),
           " is a LLaVA, of which Megatron's files of ranks have other rows; torch_dist holds it");
    if (target.config.family == ModelFamily::t5)
      check_t5(options);
    else if (options.target_encoder_pipeline_parallel > 0)
      fail(Exit::bad_config, "--target-encoder-pipeline-parallel-size: ", source->path(),
           " is no T5");
    if (target.weights.format != WeightFormat::none)
      check_quantizable(target.weights.format, target.config);
    target.input_ranges = &input_ranges;
    if (by_stages) check_tensor_ranks();
    source->check_all_used(model_rows(source->config()));
    if (options.with_optimizer) {
      states = source->states();
      if (states.size() < 2) refuse_states();
      // Refuses steps that differ, of which a target keeps one.
      common_step(source->common().at("optimizer", source->path()), *source->common_tensors(),
                  source->path());
    }
  }

  static std::unique_ptr<ModelSource> open_source(const ConvertOptions& o) {
    std::unique_ptr<ModelSource> source = open_model(o.load, o.source);
    if (o.translates())
      return std::make_unique<TranslatedSource>(
          std::move(source),
          TranslateOptions{.pattern = o.hybrid_layer_pattern, .mixers = o.mixers, .seed = o.seed});
    if (o.upcycle == 0) return source;
    return std::make_unique<UpcycledSource>(
        std::move(source),
        UpcycleOptions{.experts = o.upcycle, .chosen = o.moe_router_topk, .seed = o.seed});
  }

  [[noreturn]] void refuse_states() const {
    const std::string type = sharding_type(source->common(), source->path());
    if (type.empty()) fail(Exit::bad_data, source->path(), ": holds no optimizer state");
    fail(Exit::bad_data, source->path(), ": its optimizer state is stored as ", type,
         ", which is not read; of the distributed optimizer's forms fully_sharded_model_space, "
         "fully_reshardable, dp_reshardable, dp_zero_gather_scatter and fully_sharded_bucket_space "
         "are");
  }

  // What is quantized by a text: the model reads it, and is smoothed.
  void calibrate(const ConvertOptions& o, const Log& log) {
    if (o.calibration.text.empty()) return;
    Workers(worker_threads(o.threads)).run([&] {
      const WeightFormat format = target.weights.format;
      const bool searches = format == WeightFormat::int4_awq || format == WeightFormat::w4a8_awq;
      const Calibration calibration = mt::calibrate(*source, o.calibration, searches, log);
      if (target.weights.static_inputs) return keep_ranges(calibration);
      const auto find = searches ? awq_scales : smooth_quant_scales;
      RowFactorsByName factors = smoothing_factors(
          *source, calibration, [&](const Param& row) { return dtype_of(row, ""); },
          [&](const Param& row, const LayerInputs& inputs) { return find(*source, row, inputs); });
      source = std::make_unique<SmoothedSource>(std::move(source), std::move(factors));
    });
  }

  void keep_ranges(const Calibration& calibration) {
    for (const Param& row : table.rows())
      if (is_quantized(target.weights, row))
        input_ranges[row.name()] = std::ranges::max(calibration.of(row).largest);
  }

  // With layers that predict further tokens goes what no other layer of a hybrid has.
  static void leave_further_behind(ModelConfig& config) {
    static_cast<MtpConfig&>(config) = {};
    config.mtp_hybrid_pattern.clear();
    if (config.family != ModelFamily::mamba) return;
    if (!config.has_layer('+')) static_cast<LatentConfig&>(config) = {};
    if (!config.has_layer('E')) static_cast<ExpertConfig&>(config) = {};
  }

  static ModelConfig config_of(const ConvertOptions& o, const ModelSource& source) {
    ModelConfig config = source.config();
    if (o.source.further && *o.source.further != config.mtp_num_layers) {
      if (*o.source.further > 0)
        fail(Exit::bad_config, "--mtp-num-layers ", *o.source.further, ": ", source.path(), " has ",
             config.mtp_num_layers);
      leave_further_behind(config);
    }
    const std::int64_t tp = o.target_tensor_parallel,
                       multiple = tp * o.make_vocab_size_divisible_by.value_or(
                                           config.make_vocab_size_divisible_by),
                       padded = (config.vocab_size + multiple - 1) / multiple * multiple;
    // A torch_dist checkpoint that becomes one again keeps what was trained of its padding.
    const bool keeps = source.format() == "torch_dist" && o.saver == "core" &&
                       o.ckpt_format == "torch_dist" && !o.make_vocab_size_divisible_by &&
                       config.padded_vocab_size % multiple == 0;
    if (!keeps) {
      config.make_vocab_size_divisible_by = multiple / tp;
      config.padded_vocab_size = padded;
    }
    return config;
  }

  static ModelTarget target_of(const ConvertOptions& o, const ModelSource& source,
                               const ModelConfig& config) {
    fs::path save = fs::path(o.save);
    if (!save.has_filename()) save = save.parent_path();              // "out/"
    for (int links = 0; links < 40 && fs::is_symlink(save); ++links)  // what they lead to is made
      save = save.parent_path() / fs::read_symlink(save);
    const PipelineOptions pipeline = pipeline_of(o, config);
    return {.path = save.string(),
            .source = source,
            .config = config,
            .dtype = o.dtype.empty() ? source.dtype() : dtype_named(o.dtype),
            .replaces = o.force,
            .with_optimizer = o.with_optimizer,
            .local_spec = o.transformer_impl == "local",
            .tensor_parallel = o.target_tensor_parallel,
            .pipeline_parallel = o.target_pipeline_parallel,
            .expert_parallel = o.target_expert_parallel,
            .pipeline = pipeline,
            .stages = make_pipeline_stages(pipeline, static_cast<int>(o.target_pipeline_parallel),
                                           divided_layers(pipeline, o, config)),
            .shard_bytes = static_cast<std::uint64_t>(o.shard_megabytes) * 1'000'000,
            .common_file = !o.no_common_file,
            .mixture = gguf_mixture(o.dtype),
            .weights = scheme_of(o),
            .grouped_experts = o.moe_grouped_gemm,
            .legacy = o.saver == "legacy"};
  }

  static WeightScheme scheme_of(const ConvertOptions& o) {
    const WeightFormat format = weight_format(o.quantize);
    return {.format = format,
            .static_inputs =
                calibration_use(format) == CalibrationUse::may && !o.calibration.text.empty(),
            .modelopt = o.quantize_layout == "modelopt"};
  }

  static PipelineOptions pipeline_of(const ConvertOptions& o, const ModelConfig& config) {
    PipelineOptions pipeline = o.pipeline;
    const std::int64_t stages = o.target_encoder_pipeline_parallel;
    if (config.family != ModelFamily::t5 || stages == 0) return pipeline;
    if (config.encoder_num_layers % stages != 0)
      fail(Exit::bad_config, "--target-encoder-pipeline-parallel-size ", stages,
           ": does not divide ", config.encoder_num_layers, " layers of the encoder");
    pipeline.encoder_ranks = static_cast<int>(stages);
    return pipeline;
  }

  // Megatron-LM divides the layers of a T5's decoder alone among several ranks.
  static std::vector<LayerPlan> divided_layers(const PipelineOptions& pipeline,
                                               const ConvertOptions& o, const ModelConfig& config) {
    std::vector<LayerPlan> layers = layers_of(config);
    if (config.family == ModelFamily::t5 && pipeline.encoder_ranks == 0 &&
        o.target_pipeline_parallel > 1)
      std::erase_if(layers, [](const LayerPlan& layer) { return layer.stack == "encoder"; });
    return layers;
  }

  // What Megatron-LM's pretrain_t5.py makes.
  void check_t5(const ConvertOptions& o) const {
    if (!by_stages) return;
    if (target.pipeline_parallel > 1 && target.pipeline.encoder_ranks == 0)
      fail(Exit::bad_config, "--target-pipeline-parallel-size ", target.pipeline_parallel,
           ": are the stages of a T5's decoder; its encoder needs "
           "--target-encoder-pipeline-parallel-size");
    const PipelineOptions& p = o.pipeline;
    for (const auto& [flag, given] :
         {std::pair("--num-layers-per-virtual-pipeline-stage",
                    p.layers_per_virtual_stage.has_value()),
          {"--num-virtual-stages-per-pipeline-rank", p.virtual_stages_per_rank.has_value()},
          {"--decoder-first-pipeline-num-layers", p.first_layers.has_value()},
          {"--decoder-last-pipeline-num-layers", p.last_layers.has_value()},
          {"--account-for-embedding-in-pipeline-split", p.account_for_embedding},
          {"--account-for-loss-in-pipeline-split", p.account_for_loss},
          {"--pipeline-model-parallel-layout", !p.layout.empty()}})
      if (given)
        fail(Exit::bad_config, flag,
             ": Megatron-LM gives each stage of a T5 as many of its stack's layers, in one chunk");
  }

  void check_tensor_ranks() const {
    if (target.config.multi_latent_attention && target.tensor_parallel > 1)
      fail(Exit::bad_config, "--target-tensor-parallel-size ", target.tensor_parallel,
           ": in files of ranks not with --multi-latent-attention, of whose projections down each "
           "would have a part");
    try {
      rank_rows(target.config, 0, target.tensor_parallel);
    } catch (const Error& error) {
      fail(error.code(), "--target-tensor-parallel-size ", target.tensor_parallel, ": ",
           error.what());
    }
  }

  static DType dtype_named(const std::string& name) {
    return name == "bf16" ? DType::bf16 : name == "fp16" ? DType::f16 : DType::f32;
  }

  void check_loader(const std::string& loader) const {
    const bool foreign = is_foreign(*source), meta = source->format() == kMetaFormat,
               legacy = source->format() == kLegacyFormat,
               of_gguf = source->format() == kGgufFormat;
    const bool right =
        of_gguf || loader == "gguf" ? of_gguf && loader == "gguf"
        : foreign ? loader != "core" && loader != "legacy" && (!meta || loader == "llama_mistral")
                  : loader == (legacy ? "legacy" : "core");
    if (!loader.empty() && !right)
      fail(Exit::bad_config, source->path(), ": is ",
           meta      ? "Meta's"
           : of_gguf ? "a GGUF file"
           : foreign ? "Hugging Face's"
           : legacy  ? "of Megatron's legacy classes"
                     : "Megatron's",
           ", but --loader is ", loader);
  }

  DType dtype_of(const Param& row, const std::string& state) const {
    const bool as_named = !stored_dtype || is_quantized(target.weights, row);
    const DType dtype = state.empty() && as_named ? target.dtype : source->dtype_of(row, state);
    return gguf ? gguf_dtype(row, dtype, target.mixture != nullptr) : dtype;
  }

  std::uint64_t bytes_of(const Param& row, const std::string& state) const {
    return static_cast<std::uint64_t>(row.shape.numel()) * size_of(dtype_of(row, state));
  }

  // What goes along of a row: its values, and maybe states.
  std::span<const std::string> states_of(const Param& row) const {
    return std::span(states).first(source->has_states(row) ? states.size() : 1);
  }

  std::uint64_t bytes_of(const Param& row) const {
    std::uint64_t bytes = 0;
    for (const std::string& state : states_of(row)) bytes += bytes_of(row, state);
    return bytes;
  }

  std::uint64_t largest_bytes() const {  // of one state of a row
    std::uint64_t largest = 0;
    for (const Param& row : table.rows())
      for (const std::string& state : states_of(row))
        largest = std::max(largest, bytes_of(row, state));
    return largest;
  }

  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Param& row : table.rows()) sum += bytes_of(row);
    return sum;
  }

  // How many bytes the target has of the rows.
  std::uint64_t written_bytes() const {
    std::uint64_t sum = 0;
    for (const Param& row : table.rows())
      if (!is_quantized(target.weights, row))
        sum += bytes_of(row);
      else
        for (const ForeignName& name : hugging_face_names(target.config, row))
          for (const SafetensorsWriter::Entry& made :
               quantized_entries(target.weights, name.name, dtype_of(row, ""),
                                 hugging_face_shape(row, name, target.config)))
            sum += static_cast<std::uint64_t>(made.shape.numel()) * size_of(made.dtype);
    return sum;
  }

  std::unique_ptr<ModelSource> source;
  ModelConfig config;  // the target's
  ModelTarget target;
  ParamTable table;  // without values
  bool stored_dtype;
  bool gguf;
  bool in_order;                              // the target is written from front to back
  bool by_stages;                             // parts of the target are pipeline ranks
  std::vector<std::string> states = {""};     // the first, of all
  std::map<std::string, float> input_ranges;  // the target's
};

}  // namespace

// Parts the rows so that all parts have equally many bytes, as far as rows allow.
static Parts parts_of(const Plan& plan, std::size_t count) {
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
static void for_each_state(const Plan& plan, const Parts& parts, int threads, std::uint64_t copies,
                           const std::function<void()>& check, const Body& body) {
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
static void compare_row(const Plan& plan, const ModelSource& written, const Param& row,
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

static std::unique_ptr<ModelSource> open_written(const Plan& plan, const std::string& folder) {
  ModelSourceOptions there;
  there.vocab_size = plan.target.config.vocab_size;
  there.with_optimizer = plan.target.with_optimizer;
  there.check_while_reading = true;
  there.further = plan.target.config.mtp_num_layers;
  std::unique_ptr<ModelSource> written = open_model(folder, there);
  written->check_all_used(plan.table);
  return written;
}

static std::unique_ptr<GgufReader> open_written_gguf(const Plan& plan, const std::string& folder) {
  auto written = std::make_unique<GgufReader>(folder + "/model.gguf");
  check_gguf_tensors(plan.target, plan.table, *written);
  return written;
}

static std::int64_t read_back(const Plan& plan, const std::string& folder, int threads,
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
static void check_range(const Plan& plan, const Param& row, const std::string& state,
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

static std::unique_ptr<ModelSink> make_sink(const ConvertOptions& options, const Plan& plan) {
  const RowTypes types = [&](const Param& row, const std::string& state) {
    return plan.dtype_of(row, state);
  };
  if (options.saver == "hf") return make_hugging_face_sink(plan.target, plan.table, types);
  if (options.saver == "meta") return make_meta_sink(plan.target, plan.table, types);
  if (plan.gguf) return make_gguf_sink(plan.target, plan.table, types);
  if (plan.by_stages) return make_rank_files_sink(plan.target, types);
  if (options.ckpt_format == "torch_dcp") return make_dcp_sink(plan.target, plan.table, kParts);
  return make_core_sink(plan.target, plan.table, kParts);
}

static QuantizationCost cost_of(const Plan& plan, const std::string& folder,
                                const ConvertOptions& options, const Log& log) {
  const auto written = open_written(plan, folder);
  TextOptions text = options.calibration;
  text.text = options.cost_text;
  QuantizationCost cost;
  Workers(worker_threads(options.threads)).run([&] {
    cost = quantization_cost(*plan.source, *written, text, log);
  });
  return cost;
}

ConvertReport convert_checkpoint(const ConvertOptions& options, const Log& log,
                                 const std::function<void()>& check) {
  Plan plan(options);
  check_output(options, plan.target);
  for (const std::string& note : plan.source->notes()) log.note(note);
  note_what_stays(options, plan.target, log);
  ConvertReport report{.from = plan.source->format(),
                       .to = options.saver == "core" ? options.ckpt_format : options.saver,
                       .rows = std::ssize(plan.table.rows()),
                       .bytes = plan.written_bytes()};
  const std::unique_ptr<ModelSink> sink = make_sink(options, plan);
  plan.calibrate(options, log);
  for (const std::string& warning : sink->warnings()) log.warn(warning);
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
  if (!options.cost_text.empty()) report.cost = cost_of(plan, written, options, log);
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
  const Plan plan(options);
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
      if (plan.gguf)
        for (const std::string& name : gguf_names(plan.target, row)) text += "  " + name;
      text += '\n';
    }
  return text;
}

}  // namespace mt
