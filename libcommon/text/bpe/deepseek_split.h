// DeepSeek's pre-tokenisation, since V2: three expressions one after another, each of which cuts
// what those before it have left between their matches.
//   \p{N}{1,3}
//   [\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+
//   [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+
//   |\s+(?!\S)|\s+
// Characters that none of them takes are a piece, as many as there are side by side.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mt {

// Called as gpt2_split() is.
std::size_t deepseek_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

}  // namespace mt
