#include "formats/convert_plan.h"

#include <algorithm>
#include <filesystem>

#include "base/threads.h"
#include "ckpt/megatron_checkpoint.h"
#include "formats/awq.h"
#include "formats/gguf/gguf_mixture.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/joined_source.h"
#include "formats/megatron/bucket_states.h"
#include "formats/megatron/legacy_classes.h"
#include "formats/megatron/rank_files.h"
#include "formats/megatron/rank_optimizer.h"
#include "formats/meta/meta_source.h"
#include "formats/names/gguf.h"
#include "formats/smoothed_source.h"
#include "formats/smoothing.h"
#include "formats/translated_source.h"
#include "formats/trtllm/trtllm_config.h"
#include "formats/upcycled_source.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

namespace fs = std::filesystem;

namespace {

// Whose vocabulary is not padded.
bool is_foreign(const ModelSource& source) {
  return source.format() == kHuggingFaceFormat || source.format() == kMetaFormat ||
         source.format() == kGgufFormat;
}

std::unique_ptr<ModelSource> open_source(const ConvertOptions& o) {
  std::unique_ptr<ModelSource> source = open_model(o.load, o.source);
  if (o.translates())
    return std::make_unique<TranslatedSource>(
        std::move(source),
        TranslateOptions{.pattern = o.hybrid_layer_pattern, .mixers = o.mixers, .seed = o.seed});
  if (!o.vision_tower.empty()) {
    JoinOptions join = o.join;
    join.seed = o.seed;
    return std::make_unique<JoinedSource>(
        std::move(source), open_model(o.vision_tower, {.check_while_reading = true}), join);
  }
  if (o.upcycle == 0) return source;
  return std::make_unique<UpcycledSource>(
      std::move(source),
      UpcycleOptions{.experts = o.upcycle, .chosen = o.moe_router_topk, .seed = o.seed});
}

DType dtype_named(const std::string& name) {
  return name == "bf16" ? DType::bf16 : name == "fp16" ? DType::f16 : DType::f32;
}

// With layers that predict further tokens goes what no other layer of a hybrid has.
void leave_further_behind(ModelConfig& config) {
  static_cast<MtpConfig&>(config) = {};
  config.mtp_hybrid_pattern.clear();
  if (config.family != ModelFamily::mamba) return;
  if (!config.has_layer('+')) static_cast<LatentConfig&>(config) = {};
  if (!config.has_layer('E')) static_cast<ExpertConfig&>(config) = {};
}

ModelConfig config_of(const ConvertOptions& o, const ModelSource& source) {
  ModelConfig config = source.config();
  config.value_head = false;  // of a policy that learns, and of no use to others
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

WeightScheme scheme_of(const ConvertOptions& o) {
  const WeightFormat format = weight_format(o.quantize);
  return {.format = format,
          .static_inputs =
              calibration_use(format) == CalibrationUse::may && !o.calibration.text.empty(),
          // TensorRT-LLM's scales are ModelOpt's.
          .modelopt = o.quantize_layout == "modelopt" ||
                      (o.saver == "trtllm" && has_modelopt_folder(format))};
}

PipelineOptions pipeline_of(const ConvertOptions& o, const ModelConfig& config) {
  PipelineOptions pipeline = o.pipeline;
  check_layout_predicts(pipeline.layout, config.mtp_num_layers);
  const std::int64_t stages = o.target_encoder_pipeline_parallel;
  if (config.family != ModelFamily::t5 || stages == 0) return pipeline;
  if (config.encoder_num_layers % stages != 0)
    fail(Exit::bad_config, "--target-encoder-pipeline-parallel-size ", stages, ": does not divide ",
         config.encoder_num_layers, " layers of the encoder");
  pipeline.encoder_ranks = static_cast<int>(stages);
  return pipeline;
}

// Megatron-LM divides the layers of a T5's decoder alone among several ranks.
std::vector<LayerPlan> divided_layers(const PipelineOptions& pipeline, const ConvertOptions& o,
                                      const ModelConfig& config) {
  std::vector<LayerPlan> layers = layers_of(config);
  if (config.family == ModelFamily::t5 && pipeline.encoder_ranks == 0 &&
      o.target_pipeline_parallel > 1)
    std::erase_if(layers, [](const LayerPlan& layer) { return layer.stack == "encoder"; });
  return layers;
}

ModelTarget target_of(const ConvertOptions& o, const ModelSource& source,
                      const ModelConfig& config) {
  fs::path save = fs::path(o.save);
  if (!save.has_filename()) save = save.parent_path();  // "out/"
  std::error_code error;                                // is told by check_output()
  // What they lead to is made.
  for (int links = 0; links < 40 && fs::is_symlink(save, error); ++links)
    save = save.parent_path() / fs::read_symlink(save, error);
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

}  // namespace

ConvertPlan::ConvertPlan(const ConvertOptions& options)
    : source(open_source(options)),
      config(config_of(options, *source)),
      target(target_of(options, *source, config)),
      table(model_rows(target.config)),
      stored_dtype(options.dtype.empty()),
      gguf(options.saver == "gguf"),
      in_order(options.saver == "meta"),
      by_stages(target.legacy || (options.saver == "core" && options.ckpt_format == "torch")) {
  check_loader(options.loader);
  check_layout(options);
  if (options.saver == "trtllm") check_trtllm(target);
  if (target.weights.format != WeightFormat::none)
    check_quantizable(target.weights.format, target.config);
  target.input_ranges = &input_ranges;
  if (gguf) target.importance = &importance;
  if (!options.imatrix.empty()) {
    importance = ImportanceMatrix(options.imatrix);
    check_gguf_importance(target, table, options.imatrix);
  }
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

[[noreturn]] void ConvertPlan::refuse_states() const {
  const std::string type = sharding_type(source->common(), source->path());
  if (type.empty()) fail(Exit::bad_data, source->path(), ": holds no optimizer state");
  fail(Exit::bad_data, source->path(), ": its optimizer state is stored as ", type,
       ", which is not read; of the distributed optimizer's forms fully_sharded_model_space, "
       "fully_reshardable, dp_reshardable, dp_zero_gather_scatter and fully_sharded_bucket_space "
       "are");
}

void ConvertPlan::check_loader(const std::string& loader) const {
  const bool foreign = is_foreign(*source), meta = source->format() == kMetaFormat,
             legacy = source->format() == kLegacyFormat, of_gguf = source->format() == kGgufFormat;
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

void ConvertPlan::check_layout(const ConvertOptions& options) const {
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
}

// What Megatron-LM's pretrain_t5.py makes.
void ConvertPlan::check_t5(const ConvertOptions& o) const {
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

void ConvertPlan::check_tensor_ranks() const {
  if (target.config.multi_latent_attention && target.tensor_parallel > 1)
    fail(Exit::bad_config, "--target-tensor-parallel-size ", target.tensor_parallel,
         ": in files of ranks not with --multi-latent-attention, of whose projections down each "
         "would have a part");
  if (target.config.is_internvit_tower() && target.config.qk_layernorm &&
      target.tensor_parallel > 1)
    fail(Exit::bad_config, "--target-tensor-parallel-size ", target.tensor_parallel,
         ": in files of ranks not of an InternViT with --qk-layernorm, of whose norms each would "
         "have a part");
  try {
    rank_rows(target.config, 0, target.tensor_parallel);
  } catch (const Error& error) {
    fail(error.code(), "--target-tensor-parallel-size ", target.tensor_parallel, ": ",
         error.what());
  }
}

void ConvertPlan::calibrate(const ConvertOptions& o, const Log& log) {
  if (o.calibration.text.empty()) return;
  Workers(worker_threads(o.threads)).run([&] {
    const WeightFormat format = target.weights.format;
    const bool searches = format == WeightFormat::int4_awq || format == WeightFormat::w4a8_awq;
    const Calibration calibration = mt::calibrate(*source, o.calibration, searches, log);
    if (target.weights.static_inputs) return keep_ranges(calibration);
    if (gguf) {
      importance = gguf_importance(target, table, calibration);
      return;
    }
    const auto find = searches ? awq_scales : smooth_quant_scales;
    RowFactorsByName factors = smoothing_factors(
        *source, calibration, [&](const Param& row) { return dtype_of(row, ""); },
        [&](const Param& row, const LayerInputs& inputs) { return find(*source, row, inputs); });
    source = std::make_unique<SmoothedSource>(std::move(source), std::move(factors));
  });
}

void ConvertPlan::keep_ranges(const Calibration& calibration) {
  for (const Param& row : table.rows())
    if (is_quantized(target.weights, row))
      input_ranges[row.name()] = std::ranges::max(calibration.of(row).largest);
}

DType ConvertPlan::dtype_of(const Param& row, const std::string& state) const {
  const bool as_named = !stored_dtype || is_quantized(target.weights, row);
  const DType dtype = state.empty() && as_named ? target.dtype : source->dtype_of(row, state);
  return gguf ? gguf_dtype(row, dtype, target.mixture != nullptr) : dtype;
}

std::span<const std::string> ConvertPlan::states_of(const Param& row) const {
  return std::span(states).first(source->has_states(row) ? states.size() : 1);
}

std::uint64_t ConvertPlan::bytes_of(const Param& row, const std::string& state) const {
  return static_cast<std::uint64_t>(row.shape.numel()) * size_of(dtype_of(row, state));
}

std::uint64_t ConvertPlan::bytes_of(const Param& row) const {
  std::uint64_t bytes = 0;
  for (const std::string& state : states_of(row)) bytes += bytes_of(row, state);
  return bytes;
}

std::uint64_t ConvertPlan::bytes() const {
  std::uint64_t sum = 0;
  for (const Param& row : table.rows()) sum += bytes_of(row);
  return sum;
}

std::uint64_t ConvertPlan::largest_bytes() const {
  std::uint64_t largest = 0;
  for (const Param& row : table.rows())
    for (const std::string& state : states_of(row))
      largest = std::max(largest, bytes_of(row, state));
  return largest;
}

std::uint64_t ConvertPlan::written_bytes() const {
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

}  // namespace mt
