#include "formats/gguf/gguf_patterns.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/json_object.h"

namespace mt {
namespace {

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L)"
    R"(}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\)"
    R"(s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\)"
    R"(p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{)"
    R"(Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kIdeographs = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";

constexpr GgufPattern kPatterns[] = {
    {.name = "gpt-2", .steps = {"bytes"}},
    {.name = "smollm", .steps = {"digits", "bytes"}},
    {.name = "llama-bpe", .steps = {kLlama3}, .ignore_merges = true, .adds_bos = true},
    {.name = "dbrx", .steps = {kLlama3}},
    {.name = "qwen2", .steps = {kQwen2}, .nfc = true},
    {.name = "qwen35",
     .steps = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[)"
               R"(^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     .nfc = true},
    {.name = "tekken",
     .steps = {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\)"
               R"(p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm})"
               R"(\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s)"
               R"(+)"},
     .ignore_merges = true,
     .adds_bos = true},
    {.name = "gpt-4o", .steps = {kO200k}},
    {.name = "granite-embed-multi-97m", .steps = {kO200k}, .ignore_merges = true},
    {.name = "deepseek-v3",
     .steps = {R"(\p{N}{1,3})", kIdeographs,
               R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}])"
               R"(?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {.name = "spark2_5",
     .steps = {R"(\p{N}{1,3})", kIdeographs,
               R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}])"
               R"(?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
               R"(\p{N})"}},
    {.name = "deepseek-coder",
     .steps = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)",
               "digits"}},
    {.name = "falcon", .steps = {"punctuation", "bytes", "numbers", R"([0-9][0-9][0-9])"}},
    {.name = "default",
     .steps = {R"([\p{P}\$\+<=>\^~\|]+)",
               R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
               R"(|\s+)",
               R"(\p{N}+)", R"([0-9][0-9][0-9])"}},
    {.name = "bloom", .steps = {kBloom}},
    {.name = "viking", .steps = {kBloom, "digits"}},
    {.name = "superbpe", .steps = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
    {.name = "bailingmoe",
     .steps = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N})"
               R"(]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}},
    {.name = "seed-coder",
     .steps = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\)"
               R"(p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {.name = "tiny_aya", .steps = {R"(\d{1,3}(?=(?:\d{3})*\b))", kO200k}},
    {.name = "youtu",
     .steps =
         {R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)",
          R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\)"
          R"(p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{)"
          R"(Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d))"
          R"(?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     .ignore_merges = true},
    {.name = "kimi-k2",
     .steps = {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han})"
               R"(]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
               R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll})"
               R"(\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3)"
               R"(}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {.name = "jais-2",
     .steps = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\)"
               R"(s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!)"
               R"(\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{)"
               R"(1,2}(?!\S)|\s{1})"}},
    {.name = "exaone-moe",
     .steps = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L})"
               R"(\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}},
    {.name = "minicpm5",
     .steps = {R"(\p{N}{1,3})",
               R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{)"
               R"(L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     .ignore_merges = true},
    {.name = "ufakzeka",
     .steps = {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s)"
               R"(+(?!\S)|\s+)"}},
    {.name = "laguna", .steps = {R"([^\n]+|[\n]+)", kQwen2}},
    {.name = "chameleon",
     .steps = {R"(<sentinel:[0-9]+>)", R"((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)",
               R"(([\t\n]|    |  ))", "digits", "signs", "bytes"},
     .adds_bos = true},
};

// Names of models that cut text as another does.
constexpr std::pair<std::string_view, std::string_view> kAlike[] = {
    {"mpt", "gpt-2"},
    {"olmo", "gpt-2"},
    {"jais", "gpt-2"},
    {"phi-2", "gpt-2"},
    {"jina-es", "gpt-2"},
    {"jina-de", "gpt-2"},
    {"jina-v2-es", "gpt-2"},
    {"jina-v2-de", "gpt-2"},
    {"jina-v1-en", "gpt-2"},
    {"jina-v2-code", "gpt-2"},
    {"roberta-bpe", "gpt-2"},
    {"gigachat", "gpt-2"},
    {"a.x-4.0", "gpt-2"},
    {"mellum", "gpt-2"},
    {"modern-bert", "gpt-2"},
    {"exaone4", "gpt-2"},
    {"trillion", "gpt-2"},
    {"granite-docling", "gpt-2"},
    {"starcoder", "smollm"},
    {"refact", "smollm"},
    {"command-r", "smollm"},
    {"codeshell", "smollm"},
    {"exaone", "smollm"},
    {"minerva-7b", "smollm"},
    {"mellum2", "smollm"},
    {"llama3", "llama-bpe"},
    {"llama-v3", "llama-bpe"},
    {"falcon3", "llama-bpe"},
    {"falcon-h1", "llama-bpe"},
    {"pixtral", "llama-bpe"},
    {"midm-2.0", "llama-bpe"},
    {"lfm2", "llama-bpe"},
    {"jina-v5-nano", "llama-bpe"},
    {"smaug-bpe", "dbrx"},
    {"glm4", "dbrx"},
    {"chatglm-bpe", "dbrx"},
    {"stablelm2", "qwen2"},
    {"deepseek-r1-qwen", "qwen2"},
    {"kormo", "qwen2"},
    {"f2llmv2", "qwen2"},
    {"megrez", "qwen2"},
    {"hunyuan", "qwen2"},
    {"solar-open", "qwen2"},
    {"grok-2", "qwen2"},
    {"llama4", "gpt-4o"},
    {"kanana2", "gpt-4o"},
    {"talkie", "gpt-4o"},
    {"minimax-m2", "gpt-4o"},
    {"hunyuan-dense", "deepseek-v3"},
    {"joyai-llm", "deepseek-v3"},
    {"hy_v4", "deepseek-v3"},
    {"poro-chat", "bloom"},
    {"gpt3-finnish", "bloom"},
    {"bailingmoe2", "bailingmoe"},
    {"llada-moe", "bailingmoe"},
    {"cohere2moe", "tiny_aya"},
};

