// Which type llama.cpp's quantizer gives to a tensor of a model's file, without an importance
// matrix (llama_tensor_get_type of llama.cpp 007dbbf3): most have the type that the file is named
// by, those of which a model depends most, more bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/gguf_blocks.h"

namespace mt {

struct ModelConfig;

struct GgufMixture {
  std::string_view name;    // llama-quantize's, in small letters: q4_k_m
  GgufType base;            // of most tensors
  std::uint32_t file_type;  // general.file_type
};

const GgufMixture* gguf_mixture(std::string_view name);  // null: there is none
std::vector<std::string> gguf_mixtures();                // their names

// Gives the type of a matrix, by its name in a file of the architecture, with so many columns, a
// multiple of 32. Blocks of 256 that do not divide them give way to blocks of 32.
GgufType gguf_type(const GgufMixture& mixture, const ModelConfig& config,
                   std::string_view architecture, std::string_view tensor, std::int64_t columns);

}  // namespace mt
