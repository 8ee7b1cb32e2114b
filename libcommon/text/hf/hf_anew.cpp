#include "text/hf/hf_anew.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "text/hf/hf_json_parts.h"
#include "text/hf/hf_model.h"

namespace mt {

bool is_hf_byte_level(const JsonObject& pre_tokenizer) {
  if (pre_tokenizer.type() == "Sequence")
    return std::ranges::any_of(pre_tokenizer.objects("pretokenizers"), is_hf_byte_level);
  return pre_tokenizer.type() == "ByteLevel";
}

namespace {

// The model by the class's rules: `rules` are its members beside vocabulary and merges.
void set_model(HfDocument& document, std::string_view rules) {
  const JsonObject model = document.object("model");
  std::string json = concat("{", rules, R"(,"vocab":)", simdjson::minify(model.member("vocab")));
  if (model.has("merges"))
    json += concat(R"(,"merges":)", simdjson::minify(model.member("merges")));
  document.set("model", json + "}");
}

void make_gpt2(HfDocument& document, bool prefix, bool nfc, bool digits) {
  document.set("normalizer", nfc ? R"({"type":"NFC"})" : "null");
  document.set("pre_tokenizer",
               digits ? concat(R"({"type":"Sequence","pretokenizers":[{"type":"Digits",)",
                               R"("individual_digits":true},)", hf_byte_level(prefix, true), "]}")
                      : hf_byte_level(prefix, true));
  document.set("decoder", hf_byte_level(prefix, true));
  set_model(document, R"("type":"BPE")");
}

void make_llama(HfDocument& document, const HfConfig& config) {
  const bool prefix = config.add_prefix_space.or_else(true);
  document.set("normalizer", "null");
  const std::string_view scheme = !prefix                        ? "never"
                                  : config.legacy.or_else(false) ? "always"
                                                                 : "first";
  document.set("pre_tokenizer", hf_metaspace(scheme, false));
  document.set("decoder", hf_llama_decoder(prefix));
  set_model(document, R"("type":"BPE","fuse_unk":true,"byte_fallback":true)");
}

void make_gemma(HfDocument& document, const HfConfig& config) {
  document.set("normalizer", std::string(kHfGemmaNormalizer));
  document.set("pre_tokenizer", std::string(kHfGemmaPreTokenizer));
  document.set("decoder", hf_llama_decoder(false));
  std::string unknown = hf_role(config, "unk_token");
  set_model(document, concat(R"("type":"BPE","fuse_unk":true,"byte_fallback":true,"unk_token":)",
                             json_quoted(unknown)));
}

void make_bert(HfDocument& document, const HfConfig& config) {
  document.set("normalizer", hf_bert_normalizer(config, true));
  document.set("pre_tokenizer", R"({"type":"BertPreTokenizer"})");
  document.set("decoder", std::string(kHfWordPieceDecoder));
  set_model(document, concat(R"("type":"WordPiece","continuing_subword_prefix":"##",)",
                             R"("max_input_chars_per_word":100,"unk_token":)",
                             json_quoted(hf_role(config, "unk_token"))));
}

// --- Models of SentencePiece. ---

// The map of characters, of all that the normalizer does.
std::string precompiled_of(const JsonObject& normalizer) {
  if (normalizer.type() == "Precompiled") return normalizer.json();
  if (normalizer.type() == "Sequence")
    for (const JsonObject& part : normalizer.objects("normalizers"))
      if (part.type() == "Precompiled") return part.json();
  return "null";
}

std::string precompiled_of(const HfDocument& document) {
  return document.has("normalizer") ? precompiled_of(document.object("normalizer")) : "null";
}

void make_t5(HfDocument& document, const HfConfig& config) {
  document.set("normalizer", precompiled_of(document));
  if (config.from_file && hf_model_type(document.object("model")) == "Unigram")
    set_model(document, R"("type":"Unigram","byte_fallback":false,"unk_id":2)");
  document.set("pre_tokenizer", std::string(kHfT5PreTokenizer));
  document.set("decoder", hf_metaspace("always", true));
}

// A Sequence of those that are not "null"; null: of none.
std::string normalizers_of(const std::vector<std::string>& steps) {
  std::string all;
  for (const std::string& step : steps)
    if (step != "null") all += concat(all.empty() ? "" : ",", step);
  if (all.empty()) return "null";
  return concat(R"({"type":"Sequence","normalizers":[)", all, "]}");
}

std::string replaced(std::string_view regex, std::string_view content) {
  return concat(R"({"type":"Replace","pattern":{"Regex":)", json_quoted(regex), R"(},"content":)",
                json_quoted(content), "}");
}

constexpr const char* kQuotes = R"({"type":"Replace","pattern":{"String":"``"},"content":"\""},)"
                                R"({"type":"Replace","pattern":{"String":"''"},"content":"\""})";
