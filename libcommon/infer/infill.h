// infill: the prompt of a text that stands between two others, for models that were trained to fill
// in the middle.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

// What the tokenizer puts in front of texts, the token of what stands before, `before`, that of
// what stands behind, `behind`, and that of the middle, which the model continues.  Those tokens
// are known by their names: Qwen's and CodeGemma's <|fim_prefix|>, StarCoder's and Granite's
// <fim_prefix>, SantaCoder's <fim-prefix>, DeepSeek's <｜fim▁begin｜>, each with its two others.
// Nothing where the tokenizer has none of these.
std::optional<std::vector<std::int32_t>> infill(const Tokenizer& tokenizer, std::string_view before,
                                                std::string_view behind);

}  // namespace mt
