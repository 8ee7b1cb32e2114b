// infill: the prompt of a text that stands between two others, for models that were trained to fill
// in the middle.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

struct Infill {
  std::vector<std::int32_t> ids;         // which the model continues with the middle
  std::optional<std::int32_t> end = {};  // a token of this form that ends the middle
};

// What the tokenizer puts in front of texts, the token of what stands before, `before`, that of
// what stands behind, `behind`, and that of the middle, which the model continues.  Those tokens
// are known by their names: Qwen's and CodeGemma's <|fim_prefix|>, StarCoder's and Granite's
// <fim_prefix>, SantaCoder's <fim-prefix>, DeepSeek's <｜fim▁begin｜>, CodeLlama's ▁<PRE>, each
// with its two others, and CodeLlama's ▁<EOT>, which ends a middle.  Mistral's models have behind
// [SUFFIX] first, then before behind [PREFIX], which they continue.  What stands behind begins, for
// CodeLlama and Mistral, without the space that their tokenizers put in front of a text.  Nothing
// where the tokenizer has none of these.
std::optional<Infill> infill(const Tokenizer& tokenizer, std::string_view before,
                             std::string_view behind);

}  // namespace mt
