// Pre-tokenisation by the patterns that came after GPT-2's: a word may begin with one sign or
// blank, digits are taken in small groups, and line ends stay with what they follow.  Each function
// is called as gpt2_split() is, finds the leftmost matches of its pattern, and its pieces put
// together are the text.  `\s`, `\p{L}` and so on are those of text/unicode/unicode.h; (?i:...)
// takes also U+017F for an s.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mt {

using Splitter = std::size_t (*)(std::string_view text, std::size_t at,
                                 std::span<std::size_t> ends);

// Megatron's v1:
//   [^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+
std::size_t megatron_v1_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

// Megatron's v2, with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and W = [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
//   [^\r\n\p{L}\p{N}]?U*W+|[^\r\n\p{L}\p{N}]?U+W*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+
//   |\s+(?!\S)|\s+
std::size_t megatron_v2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

// OpenAI's o200k_base: as v2, but \p{N}{1,3}, and a word takes (?i:'s|'t|'re|'ve|'m|'ll|'d)? along.
std::size_t o200k_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

// Llama 3's, which is also OpenAI's cl100k_base as first published:
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//   |\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t llama3_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

// Qwen 2's: as Llama 3's, but digits one by one (\p{N}).
std::size_t qwen2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

// OpenAI's cl100k_base as of tiktoken 0.14: as Llama 3's, but blanks that end the text are one
// piece
// (\s++$ before \s*[\r\n]).
std::size_t cl100k_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

}  // namespace mt
