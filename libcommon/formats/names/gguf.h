// What llama.cpp calls the tensors of a model in a GGUF file (ckpt/gguf.h).  Values are
// those of Hugging Face's, but that matrices of GPT-2 are [out, in], that in Llama's queries
// and keys channel i of a head, which is rotated with channel i + d / 2, stands beside it, and that
// norms whose scale is 1 + weight have that scale; and what formats/gguf/gguf_latent.h says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

struct ModelConfig;

inline constexpr const char* kGgufFormat = "gguf";
inline constexpr const char* kGgufWords = "token_embd.weight";
inline constexpr const char* kGgufOutput = "output.weight";
inline constexpr const char* kGgufFrequencies = "rope_freqs.weight";
// A Phi-3 has two such tensors, for texts of few tokens and of many.
inline constexpr const char* kGgufFactors[] = {"rope_factors_short.weight",
                                               "rope_factors_long.weight"};

// How a router weighs experts: there are none, a softmax takes the logits of those that are chosen,
// or of all, sigmoids with biases choose, or each file says which.
enum class GgufExperts { none, chosen, all, sigmoid, told };

// GgufArchitecture: what llama.cpp computes for a model_type of transformers.
struct GgufArchitecture {
  std::string_view name, model_type;
  bool turned = false;        // queries and keys are in Meta's order
  bool layer_norm = false;    // its epsilon is called so
  bool has_output = true;     // of its own, if the model has
  bool wants_output = false;  // also of a model whose output layer is the words: these again
  GgufExperts experts = GgufExperts::none;
  bool mamba = false;  // some layers are mixers
  bool bert = false;
};
// Null: there is none.
const GgufArchitecture* find_gguf_architecture(std::string_view name, bool experts);
const GgufArchitecture* gguf_architecture_of(std::string_view model_type, bool experts);
// All their names, with commas between them.
std::string gguf_architectures();

// The tensors of a row in a file of this architecture, "llama" say; none of a BERT's pooler.
// Exit::bad_config for another row that has no place there.
std::vector<ForeignName> gguf_tensors(const std::string& architecture, const ModelConfig& config,
                                      const Param& row);
// The tensor that other writers may have of queries, keys and values together, as a GPT-2 has it;
// none where their channels are in another order.
std::optional<ForeignName> joined_gguf_qkv(const std::string& architecture,
                                           const ModelConfig& config, const Param& row);
// These, and what a file has of the row again.
std::vector<ForeignName> written_gguf_tensors(const std::string& architecture,
                                              const ModelConfig& config, const Param& row);
// Whether a file has an output layer: of its own, or the words again.
bool has_gguf_output(std::string_view architecture, const ModelConfig& config);

// By how much each pair of channels turns slower than by --rotary-base: kGgufFrequencies.  A file
// has them where they are not all one.
bool has_frequency_factors(const ModelConfig& config);
std::vector<float> frequency_factors(const ModelConfig& config);

}  // namespace mt
