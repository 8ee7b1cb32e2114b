#include "text/hf/hf_from_files.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/json_place.h"
#include "base/lines.h"
#include "base/utf8.h"
#include "text/bpe/gpt2_files.h"
#include "text/bpe/rank_file.h"
#include "text/hf/hf_adapt.h"
#include "text/hf/hf_from_ranks.h"
#include "text/hf/hf_from_sentencepiece.h"
#include "text/hf/hf_json_parts.h"
#include "text/hf/hf_model.h"

namespace mt {
namespace {

constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kMerges = "merges.txt";
constexpr const char* kWords = "vocab.txt";
constexpr const char* kTekken = "tekken.json";
constexpr std::array kModels = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                "tiktoken.model"};

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// --- vocab.json and merges.txt. ---

// The first line is passed over, as is one without an end behind the last.
void write_merges(const HfConfigFile& file, JsonWriter& json) {
  const std::size_t end = file.content.rfind('\n');
  std::vector<std::string_view> lines =
      lines_of(std::string_view(file.content).substr(0, end == std::string::npos ? 0 : end + 1));
  json.key("merges").begin_array();
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t blank = lines[i].find(' ');
    if (lines[i].empty() || lines[i].starts_with("#version")) continue;
    if (blank == std::string_view::npos || lines[i].find(' ', blank + 1) != std::string_view::npos)
      fail(Exit::bad_data, file.path, ":", i + 1, ": expected two tokens");
    json.begin_array().value(lines[i].substr(0, blank)).value(lines[i].substr(blank + 1));
    json.end_array();
  }
  json.end_array();
}

std::string pre_tokenizer_of(const HfConfig& config) {
  const bool prefix = config.add_prefix_space.or_else(false);
  if (config.tokenizer_class->name == "Qwen2Tokenizer")
    return hf_split_bytes(kHfQwen2Pattern, prefix);
  return hf_byte_level(prefix, true);
}

std::string from_merges(const std::vector<HfConfigFile>& files, const HfConfig& config,
                        int version) {
  simdjson::dom::parser parser;
  simdjson::dom::element vocabulary;
  const auto& [path, content] = files[0];
  if (const auto error = parse_json(parser, content).get(vocabulary))
    fail(Exit::bad_data, path, ": ", json_place(content), simdjson::error_message(error));
  const std::string_view name = config.tokenizer_class->name;
  JsonWriter json;
  json.begin_object();
  if (name == "Qwen2Tokenizer" || (version >= 5 && name == "GPTNeoXTokenizer"))
    json.key("normalizer").raw(R"({"type":"NFC"})");
  json.key("pre_tokenizer").raw(pre_tokenizer_of(config));
  json.key("decoder").raw(hf_byte_level(true, true));
  const TokenIds ids = parse_vocabulary(content, path, kMostHfHoles);
  const std::string ends = hf_ends_processor(config, [&](std::string_view token) {
    const auto found = ids.find(token);
    return found == ids.end() ? -1 : found->second;
  });
  if (!ends.empty()) json.key("post_processor").raw(ends);
  json.key("model").begin_object().member("type", "BPE");
  json.key("vocab").raw(simdjson::minify(vocabulary));
  write_merges(files[1], json);
  return json.end_object().end_object().text();
}

// --- vocab.txt. ---

// The ids are the lines' numbers; of a token that is there twice the last counts.
std::string from_words(const HfConfigFile& file, const HfConfig& config) {
  StringMap<std::int32_t> ids;
  std::int32_t id = 0;
  for (const std::string_view line : lines_of(file.content)) ids[line] = id++;
  const auto id_of = [&](std::string_view role) {
    const std::string token = hf_role(config, role);
    const auto found = ids.find(token);
    if (found == ids.end())
      fail(Exit::bad_data, file.path, ": no token ", json_quoted(token), ", the ", role);
    return found->second;
  };
  JsonWriter json;
  json.begin_object().key("normalizer").raw(hf_bert_normalizer(config, true));
  json.key("pre_tokenizer").raw(R"({"type":"BertPreTokenizer"})");
  json.key("decoder").raw(kHfWordPieceDecoder);
  json.key("post_processor").begin_object().member("type", "BertProcessing");
  for (const auto& [name, role] : {std::pair{"sep", "sep_token"}, {"cls", "cls_token"}})
    json.key(name).begin_array().value(hf_role(config, role)).value(id_of(role)).end_array();
  json.end_object();
  json.key("model").begin_object().member("type", "WordPiece");
  json.member("unk_token", hf_role(config, "unk_token"));
  json.member("continuing_subword_prefix", "##").member("max_input_chars_per_word", 100);
  json.key("vocab").begin_object();
  for (const auto& [token, number] : ids) json.member(token, number);
  return json.end_object().end_object().end_object().text();
}

}  // namespace

std::vector<std::string> hf_vocabulary_files(const std::string& folder) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(concat(folder, "/", name), error);
  };
  if (has(kVocabulary) && has(kMerges)) return {kVocabulary, kMerges};
  for (const char* name : {kWords, kModels[0], kModels[1], kModels[2], kModels[3], kTekken})
    if (has(name)) return {name};
  return {};
}

std::vector<std::string> hf_vocabulary_of(const std::string& path) {
  const std::string name = name_of(path);
  if (name != kVocabulary && name != kMerges) return {path};
  const std::string place = path.substr(0, path.size() - name.size());
  return {place + kVocabulary, place + kMerges};
}

bool is_hf_vocabulary_file(const std::string& path) {
  const std::string name = name_of(path);
  return name == kVocabulary || name == kMerges || name == kWords || name == kTekken ||
         std::ranges::find(kModels, name) != kModels.end();
}

std::string_view hf_class_of_files(const std::vector<HfConfigFile>& files) {
  const std::string name = name_of(files[0].path);
  if (name == kVocabulary) return "GPT2Tokenizer";
  if (name == kWords) return "BertTokenizer";
  if (name == kTekken || is_rank_file(files[0].content)) return "PreTrainedTokenizer";
  return hf_class_of_sentencepiece(files[0]);
}

std::string hf_json_from(const std::vector<HfConfigFile>& files, const HfConfig& config,
                         int version) {
  const std::string name = name_of(files[0].path);
  if (name == kVocabulary) return from_merges(files, config, version);
  if (name == kWords) return from_words(files[0], config);
  if (name == kTekken) return hf_json_from_tekken(files[0]);
  if (is_rank_file(files[0].content)) return hf_json_from_ranks(files[0], config);
  return hf_json_from_sentencepiece(files[0], config, version);
}

}  // namespace mt
