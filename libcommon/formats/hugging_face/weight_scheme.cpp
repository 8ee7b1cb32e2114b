#include "formats/hugging_face/weight_scheme.h"

#include <algorithm>

#include "base/error.h"
#include "formats/hugging_face/layer_norm_families.h"
#include "formats/hugging_face/packed_tensors.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr std::string_view kNames[] = {"",         "fp8",      "fp8_block", "int8_sq",
                                       "int4_awq", "w4a8_awq", "nvfp4",     "mxfp4"};
constexpr std::int64_t kBlock = 128;

// Those of float16 would have few bits or none where weights are small.
DType dtype_of_scales(DType of_matrix) {
  return of_matrix == DType::bf16 ? DType::bf16 : DType::f32;
}

// Elements of a row that have a scale together; 0 where rows have any number of them.
std::int64_t group_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::int4_awq:
    case WeightFormat::w4a8_awq:
      return kGroupOfFourBits;
    case WeightFormat::nvfp4:
      return 16;
    case WeightFormat::mxfp4:
      return 32;
    default:
      return 0;
  }
}

// A scheme has these names and settings in compressed-tensors.
struct Compressed {
  const char* format;
  const char* weights;
  const char* inputs;
};

Compressed compressed(const WeightScheme& scheme) {
  constexpr const char* kFloat8 = R"({"num_bits":8,"type":"float","symmetric":true,)";
  static const std::string static_inputs =
      concat(kFloat8, R"("strategy":"tensor","dynamic":false})");
  static const std::string tokens = concat(kFloat8, R"("strategy":"token","dynamic":true})");
  static const std::string rows = concat(kFloat8, R"("strategy":"channel","dynamic":false})");
  constexpr const char* kGroups =
      R"({"num_bits":4,"type":"int","symmetric":true,"strategy":"group","group_size":128,)"
      R"("dynamic":false})";
  constexpr const char* kNone = "null";
  switch (scheme.format) {
    case WeightFormat::int8_sq:
      return {.format = "int-quantized",
              .weights = R"({"num_bits":8,"type":"int","symmetric":true,"strategy":"channel",)"
                         R"("dynamic":false})",
              .inputs = R"({"num_bits":8,"type":"int","symmetric":true,"strategy":"token",)"
                        R"("dynamic":true})"};
    case WeightFormat::int4_awq:
      return {.format = "pack-quantized", .weights = kGroups, .inputs = kNone};
    case WeightFormat::w4a8_awq:
      return {.format = "pack-quantized", .weights = kGroups, .inputs = tokens.c_str()};
    case WeightFormat::nvfp4:
      return {.format = "nvfp4-pack-quantized",
              .weights = R"({"num_bits":4,"type":"float","symmetric":true,)"
                         R"("strategy":"tensor_group","group_size":16,"dynamic":false,)"
                         R"("scale_dtype":"torch.float8_e4m3fn"})",
              .inputs = scheme.static_inputs
                            ? R"({"num_bits":4,"type":"float","symmetric":true,)"
                              R"("strategy":"tensor_group","group_size":16,"dynamic":"local",)"
                              R"("scale_dtype":"torch.float8_e4m3fn"})"
                            : kNone};
    case WeightFormat::mxfp4:
      return {.format = "mxfp4-pack-quantized",
              .weights = R"({"num_bits":4,"type":"float","symmetric":true,"strategy":"group",)"
                         R"("group_size":32,"dynamic":false,"scale_dtype":"torch.uint8"})",
              .inputs = kNone};
    default:
      return {.format = "float-quantized",
              .weights = scheme.static_inputs ? static_inputs.c_str() : rows.c_str(),
              .inputs = scheme.static_inputs ? static_inputs.c_str() : tokens.c_str()};
  }
}

// Returns ModelOpt's name of a format of weights whose inputs have the same.
const char* modelopt_algorithm(WeightFormat format) {
  return format == WeightFormat::fp8 ? "FP8" : "NVFP4";
}

// By its name readers know the folders of this form.
constexpr const char* kProducer = R"({"name":"modelopt","version":"mt"})";

}  // namespace

std::string_view name_of(WeightFormat format) { return kNames[static_cast<int>(format)]; }

std::vector<std::string> weight_formats() { return {std::begin(kNames) + 1, std::end(kNames)}; }

WeightFormat weight_format(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) fail(Exit::internal, name, ": is no format of weights");
  return static_cast<WeightFormat>(found - kNames);
}

CalibrationUse calibration_use(WeightFormat format) {
  switch (format) {
    case WeightFormat::int8_sq:
    case WeightFormat::int4_awq:
    case WeightFormat::w4a8_awq:
      return CalibrationUse::must;
    case WeightFormat::fp8:
    case WeightFormat::nvfp4:
      return CalibrationUse::may;
    default:
      return CalibrationUse::none;
  }
}

bool has_modelopt_folder(WeightFormat format) {
  return format == WeightFormat::fp8 || format == WeightFormat::nvfp4;
}

