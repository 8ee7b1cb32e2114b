// Scales of a cache of keys and values that a folder of Hugging Face's has for each layer N, as
// ModelOpt, llm-compressor and vLLM name them:
//   ...layers.N.self_attn.k_proj.k_scale, ...v_proj.v_scale;  ...self_attn.k_scale, .v_scale;
//   ...self_attn.attn.k_scale, .v_scale           one number each, that multiplies codes
#pragma once

#include <string>
#include <vector>

#include "kernels/cached_codes.h"

namespace mt {

// Those of layers from 0 on, up to the last that has one; 1 where there is none; empty for what is
// no such folder.  Exit::bad_data for one that is not positive and finite, or no single number.
std::vector<CacheScales> cache_scales_in(const std::string& folder);

}  // namespace mt