constexpr const char* kNoAccents = R"({"type":"NFKD"},{"type":"StripAccents"})";
constexpr const char* kLower = R"({"type":"Lowercase"})";
constexpr const char* kStripRight = R"({"type":"Strip","strip_left":false,"strip_right":true})";

std::string if_so(bool so, const char* step) { return so ? step : "null"; }

std::string normalizer_of(const HfDocument& document, const HfConfig& config) {
  const std::string_view name = config.tokenizer_class->name;
  const std::string map = precompiled_of(document), single = replaced(" {2,}", " ");
  const auto lower = [&](bool other) { return if_so(config.lower_case.true_or(other), kLower); };
  if (name == "AlbertTokenizer")
    return normalizers_of(
        {kQuotes, if_so(!config.keep_accents.or_else(false), kNoAccents), lower(true), map});
  if (name == "XLNetTokenizer") return normalizers_of({kQuotes, kNoAccents, lower(false), map});
  if (name == "RemBertTokenizer")
    return normalizers_of({kQuotes, single, if_so(!config.keep_accents.true_or(true), kNoAccents),
                           lower(false), map});
  if (name == "DebertaV2Tokenizer" || name == "BarthezTokenizer")
    return normalizers_of(
        {if_so(name == "DebertaV2Tokenizer" && config.lower_case.or_else(false), kLower),
         replaced("\\s{2,}|[\\n\\r\\t]", " "), R"({"type":"NFC"})", kStripRight});
  if (name == "BigBirdTokenizer") return replaced(" {2,}", "▁");
  if (name == "XGLMTokenizer" || name == "MBart50Tokenizer") return normalizers_of({map, single});
  if (name == "PegasusTokenizer")
    return normalizers_of({map == "null" ? replaced("\\n", " ") : map, single});
  if (name == "NllbTokenizer" || name == "ReformerTokenizer")
    return map == "null" ? map : normalizers_of({map, single});
  if (name == "XLMRobertaTokenizer" || name == "CamembertTokenizer") return map;
  return "null";  // MBART
}

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

void set_marks(HfDocument& document, const HfConfig& config) {
  const std::string_view name = config.tokenizer_class->name;
  const bool may_be_none = is_any_of(
      name, {"XLMRobertaTokenizer", "CamembertTokenizer", "AlbertTokenizer", "XGLMTokenizer",
             "DebertaV2Tokenizer", "BigBirdTokenizer", "RemBertTokenizer", "BarthezTokenizer"});
  const char* const none = name == "DebertaV2Tokenizer" ? "first" : "never";
  const std::string marks =
      hf_metaspace(may_be_none && !config.add_prefix_space.true_or(true) ? none : "always", true);
  std::string before;
  if (is_any_of(name, {"XLMRobertaTokenizer", "CamembertTokenizer", "AlbertTokenizer",
                       "XLNetTokenizer", "MBartTokenizer"}))
    before = R"({"type":"WhitespaceSplit"},)";
  if (name == "DebertaV2Tokenizer" && config.split_by_punct.or_else(false))
    before = R"({"type":"Punctuation","behavior":"Isolated"},)";
  document.set("pre_tokenizer",
               concat(R"({"type":"Sequence","pretokenizers":[)", before, marks, "]}"));
  document.set("decoder", marks);
}

// Where a piece stands among those of the file; with `no_score` only one that has 0 counts.
std::optional<std::size_t> place_of(const JsonObject& model, std::string_view text, bool no_score) {
  simdjson::dom::array pieces;
  if (model.member("vocab").get(pieces)) return std::nullopt;
  std::size_t place = 0;
  for (const simdjson::dom::element piece : pieces) {
    std::string_view name;
    double score = 0;
    if (!piece.at(0).get(name) && name == text && !piece.at(1).get(score) &&
        (!no_score || score == 0))
      return place;
    ++place;
  }
  return std::nullopt;
}

