#include "text/hf/hf_from_sentencepiece.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "base/allowance.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/utf8.h"
#include "text/bpe/base64.h"
#include "text/hf/hf_json_parts.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/unicode/utf8_length.h"

namespace mt {
namespace {

using Type = SentencePieceModel::Type;
using Algorithm = SentencePieceModel::Algorithm;

using Pieces = std::vector<SentencePieceModel::Piece>;

struct Merge {
  double score;
  std::size_t left_size, right_size;  // in characters
  std::string_view left, right;
};

// Every way to put a piece together from two others, of highest scores first.
std::vector<Merge> merges_of(const Pieces& pieces, const HfConfigFile& file) {
  Allowance allowance(8 * file.content.size());
  StringMap<std::int32_t> ids;
  for (const auto& piece : pieces) ids[piece.text] = static_cast<std::int32_t>(ids.size());
  std::vector<Merge> merges;
  using Part = std::tuple<std::int32_t, std::int32_t, std::size_t, std::size_t>;
  std::vector<Part> parts;
  for (const auto& [text, score, type] : pieces) {
    parts.clear();
    std::size_t characters = 0, all = 0;
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) ++all;
    for (std::size_t at = 0; at < text.size();) {
      at += utf8_length(text[at]);
      ++characters;
      if (at >= text.size()) break;
      const auto* const left = ids.find(std::string_view(text).substr(0, at));
      const auto* const right = ids.find(std::string_view(text).substr(at));
      if (left != ids.end() && right != ids.end())
        parts.emplace_back(left->second, right->second, at, characters);
    }
    std::ranges::sort(parts);
    allowance.take(parts.size() * (sizeof(Merge) + text.size()), file.path);
    for (const auto& [left, right, at, size] : parts)
      merges.push_back({score, size, all - size, std::string_view(text).substr(0, at),
                        std::string_view(text).substr(at)});
  }
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left_size, a.right_size) >
           std::tie(b.score, b.left_size, b.right_size);
  });
  return merges;
}

void write_model(const SentencePieceModel& model, const Pieces& pieces, bool byte_fallback,
                 const HfConfigFile& file, JsonWriter& json) {
  json.key("model").begin_object();
  if (model.algorithm == Algorithm::unigram) {
    json.member("type", "Unigram").member("unk_id", model.unk);
    json.member("byte_fallback", byte_fallback).key("vocab").begin_array();
    for (const auto& piece : pieces)
      json.begin_array().value(piece.text).value(static_cast<double>(piece.score)).end_array();
    json.end_array().end_object();
    return;
  }
  json.member("type", "BPE");
  if (model.unk >= 0) json.member("unk_token", pieces[static_cast<std::size_t>(model.unk)].text);
  json.member("fuse_unk", true).member("byte_fallback", byte_fallback);
  json.key("vocab").begin_object();
  StringMap<std::size_t> ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) ids[pieces[id].text] = id;
  for (const auto& [text, id] : ids) json.member(text, id);
  json.end_object().key("merges").begin_array();
  for (const Merge& merge : merges_of(pieces, file))
    json.begin_array().value(merge.left).value(merge.right).end_array();
  json.end_array().end_object();
}

void write_added(const Pieces& pieces, bool gemma, JsonWriter& json) {
  json.key("added_tokens").begin_array();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const auto& piece = pieces[id];
    if (piece.type != Type::control && piece.type != Type::user_defined) continue;
    json.begin_object().member("id", id).member("content", piece.text);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"})
      json.member(flag, false);
    json.member("special",
                piece.type == Type::control ||
                    (gemma && (piece.text == "<start_of_turn>" || piece.text == "<end_of_turn>")));
    json.end_object();
  }
  json.end_array();
}

std::string precompiled(const SentencePieceModel& model) {
  const std::string& map = model.normalizer.charsmap;
  if (map.empty()) return {};
  return concat(R"({"type":"Precompiled","precompiled_charsmap":")", to_base64(map), "\"}");
}

