#include "text/hf/hf_from_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/lines.h"
#include "base/utf8.h"
#include "text/bpe/rank_file.h"
#include "text/file_names.h"
#include "text/hf/hf_from_ranks.h"
#include "text/hf/hf_from_sentencepiece.h"
#include "text/hf/hf_json_parts.h"
#include "text/string_map.h"

namespace mt {
namespace {

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// --- vocab.json and merges.txt. ---

// Version 4 passes over the first line, and one without an end behind the last.
void write_merges(const HfConfigFile& file, int version, JsonWriter& json) {
  const bool all = version >= 5;
  const std::size_t end = all ? file.content.size() : file.content.rfind('\n') + 1;
  std::vector<std::string_view> lines = lines_of(std::string_view(file.content).substr(0, end));
  json.key("merges").begin_array();
  for (std::size_t i = all ? 0 : 1; i < lines.size(); ++i) {
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
  const std::string_view qwen = hf_qwen_pattern(config.tokenizer_class->name);
  if (!qwen.empty()) return hf_split_bytes(qwen, prefix);
  return hf_byte_level(prefix, true);
}

std::string from_merges(const std::vector<HfConfigFile>& files, const HfConfig& config,
                        int version) {
  simdjson::dom::parser parser;
  simdjson::dom::element vocabulary;
  const auto& [path, content] = files[0];
  if (const auto error = parse_json(parser, content).get(vocabulary))
    fail_json(content, path, error);
  const std::string_view name = config.tokenizer_class->name;
  JsonWriter json;
  json.begin_object();
  if (!hf_qwen_pattern(name).empty() || (version >= 5 && name == "GPTNeoXTokenizer"))
    json.key("normalizer").raw(R"({"type":"NFC"})");
  json.key("pre_tokenizer").raw(pre_tokenizer_of(config));
  json.key("decoder").raw(hf_byte_level(true, true));
  json.key("post_processor").raw(hf_byte_level(true, true));
  json.key("model").begin_object().member("type", "BPE");
  json.key("vocab").raw(simdjson::minify(vocabulary));
  write_merges(files[1], version, json);
  return json.end_object().end_object().text();
}

// --- vocab.txt. ---

// The ids are the lines' numbers; of a token that is there twice the last counts.
std::string from_words(const HfConfigFile& file, const HfConfig& config) {
  StringMap<std::int32_t> ids;
  std::int32_t id = 0;
  for (const std::string_view line : lines_of(file.content)) ids[line] = id++;
  JsonWriter json;
  json.begin_object().key("normalizer").raw(hf_bert_normalizer(config, true));
  json.key("pre_tokenizer").raw(R"({"type":"BertPreTokenizer"})");
  json.key("decoder").raw(kHfWordPieceDecoder);
  json.key("model").begin_object().member("type", "WordPiece");
  json.member("unk_token", hf_role(config, "unk_token"));
  json.member("continuing_subword_prefix", "##").member("max_input_chars_per_word", 100);
  json.key("vocab").begin_object();
  for (const auto& [token, number] : ids) json.member(token, number);
  return json.end_object().end_object().end_object().text();
}

}  // namespace

std::vector<std::string> hf_vocabulary_files(const HfIsThere& is_there) {
  if (is_there(kTokenizerJson)) return {kTokenizerJson};
  if (is_there(kVocabJson) && is_there(kMergesTxt)) return {kVocabJson, kMergesTxt};
  if (is_there(kVocabTxt)) return {kVocabTxt};
  for (const char* name : kModelFiles)
    if (is_there(name)) return {name};
  if (is_there(kTekkenJson)) return {kTekkenJson};
  return {};
}

std::vector<std::string> hf_vocabulary_files(const std::string& folder) {
  return hf_vocabulary_files([&](const std::string& name) {
    std::error_code error;
    return std::filesystem::exists(concat(folder, "/", name), error);
  });
}

std::vector<std::string> hf_vocabulary_of(const std::string& path) {
  const std::string name = name_of(path);
  if (name != kVocabJson && name != kMergesTxt) return {path};
  const std::string place = path.substr(0, path.size() - name.size());
  return {place + kVocabJson, place + kMergesTxt};
}

bool is_hf_vocabulary_file(const std::string& path) {
  const std::string name = name_of(path);
  return name == kVocabJson || name == kMergesTxt || name == kVocabTxt || name == kTekkenJson ||
         std::ranges::find(kModelFiles, name) != kModelFiles.end();
}

std::string_view hf_class_of_files(const std::vector<HfConfigFile>& files) {
  const std::string name = name_of(files[0].path);
  if (name == kVocabJson) return "GPT2Tokenizer";
  if (name == kVocabTxt) return "BertTokenizer";
  if (name == kTekkenJson || is_rank_file(files[0].content)) return "PreTrainedTokenizer";
  return hf_class_of_sentencepiece(files[0]);
}

std::string hf_json_from(const std::vector<HfConfigFile>& files, const HfConfig& config,
                         int version) {
  const std::string name = name_of(files[0].path);
  if (name == kVocabJson) return from_merges(files, config, version);
  if (name == kVocabTxt) return from_words(files[0], config);
  if (name == kTekkenJson) return hf_json_from_tekken(files[0]);
  if (is_rank_file(files[0].content)) return hf_json_from_ranks(files[0], config);
  return hf_json_from_sentencepiece(files[0], config, version);
}

}  // namespace mt
