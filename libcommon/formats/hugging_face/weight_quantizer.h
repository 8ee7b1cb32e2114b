// Linear layers' matrices in eight bits or four, as folders of Hugging Face's have them:
//   fp8        FP8_DYNAMIC of compressed-tensors: X.weight E4M3 [out, in], and X.weight_scale
//              [out, 1], bf16 or f32: max |x| of a row / 448
//   fp8_block  DeepSeek's: X.weight E4M3 [out, in], and X.weight_scale_inv f32 [out / 128,
//              in / 128], rounded up: max |x| of a block / 448
//   int4_awq   W4A16 of compressed-tensors: X.weight_packed i32 [out, in / 8], the first of eight
//              elements in the lowest bits, each 8 more than it is; X.weight_scale [out, in / 128],
//              bf16 or f32: max |x| of 128 elements of a row / 7.5; and X.weight_shape i64 [2]
// Scales of bf16 are those of weights that are bf16; they are rounded before anything is divided.
// An element is x / scale, in float32, rounded to E4M3, or to -8 ... 7, ties to even.  The
// scale of zeros is 1; no scale is below 2^-126.  Who computes with eight bits rounds inputs
// likewise, by scales that it finds as it goes: of each token's, of each 128 numbers of a token.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/safetensors.h"
#include "tensor/buffer.h"
#include "tensor/param.h"

namespace mt {

struct ModelConfig;

enum class WeightFormat : std::uint8_t { none, fp8, fp8_block, int4_awq };

inline constexpr std::size_t kGroupOfFourBits = 128;

// Their names, but that of none.  Exit::internal for a name that is none of these.
std::vector<std::string> weight_formats();
WeightFormat weight_format(std::string_view name);

// Exit::bad_config for a model whose layers no reader of such a folder takes so, which is named.
void check_quantizable(WeightFormat format, const ModelConfig& config);

// Whether the tensors that a row becomes are in the format.
bool is_quantized(WeightFormat format, const Param& row);

// Whether a matrix's last blocks are smaller than the others, which vLLM does not read.
bool has_cut_blocks(WeightFormat format, const Shape& shape);

// quantization_config of config.json; empty for none.
std::string quantization_config(WeightFormat format);

// What stands for a matrix of `dtype` and `shape` that is called `name`.  Exit::bad_config for one
// that groups do not divide.
std::vector<SafetensorsWriter::Entry> quantized_entries(WeightFormat format,
                                                        const std::string& name, DType dtype,
                                                        const Shape& shape);

// QuantizedMatrix: those tensors, made of the matrix.
class QuantizedMatrix : public TensorSource {
 public:
  // The matrix holds finite numbers alone, which the caller has seen to.
  QuantizedMatrix(WeightFormat format, const std::string& name, ConstTensor matrix);

  const std::string& path() const override { return name_; }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  ConstTensor value(const std::string& key) const;

 private:
  std::string name_;
  std::map<std::string, DistTensor> tensors_;
  std::map<std::string, Buffer> values_;
};

// The scale of numbers that have one together, and which of -8 ... 7 one of them is.
float scale_of_four_bits(std::span<const float> numbers, DType dtype = DType::f32);
int four_bits_of(float number, float scale);

// Fills `out`, which may be the matrix itself, with what is read of a QuantizedMatrix of it.
void round_to_format(WeightFormat format, const std::string& name, Tensor out, ConstTensor matrix);

}  // namespace mt