std::string any_normalizer(const SentencePieceModel& model) {
  const std::string map = precompiled(model);
  return concat(R"({"type":"Sequence","normalizers":[)", map.empty() ? "" : map + ",",
                R"({"type":"Strip","strip_left":false,"strip_right":true},)",
                R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"}]})");
}

void write_any(const SentencePieceModel& model, const HfConfig& config, JsonWriter& json) {
  const bool prefix = config.add_prefix_space.or_else(true);
  const std::string_view scheme = !prefix                       ? "never"
                                  : config.legacy.or_else(true) ? "always"
                                                                : "first";
  json.key("normalizer").raw(any_normalizer(model));
  json.key("pre_tokenizer").raw(hf_metaspace(scheme, true));
  json.key("decoder").raw(hf_metaspace(scheme, true));
}

// As version 5 has it.
void write_t5(const SentencePieceModel& model, JsonWriter& json) {
  if (const std::string map = precompiled(model); !map.empty()) json.key("normalizer").raw(map);
  json.key("pre_tokenizer").raw(kHfT5PreTokenizer);
  json.key("decoder").raw(hf_metaspace("always", true));
}

void write_llama(const HfConfig& config, int version, JsonWriter& json) {
  const bool fixed = version < 5 && config.tokenizer_class->name == "CodeLlamaTokenizer";
  const bool prefix = fixed || config.add_prefix_space.or_else(true);
  if (fixed || config.legacy.or_else(true))
    json.key("normalizer").raw(hf_llama_normalizer(prefix));
  else
    json.key("pre_tokenizer").raw(hf_metaspace(prefix ? "first" : "never", false));
  json.key("decoder").raw(hf_llama_decoder(prefix));
}

void write_gemma(JsonWriter& json) {
  json.key("normalizer").raw(kHfGemmaNormalizer);
  json.key("pre_tokenizer").raw(kHfGemmaPreTokenizer);
  json.key("decoder").raw(hf_llama_decoder(false));
}

// Older models of Gemma lack the tab, whose byte then stands for it.
void mend_tab(Pieces& pieces) {
  const auto named = [&](const char* text) {
    return std::ranges::find(pieces, text, &SentencePieceModel::Piece::text);
  };
  if (named("\t") != pieces.end()) return;
  if (const auto byte = named("<0x09>"); byte != pieces.end()) {
    byte->text = "\t";
    byte->score = 0;
  }
}

// Version 4 gives the first three ids to the tokens of these roles, whatever the pieces are.
void name_first(Pieces& pieces, const HfConfig& config) {
  constexpr std::array<const char*, 3> kFirst = {"pad_token", "eos_token", "bos_token"};
  for (std::size_t i = 0; i < kFirst.size() && i < pieces.size(); ++i) {
    pieces[i].text = hf_role(config, kFirst[i]);
    pieces[i].score = 0;
  }
}

// XLM-R and its like have tokens of their own for the model's first, and more behind the last.
void number_anew(std::string_view name, SentencePieceModel& model, Pieces& pieces) {
  const bool camembert = name == "CamembertTokenizer", xglm = name == "XGLMTokenizer";
  if (!camembert && !xglm && name != "XLMRobertaTokenizer") return;
  Pieces made = {{"<s>", 0, Type::control},
                 {"<pad>", 0, Type::normal},
                 {"</s>", 0, Type::control},
                 {"<unk>", 0, Type::normal}};
  if (camembert) {
    for (const std::size_t i : {0, 2}) made[i] = {made[i].text + "NOTUSED", 0, Type::normal};
    made.push_back({"<unk>NOTUSED", -100, Type::normal});
  }
  const std::size_t skipped = std::min<std::size_t>(camembert ? 1 : 3, pieces.size());
  made.insert(made.end(), pieces.begin() + static_cast<std::ptrdiff_t>(skipped), pieces.end());
  for (int i = 0; xglm && i < 7; ++i)
    made.push_back({concat("<madeupword", i, ">"), 0, Type::normal});
  if (!xglm) made.push_back({"<mask>", 0, Type::normal});
  pieces = std::move(made);
  model.unk = 3;
}

