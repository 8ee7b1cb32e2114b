// Scales of a cache of keys and values that a folder of Hugging Face's has for each layer whose
// attention lies below NAME, as ModelOpt, llm-compressor and vLLM name them, one number each, that
// multiplies codes:
//   NAME.k_proj.k_scale, NAME.v_proj.v_scale;  NAME.k_scale, NAME.v_scale;
//   NAME.attn.k_scale, NAME.attn.v_scale
// NAME is what formats/names/hugging_face.h says of the model: ...layers.N.self_attn, or .mixer,
// where several layers of a hybrid may be one of the folder's.
#pragma once

#include <string>
#include <vector>

#include "kernels/cached_codes.h"

namespace mt {

struct ModelConfig;

// Reads the scales of the layers that a cache has of the model (model/layers.h), from 0 on, up to
// the last that has one; 1 where there is none; empty for what is no such folder.  Exit::bad_data
// for one that is not positive and finite, or no single number.
std::vector<CacheScales> cache_scales_in(const std::string& folder, const ModelConfig& config);

}  // namespace mt