void check_quantizable(WeightFormat format, const ModelConfig& config) {
  const auto refuse = [&](const char* what) {
    fail(Exit::bad_config, "--quantize ", name_of(format), ": ", what);
  };
  if (config.num_experts > 0) refuse("not of experts, which readers look for in other tensors");
  if (config.family != ModelFamily::gpt)
    refuse("is for a GPT's layers; this is another family's model");
  if (is_layer_norm_family(config.hf_model_type))
    refuse(
        "is for the layers of a Llama and those like it; GPT-NeoX and others call theirs "
        "otherwise");
  if (config.position_embedding_type == "learned_absolute")
    refuse("a GPT-2's layers are no torch.nn.Linear, which alone readers of such folders replace");
  if (config.has_task_head()) refuse("not of a model with the head of a task");
}

bool has_cut_blocks(WeightFormat format, const Shape& shape) {
  return format == WeightFormat::fp8_block && (shape[0] % kBlock != 0 || shape[1] % kBlock != 0);
}

bool is_quantized(const WeightScheme& scheme, const Param& row) {
  return scheme.format != WeightFormat::none && row.place.layer && row.place.param == "weight" &&
         row.shape.rank() == 2;
}

std::string quantization_config(const WeightScheme& scheme) {
  if (scheme.format == WeightFormat::none) return {};
  if (scheme.format == WeightFormat::fp8_block)
    return R"({"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",)"
           R"("weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})";
  if (scheme.modelopt) {
    const std::string numbers =
        scheme.format == WeightFormat::fp8
            ? R"({"dynamic":false,"num_bits":8,"type":"float"})"
            : R"({"dynamic":false,"num_bits":4,"type":"float","group_size":16})";
    return concat(R"({"config_groups":{"group_0":{"input_activations":)", numbers, R"(,"weights":)",
                  numbers, R"(,"targets":["Linear"]}},"ignore":["lm_head"],)", R"("quant_algo":")",
                  modelopt_algorithm(scheme.format), R"(","producer":)", kProducer,
                  R"(,"quant_method":"modelopt"})");
  }
  const Compressed by = compressed(scheme);
  return concat(R"({"quant_method":"compressed-tensors","format":")", by.format,
                R"(","quantization_status":"compressed","ignore":["lm_head"],)",
                R"("kv_cache_scheme":null,"config_groups":{"group_0":{"targets":["Linear"],)",
                R"("weights":)", by.weights, R"(,"input_activations":)", by.inputs,
                R"(,"output_activations":null}}})");
}

std::string modelopt_config(const WeightScheme& scheme) {
  return concat(R"({"producer":)", kProducer, R"(,"quantization":{"quant_algo":")",
                modelopt_algorithm(scheme.format), R"(","kv_cache_quant_algo":null,)",
                scheme.format == WeightFormat::nvfp4 ? R"("group_size":16,)" : "",
                R"("exclude_modules":["lm_head"]}})");
}

std::vector<SafetensorsWriter::Entry> quantized_entries(const WeightScheme& scheme,
                                                        const std::string& name, DType dtype,
                                                        const Shape& shape) {
  const std::int64_t out = shape[0], in = shape[1], group = group_of(scheme.format);
  if (group > 0 && in % group != 0)
    fail(Exit::bad_config, "--quantize ", name_of(scheme.format), ": ", name, " has ", in,
         " columns, which groups of ", group, " do not divide");
  const DType scales = scheme.modelopt ? DType::f32 : dtype_of_scales(dtype);
  const Shape one = scheme.modelopt ? Shape{} : Shape{1};
  const std::string module = name.substr(0, name.size() - std::string_view("weight").size());
  const auto with_inputs = [&](std::vector<SafetensorsWriter::Entry> entries,
                               const SafetensorsWriter::Entry& inputs) {
    if (scheme.static_inputs) entries.push_back(inputs);
    return entries;
  };
  switch (scheme.format) {
    case WeightFormat::fp8:
      return with_inputs({{name, DType::f8, shape},
                          {name + "_scale", scales, scheme.static_inputs ? one : Shape{out, 1}}},
                         {module + "input_scale", scales, one});
    case WeightFormat::int8_sq:
      return {{name, DType::i8, shape}, {name + "_scale", scales, {out, 1}}};
    case WeightFormat::int4_awq:
    case WeightFormat::w4a8_awq:
      return {{name + "_packed", DType::i32, {out, in / 8}},
              {name + "_scale", scales, {out, in / group}},
              {name + "_shape", DType::i64, {2}}};
    case WeightFormat::nvfp4:
      return with_inputs(
          {{scheme.modelopt ? name : name + "_packed", DType::u8, {out, in / 2}},
           {name + "_scale", DType::f8, {out, in / group}},
           {name + (scheme.modelopt ? "_scale_2" : "_global_scale"), DType::f32, one}},
          {module + (scheme.modelopt ? "input_scale" : "input_global_scale"), DType::f32, one});
    case WeightFormat::mxfp4:
      return {{name + "_packed", DType::u8, {out, in / 2}},
              {name + "_scale", DType::u8, {out, in / group}}};
    default:
      return {{name, DType::f8, shape},
              {name + "_scale_inv", DType::f32, {blocks_of(out, kBlock), blocks_of(in, kBlock)}}};
  }
}

}  // namespace mt