// A digit and a comma in one piece are as good as never chosen.
void avoid_commas(Pieces& pieces) {
  for (auto& [text, score, type] : pieces)
    if (text.size() > 1 && text.back() == ',' && text[text.size() - 2] >= '0' &&
        text[text.size() - 2] <= '9')
      score -= 100;
}

// What each class puts around a text.
struct Ends {
  std::vector<std::string_view> before = {}, after = {};
};
Ends ends_of(std::string_view name) {
  if (name == "T5Tokenizer" || name == "MT5Tokenizer") return {.after = {"</s>"}};
  if (name == "XLMRobertaTokenizer" || name == "CamembertTokenizer")
    return {.before = {"<s>"}, .after = {"</s>"}};
  if (name == "XGLMTokenizer") return {.before = {"</s>"}};
  if (name == "XLNetTokenizer") return {.after = {"<sep>", "<cls>"}};
  if (name == "AlbertTokenizer" || name == "DebertaV2Tokenizer")
    return {.before = {"[CLS]"}, .after = {"[SEP]"}};
  return {};
}

void write_ends(const Ends& ends, const Pieces& pieces, const HfConfigFile& file,
                JsonWriter& json) {
  if (ends.before.empty() && ends.after.empty()) return;
  std::vector<std::string_view> all = ends.before;
  all.insert(all.end(), ends.after.begin(), ends.after.end());
  const auto add = [&](const char* kind, std::string_view id) {
    json.begin_object().key(kind).begin_object().member("id", id).member("type_id", 0);
    json.end_object().end_object();
  };
  json.key("post_processor").begin_object().member("type", "TemplateProcessing");
  json.key("single").begin_array();
  for (const std::string_view token : ends.before) add("SpecialToken", token);
  add("Sequence", "A");
  for (const std::string_view token : ends.after) add("SpecialToken", token);
  json.end_array().key("special_tokens").begin_object();
  for (const std::string_view token : all) {
    const auto at = std::ranges::find(pieces, token, &SentencePieceModel::Piece::text);
    if (at == pieces.end())
      fail(Exit::bad_data, file.path, ": no piece ", json_quoted(token),
           ", which is put around each text");
    json.key(token).begin_object().member("id", token).key("ids").begin_array();
    json.value(at - pieces.begin()).end_array().end_object();
  }
  json.end_object().end_object();
}

// --- Normalizers of ALBERT, XLNet and DeBERTa. ---

std::string sequence_of(const std::vector<std::string>& steps) {
  std::string all;
  for (const std::string& step : steps)
    if (!step.empty()) all += concat(all.empty() ? "" : ",", step);
  return concat(R"({"type":"Sequence","normalizers":[)", all, "]}");
}

constexpr const char* kSingleSpaces =
    R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})";

void write_albert(const SentencePieceModel& model, const HfConfig& config, int version,
                  JsonWriter& json) {
  const bool albert = config.tokenizer_class->name == "AlbertTokenizer";
  const bool keeps = config.keep_accents.or_else(false) && (albert || version < 5);
  const std::string scheme = config.add_prefix_space.or_else(true) ? "always" : "never";
  json.key("normalizer")
      .raw(sequence_of({R"({"type":"Replace","pattern":{"String":"``"},"content":"\""})",
                        R"({"type":"Replace","pattern":{"String":"''"},"content":"\""})",
                        keeps ? "" : R"({"type":"NFKD"},{"type":"StripAccents"})",
                        config.lower_case.or_else(albert) ? R"({"type":"Lowercase"})" : "",
                        precompiled(model), version < 5 ? kSingleSpaces : ""}));
  json.key("pre_tokenizer")
      .raw(version < 5 ? hf_metaspace(scheme, true) : std::string(kHfT5PreTokenizer));
  json.key("decoder").raw(hf_metaspace(scheme, true));
}

