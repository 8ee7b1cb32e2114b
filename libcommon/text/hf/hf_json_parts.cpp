#include "text/hf/hf_json_parts.h"

#include "base/error.h"
#include "base/json_object.h"

namespace mt {

static const char* written(bool value) { return value ? "true" : "false"; }

std::string hf_byte_level(bool prefix_space, bool use_regex) {
  return concat(R"({"type":"ByteLevel","add_prefix_space":)", written(prefix_space),
                R"(,"trim_offsets":true,"use_regex":)", written(use_regex), "}");
}

std::string_view hf_qwen_pattern(std::string_view tokenizer_class) {
  if (tokenizer_class == "Qwen2Tokenizer") return kHfQwen2Pattern;
  if (tokenizer_class == "Qwen3_5Tokenizer") return kHfQwen35Pattern;
  return {};
}

std::string hf_split_bytes(std::string_view pattern, bool prefix_space) {
  return concat(R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)",
                json_quoted(pattern), R"(},"behavior":"Isolated","invert":false},)",
                hf_byte_level(prefix_space, false), "]}");
}

std::string hf_metaspace(std::string_view prepend_scheme, bool split) {
  return concat(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":)",
                json_quoted(prepend_scheme), R"(,"split":)", written(split), "}");
}

std::string hf_llama_normalizer(bool prefix) {
  return concat(R"({"type":"Sequence","normalizers":[)",
                prefix ? R"({"type":"Prepend","prepend":"▁"},)" : "", kHfGemmaNormalizer, "]}");
}

std::string hf_llama_decoder(bool prefix) {
  return concat(R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},)",
                R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"})",
                prefix ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "", "]}");
}

std::string hf_bert_normalizer(const HfConfig& config, bool clean_text) {
  const HfFlag3& accents = config.strip_accents;
  return concat(R"({"type":"BertNormalizer","clean_text":)", written(clean_text),
                R"(,"handle_chinese_chars":)", written(config.chinese.or_else(true)),
                R"(,"strip_accents":)",
                accents.is_given() ? written(accents.or_else(false)) : "null", R"(,"lowercase":)",
                written(config.lower_case.or_else(true)), "}");
}

}  // namespace mt
