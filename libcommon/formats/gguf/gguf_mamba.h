// What llama.cpp knows of Mamba-2 and its hybrids: mamba2, nemotron_h and, of experts,
// nemotron_h_moe, and granitehybrid, each of whose layers is two of ours.  Which layers are
// recurrent, attention or MLPs a file says by how many heads of keys and how wide an MLP each has.
// A layer's A is -exp(A_log), in float32: of other than 16 bits not all come back.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "formats/gguf/gguf_settings.h"
#include "formats/names/gguf.h"

namespace mt {

struct ModelConfig;

// Exit::bad_config names what llama.cpp computes otherwise.
void check_gguf_mamba(const ModelConfig& config, const GgufArchitecture& architecture);
void add_gguf_mamba(GgufKeyValues& values, const ModelConfig& config,
                    const GgufArchitecture& architecture);

// The reverse: members of a config.json.
void read_gguf_mamba(JsonWriter& json, const GgufSettings& file,
                     const GgufArchitecture& architecture);

// What names of a layer's tensors begin with.
std::string gguf_mamba_layer(const ModelConfig& config, const Param& row);
// The tensors of a row of a mixer, behind that; none: it is not one.
std::vector<ForeignName> gguf_mamba_tensors(const ModelConfig& config, const Param& row,
                                            const std::string& layer);
// Whether a row is A_log, or a tensor A.
bool is_decay(const Param& row);
bool is_decay(std::string_view tensor);
// -exp(x) and back, in double.
float decay_of(float log);
float log_of_decay(float decay);

}  // namespace mt
