#include "text/hf/hf_patterns.h"

#include <algorithm>
#include <string>

#include "text/bpe/deepseek_split.h"
#include "text/bpe/gpt2_split.h"

namespace mt {
namespace {

struct Pattern {
  std::string_view expression;
  Splitter splitter;
};

constexpr Pattern kPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", gpt2_split},
    // Llama 3 splits so.
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     llama3_split},
    // Qwen 2 and 3 split so.
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     qwen2_split},
    // OpenAI's o200k_base, of GPT-4o and gpt-oss, splits so.
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     o200k_split},
    // Mistral's models split so since NeMo.
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     megatron_v2_split},
};

constexpr std::string_view kDeepSeek[kKnownSequence] = {
    R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// Line ends and quotes, which some files escape, as themselves.
std::string unescaped(std::string_view expression) {
  std::string out;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    out += expression[at];
    if (expression[at] != '\\' || ++at == expression.size()) continue;
    switch (const char escaped = expression[at]) {
      case 'r':
        out.back() = '\r';
        break;
      case 'n':
        out.back() = '\n';
        break;
      case '"':
        out.back() = '"';
        break;
      default:
        out += escaped;
    }
  }
  return out;
}

}  // namespace

Splitter known_splitter(std::string_view expression) {
  for (const Pattern& pattern : kPatterns)
    if (unescaped(pattern.expression) == unescaped(expression)) return pattern.splitter;
  return nullptr;
}

Splitter known_splitter(std::span<const std::string> expressions) {
  if (expressions.size() < kKnownSequence) return nullptr;
  const auto last = expressions.last(kKnownSequence);
  const bool equal = std::ranges::equal(last, kDeepSeek, {}, unescaped, unescaped);
  return equal ? deepseek_split : nullptr;
}

}  // namespace mt
