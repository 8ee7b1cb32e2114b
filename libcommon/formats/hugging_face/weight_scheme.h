// Linear layers' matrices in eight bits or four, as folders of Hugging Face's have them:
//   fp8        FP8_DYNAMIC of compressed-tensors: X.weight E4M3 [out, in], and X.weight_scale
//              [out, 1]: max |x| of a row / 448
//              with static inputs, FP8: X.weight_scale [1], of all rows, and X.input_scale [1]:
//              max |x| of inputs / 448; the same, both f32 and of shape [], as ModelOpt's FP8
//   fp8_block  DeepSeek's: X.weight E4M3 [out, in], and X.weight_scale_inv f32 [out / 128,
//              in / 128], rounded up: max |x| of a block / 448
//   int8_sq    W8A8 of compressed-tensors: X.weight i8 [out, in], and X.weight_scale [out, 1]:
//              max |x| of a row / 127.5
//   int4_awq   W4A16 of compressed-tensors: X.weight_packed i32 [out, in / 8], the first of eight
//              elements in the lowest bits, each 8 more than it is; X.weight_scale [out, in / 128]:
//              max |x| of 128 elements of a row / 7.5; and X.weight_shape i64 [2]
//   w4a8_awq   W4AFP8 of compressed-tensors: the same tensors.
//   nvfp4      NVFP4A16 of compressed-tensors: X.weight_packed u8 [out, in / 2], the low four bits
//              the first element's, each E2M1; X.weight_global_scale f32 [1], which divides:
//              448 6 / max |x|; X.weight_scale E4M3 [out, in / 16]: that times max |x| of 16
//              elements of a row / 6, and of zero 1/8 with static inputs, NVFP4:
//              X.input_global_scale f32 [1], too: 448 6 / max |x| of inputs; as ModelOpt's NVFP4
//              X.weight for X.weight_packed, X.weight_scale_2 f32 [], which multiplies: max |x| /
//              (448 6), X.weight_scale: max |x| of 16 elements / (6 X.weight_scale_2), within
//              [2^-9, 448], of zeros 1, and X.input_scale f32 []: max |x| of inputs / (448 6)
//   mxfp4      MXFP4A16 of compressed-tensors: X.weight_packed as of nvfp4, and X.weight_scale u8
//              [out, in / 32], E8M0: of 32 elements of a row, 2^(b - 129) of the b at which max
//              |x|, rounded to one bit behind its first where that makes it a power of two, begins
// Scales that are said to be of no type are bf16 where weights are, which is before anything is
// divided by them, and else f32.  Those of which queries, keys and values, or the parts of an MLP's
// first layer, have one each are the same of all, as who computes with them together needs it.  An
// element is x / scale, in float32, rounded to E4M3, -128 ... 127, -8 ... 7, or E2M1, ties to even.
// The scale of zeros is 1, where nothing else is said, and of mxfp4's 2^-127; no other is below
// 2^-126, but those in E4M3.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ckpt/safetensors.h"
#include "tensor/param.h"

namespace mt {

struct ModelConfig;

enum class WeightFormat : std::uint8_t {
  none,
  fp8,
  fp8_block,
  int8_sq,
  int4_awq,
  w4a8_awq,
  nvfp4,
  mxfp4
};

struct WeightScheme {
  WeightFormat format = WeightFormat::none;
  bool static_inputs = false;  // their scales stand in the folder
  bool modelopt = false;       // the folder is one of ModelOpt's
};

// What a text says of a model before it is quantized.
enum class CalibrationUse : std::uint8_t { none, may, must };

inline constexpr std::size_t kGroupOfFourBits = 128;

// The formats' names, but that of none.  Exit::internal for a name that is none of these.
std::vector<std::string> weight_formats();
WeightFormat weight_format(std::string_view name);
std::string_view name_of(WeightFormat format);

// Whether a text is of use, and whether a folder of ModelOpt's has the format.
CalibrationUse calibration_use(WeightFormat format);
bool has_modelopt_folder(WeightFormat format);

// Exit::bad_config for a model whose layers no reader of such a folder takes so, which is named.
void check_quantizable(WeightFormat format, const ModelConfig& config);

// Whether the tensors that a row becomes are in the format.
bool is_quantized(const WeightScheme& scheme, const Param& row);

// Whether a matrix's last blocks are smaller than the others, which vLLM does not read.
bool has_cut_blocks(WeightFormat format, const Shape& shape);

// quantization_config of config.json; empty for none.  And hf_quant_config.json, of ModelOpt's
// folders.
std::string quantization_config(const WeightScheme& scheme);
std::string modelopt_config(const WeightScheme& scheme);

// What stands for a matrix of `dtype` and `shape` that is called `name` (X.weight).
// Exit::bad_config for one that groups do not divide.
std::vector<SafetensorsWriter::Entry> quantized_entries(const WeightScheme& scheme,
                                                        const std::string& name, DType dtype,
                                                        const Shape& shape);

}  // namespace mt
