#include "text/hf/hf_json_parts.h"

#include "base/error.h"
#include "base/json_object.h"
#include "text/hf/hf_adapt.h"

namespace mt {

static const char* written(bool value) { return value ? "true" : "false"; }

std::string hf_byte_level(bool prefix_space, bool use_regex) {
  return concat(R"({"type":"ByteLevel","add_prefix_space":)", written(prefix_space),
                R"(,"trim_offsets":true,"use_regex":)", written(use_regex), "}");
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

std::string hf_ends_processor(const HfConfig& config,
                              const std::function<std::int32_t(std::string_view)>& id_of) {
  const auto pair_of = [&](std::string_view role) {
    const std::string token = hf_role(config, role);
    return concat("[", json_quoted(token), ",", id_of(token), "]");
  };
  const std::string_view name = config.tokenizer_class->name;
  if (name == "RobertaTokenizer" || name == "BartTokenizer" || name == "LongformerTokenizer")
    return concat(R"({"type":"RobertaProcessing","sep":)", pair_of("sep_token"), R"(,"cls":)",
                  pair_of("cls_token"), R"(,"trim_offsets":true,"add_prefix_space":false})");
  if (name != "GPT2Tokenizer" || !config.add_bos.or_else(false)) return {};
  const std::string bos = json_quoted(hf_role(config, "bos_token"));
  return concat(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":)", bos,
                R"(,"type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{)", bos,
                R"(:{"id":)", bos, R"(,"ids":[)", id_of(hf_role(config, "bos_token")), "]}}}");
}

}  // namespace mt