std::size_t unknown_of(const JsonObject& model, const HfConfig& config) {
  const std::string_view name = config.tokenizer_class->name;
  const std::string unknown = hf_role(config, "unk_token");
  if (name == "AlbertTokenizer") return 1;
  if (name == "RemBertTokenizer") return 2;
  if (name == "XLNetTokenizer") return config.unknown_id.value_or(0);
  if (name == "CamembertTokenizer") return place_of(model, unknown, false).value_or(0);
  if (name == "DebertaV2Tokenizer")
    return place_of(model, unknown, true).value_or(config.unknown_id.value_or(1));
  if (name == "BigBirdTokenizer") return place_of(model, unknown, true).value_or(100);
  if (name == "PegasusTokenizer") {
    const auto place = place_of(model, unknown, true);
    if (!place) model.refuse("no piece ", json_quoted(unknown), " of score 0");
    return *place;
  }
  return 3;  // XLM-R, XGLM, MBART, BARThez
}

void make_unigram(HfDocument& document, const HfConfig& config) {
  const JsonObject model = document.object("model");
  simdjson::dom::array pieces;
  if (model.member("vocab").get(pieces))
    model.refuse("a ", config.tokenizer_class->name, " of transformers 5 is a Unigram model");
  const std::size_t unknown = unknown_of(model, config);
  if (config.tokenizer_class->name == "MBart50Tokenizer" && !place_of(model, "en_XX", false))
    model.refuse("no piece \"en_XX\"");
  document.set("normalizer", normalizer_of(document, config));
  set_marks(document, config);
  set_model(document, concat(R"("type":"Unigram","byte_fallback":false,"unk_id":)", unknown));
}

void make_merged_marks(HfDocument& document, const HfConfig& config) {
  document.set("normalizer", normalizer_of(document, config));
  set_marks(document, config);
  set_model(document, concat(R"("type":"BPE","fuse_unk":true,"unk_token":)",
                             json_quoted(hf_role(config, "unk_token"))));
}

void make_openai(HfDocument& document, const HfConfig& config) {
  document.set("normalizer", hf_bert_normalizer({}, true));
  document.set("pre_tokenizer", R"({"type":"BertPreTokenizer"})");
  document.set("decoder", R"({"type":"BPEDecoder","suffix":"</w>"})");
  set_model(document, concat(R"("type":"BPE","end_of_word_suffix":"</w>","unk_token":)",
                             json_quoted(hf_role(config, "unk_token"))));
}

}  // namespace

void make_hf_anew(HfDocument& document, const HfConfig& config) {
  const HfClass& kind = *config.tokenizer_class;
  const std::string_view name = kind.name;
  const bool roberta = kind.has(HfClass::around) && !kind.has(HfClass::bert);
  if (kind.has(HfClass::pieces)) return make_unigram(document, config);
  if (name == "NllbTokenizer" || name == "ReformerTokenizer")
    return make_merged_marks(document, config);
  if (name == "OpenAIGPTTokenizer") return make_openai(document, config);
  const bool prefix = name == "BlenderbotTokenizer" ? config.add_prefix_space.true_or(true)
                                                    : config.add_prefix_space.or_else(false);
  if (is_any_of(name, {"GPT2Tokenizer", "CodeGenTokenizer", "BlenderbotTokenizer"}) || roberta)
    return make_gpt2(document, prefix, false, false);
  if (name == "GPTNeoXTokenizer") return make_gpt2(document, prefix, true, false);
  if (name == "CohereTokenizer") return make_gpt2(document, prefix, true, true);
  if (name == "GemmaTokenizer") return make_gemma(document, config);
  if (name == "LlamaTokenizer" || name == "CodeLlamaTokenizer") {
    const bool bytes =
        document.has("pre_tokenizer") && is_hf_byte_level(document.object("pre_tokenizer"));
    return bytes ? void() : make_llama(document, config);
  }
  if (name == "T5Tokenizer") return make_t5(document, config);
  if (const std::string_view qwen = hf_qwen_pattern(name); !qwen.empty()) {
    make_gpt2(document, prefix, true, false);
    return document.set("pre_tokenizer", hf_split_bytes(qwen, prefix));
  }
  make_bert(document, config);
}

}  // namespace mt
