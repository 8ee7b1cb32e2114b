// Parts of a tokenizer.json as transformers' classes make them.
#pragma once

#include <string>
#include <string_view>

#include "text/hf/hf_config.h"

namespace mt {

inline constexpr std::string_view kHfLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kHfQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kHfQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kHfWordPieceDecoder =
    R"({"type":"WordPiece","prefix":"##","cleanup":true})";

std::string hf_byte_level(bool prefix_space, bool use_regex);
// The expression by which a Qwen's class cuts; empty: it is of another model.
std::string_view hf_qwen_pattern(std::string_view tokenizer_class);
// Cut by a regular expression, then ByteLevel.
std::string hf_split_bytes(std::string_view pattern, bool prefix_space);
std::string hf_metaspace(std::string_view prepend_scheme, bool split);
std::string hf_llama_normalizer(bool prefix);
std::string hf_llama_decoder(bool prefix);
std::string hf_bert_normalizer(const HfConfig& config, bool clean_text);
inline constexpr std::string_view kHfGemmaNormalizer =
    R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
inline constexpr std::string_view kHfGemmaPreTokenizer =
    R"({"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false})";

inline constexpr std::string_view kHfT5PreTokenizer =
    R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace",)"
    R"("replacement":"▁","prepend_scheme":"always","split":true}]})";

}  // namespace mt
