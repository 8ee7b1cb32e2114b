// What llama.cpp calls the tensors of a model in a GGUF file (ckpt/gguf.h).  Values are
// those of Hugging Face's, but that matrices of GPT-2 are [out, in], and that in Llama's queries
// and keys channel i of a head, which is rotated with channel i + d / 2, stands beside it.
#pragma once

#include <string>
#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

struct ModelConfig;

inline constexpr const char* kGgufFormat = "gguf";
inline constexpr const char* kGgufFrequencies = "rope_freqs.weight";

// The tensors of a row in a file of this architecture, "llama" say.  Exit::bad_config for a row
// that has no place there.
std::vector<ForeignName> gguf_tensors(const std::string& architecture, const ModelConfig& config,
                                      const Param& row);

// By how much each pair of channels turns slower than by --rotary-base: kGgufFrequencies.  A file
// has them where they are not all one.
bool has_frequency_factors(const ModelConfig& config);
std::vector<float> frequency_factors(const ModelConfig& config);

}  // namespace mt