void write_deberta(const SentencePieceModel& model, const HfConfig& config, int version,
                   JsonWriter& json) {
  const std::string scheme = config.add_prefix_space.or_else(true) ? "always"
                             : version < 5                         ? "never"
                                                                   : "first";
  const std::string lower = config.lower_case.or_else(false) ? R"({"type":"Lowercase"})" : "";
  json.key("normalizer")
      .raw(version < 5
               ? sequence_of({lower, R"({"type":"Strip","strip_left":true,"strip_right":true})",
                              precompiled(model), kSingleSpaces})
               : sequence_of({lower,
                              R"({"type":"Replace","pattern":{"Regex":"\\s{2,}|[\\n\\r\\t]"},)"
                              R"("content":" "},{"type":"NFC"})",
                              R"({"type":"Strip","strip_left":false,"strip_right":true})"}));
  json.key("pre_tokenizer")
      .raw(concat(R"({"type":"Sequence","pretokenizers":[)",
                  config.split_by_punct.or_else(false)
                      ? R"({"type":"Punctuation","behavior":"Isolated"},)"
                      : "",
                  hf_metaspace(scheme, true), "]}"));
  json.key("decoder").raw(hf_metaspace(scheme, true));
}

}  // namespace

std::string_view hf_class_of_sentencepiece(const HfConfigFile& file) {
  const SentencePieceModel model = parse_sentencepiece_model(file.content, file.path);
  return model.algorithm == Algorithm::bpe && model.byte_fallback ? "LlamaTokenizer"
                                                                  : "PreTrainedTokenizer";
}

std::string hf_json_from_sentencepiece(const HfConfigFile& file, const HfConfig& config,
                                       int version) {
  SentencePieceModel model = parse_sentencepiece_model(file.content, file.path);
  if (model.algorithm != Algorithm::unigram && model.algorithm != Algorithm::bpe)
    fail(Exit::bad_data, file.path, ": a model of ",
         model.algorithm == Algorithm::words ? "words" : "characters",
         ", of which transformers makes no tokenizer; expected unigram or BPE, or --tokenizer-type "
         "GPTSentencePieceTokenizer");
  Pieces pieces = model.pieces;
  const std::string_view name = config.tokenizer_class->name;
  const bool llama = name == "LlamaTokenizer" || name == "CodeLlamaTokenizer";
  const bool gemma = name == "GemmaTokenizer", t5 = name == "T5Tokenizer" || name == "MT5Tokenizer";
  if (gemma && version < 5) name_first(pieces, config);
  // Version 5 merges whatever the model was trained for.
  if (version >= 5 && (llama || gemma)) model.algorithm = Algorithm::bpe;
  if (gemma) mend_tab(pieces);
  for (int i = config.extra_ids - 1; t5 && i >= 0; --i)
    pieces.push_back({concat("<extra_id_", i, ">"), 0, Type::control});
  const bool albert = name == "AlbertTokenizer", xlnet = name == "XLNetTokenizer";
  const bool words = name == "XLMRobertaTokenizer" || name == "CamembertTokenizer";
  if ((albert || xlnet) && version < 5) avoid_commas(pieces);
  if (albert && version >= 5) model.unk = 1;
  number_anew(name, model, pieces);
  JsonWriter json;
  json.begin_object();
  write_added(pieces, gemma, json);
  if ((t5 || words) && version >= 5)
    write_t5(model, json);
  else if (albert || xlnet)
    write_albert(model, config, version, json);
  else if (name == "DebertaV2Tokenizer")
    write_deberta(model, config, version, json);
  else if (llama)
    write_llama(config, version, json);
  else if (gemma)
    write_gemma(json);
  else
    write_any(model, config, json);
  write_ends(ends_of(name), pieces, file, json);
  write_model(model, pieces, llama || gemma, file, json);
  return json.end_object().text();
}

}  // namespace mt