// What a pre_tokenizer does in a word, or its regular expression; empty: it is none of these.
std::string step_of(const JsonObject& object) {
  const std::string_view type = object.type();
  if (type == "ByteLevel")
    return object.flag_or("add_prefix_space", true) ? ""
           : object.flag_or("use_regex", true)      ? "bytes"
                                                    : "uncut";
  if (type == "Digits") return object.flag_or("individual_digits", false) ? "digits" : "numbers";
  if (type == "Punctuation") {
    const std::string_view behavior = object.text_or("behavior", "Isolated");
    return behavior == "Contiguous" ? "punctuation" : behavior == "Isolated" ? "signs" : "";
  }
  if (type != "Split" || object.text("behavior") != "Isolated" || object.flag_or("invert", false) ||
      !object.object("pattern").has("Regex"))
    return "";
  return std::string(object.object("pattern").text("Regex"));
}

// A line end in a regular expression may be written as itself.
std::string without_line_ends(std::string_view regex) {
  std::string text;
  for (const char c : regex)
    if (c == '\r')
      text += "\\r";
    else if (c == '\n')
      text += "\\n";
    else
      text += c;
  return text;
}

void add_byte_level(JsonWriter& json, bool use_regex) {
  json.begin_object().member("type", "ByteLevel").member("add_prefix_space", false);
  json.member("trim_offsets", true).member("use_regex", use_regex).end_object();
}

void add_step(JsonWriter& json, std::string_view step) {
  if (step == "bytes") return add_byte_level(json, true);
  json.begin_object();
  if (step == "digits" || step == "numbers") {
    json.member("type", "Digits").member("individual_digits", step == "digits");
  } else if (step == "punctuation" || step == "signs") {
    json.member("type", "Punctuation");
    json.member("behavior", step == "signs" ? "Isolated" : "Contiguous");
  } else {
    json.member("type", "Split").key("pattern").begin_object().member("Regex", step).end_object();
    json.member("behavior", "Isolated").member("invert", false);
  }
  json.end_object();
}

// The steps that there are.
std::vector<std::string_view> steps_of(const GgufPattern& pattern) {
  std::vector<std::string_view> steps(pattern.steps.begin(), pattern.steps.end());
  std::erase(steps, std::string_view());
  return steps;
}

}  // namespace

const GgufPattern* find_gguf_pattern(std::string_view name) {
  for (const auto& [other, same] : kAlike)
    if (name == other) name = same;
  const auto* const found = std::ranges::find(kPatterns, name, &GgufPattern::name);
  return found == std::end(kPatterns) ? nullptr : found;
}

std::string_view gguf_pattern_of(const JsonObject& pre_tokenizer, bool ignore_merges) {
  std::vector<std::string> steps;
  if (pre_tokenizer.type() == "Sequence")
    for (const JsonObject& part : pre_tokenizer.objects("pretokenizers"))
      steps.push_back(without_line_ends(step_of(part)));
  else
    steps.push_back(step_of(pre_tokenizer));
  const bool cut = std::ranges::find(steps, "bytes") != steps.end();
  if (!cut && (steps.empty() || steps.back() != "uncut")) return {};  // not of bytes
  if (!cut) steps.pop_back();
  std::string_view found;
  for (const GgufPattern& known : kPatterns) {
    if (!std::ranges::equal(steps, steps_of(known))) continue;
    if (!known.ignore_merges || ignore_merges) return known.name;
    found = known.name;
  }
  return found;
}

std::string pre_tokenizer_of(const GgufPattern& pattern) {
  const std::vector<std::string_view> steps = steps_of(pattern);
  JsonWriter json;
  if (steps.size() == 1 && steps[0] == "bytes") {
    add_byte_level(json, true);
    return json.text();
  }
  json.begin_object().member("type", "Sequence").key("pretokenizers").begin_array();
  for (const std::string_view step : steps) add_step(json, step);
  if (std::ranges::find(steps, "bytes") == steps.end()) add_byte_level(json, false);
  return json.end_array().end_object().text();
}

}  // namespace mt
