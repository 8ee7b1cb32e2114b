// How a folder of Hugging Face's stores weights in eight bits or fewer, as quantization_config of
// its config.json says, or hf_quant_config.json beside it: quant_method mxfp4, fp8,
// compressed-tensors, awq, gptq, modelopt or bitsandbytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"

namespace mt {

struct Quantization {
  std::string method;                              // as quant_method says
  std::vector<int> bits = {};                      // of integers in words
  std::array<std::int64_t, 2> block = {128, 128};  // of scales, outputs and inputs
  bool zeros_less_one = true;                      // of gptq, not of gptq_v2
  // Inputs that share a scale, of integers in words: one of these; 0: all; none: any number.
  std::vector<std::int64_t> groups = {};
  bool zeros = false;    // of compressed-tensors: every matrix has zero points
  bool ordered = false;  // every matrix has a tensor that says which group a column is of
};

// `json` is config.json's quantization_config, or all of hf_quant_config.json; `path` stands in
// errors. Exit::bad_data for a method, or a format of one, that is not read.
Quantization read_quantization(const std::string& json, const std::string& path);

// The tensors with the weights that they stand for, of `dtype`; scales of activations and of caches
// of keys and values, which no weight needs, are not among them.
std::unique_ptr<TensorSource> unpacked(std::unique_ptr<TensorSource> stored,
                                       const Quantization& quantization, DType dtype);

}  // namespace mt
