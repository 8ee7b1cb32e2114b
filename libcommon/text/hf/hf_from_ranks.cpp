#include "text/hf/hf_from_ranks.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/allowance.h"
#include "base/error.h"
#include "base/json.h"
#include "text/bpe/byte_map.h"
#include "text/bpe/rank_file.h"
#include "text/bpe/tekken.h"
#include "text/hf/hf_json_parts.h"

namespace mt {
namespace {

// Every way to put a token together from two others is a merge of its rank.
void write_merges(const std::vector<std::string>& ranks, const HfConfigFile& file,
                  JsonWriter& json) {
  Allowance allowance(8 * file.content.size());
  StringMap<std::int32_t> rank_of;
  for (const std::string& token : ranks)
    rank_of.emplace(token, static_cast<std::int32_t>(rank_of.size()));
  json.key("merges").begin_array();
  std::vector<std::pair<std::int32_t, std::int32_t>> parts;
  for (const std::string& token : ranks) {
    parts.clear();
    for (std::size_t at = 1; at < token.size(); ++at) {
      const auto* const left = rank_of.find(std::string_view(token).substr(0, at));
      const auto* const right = rank_of.find(std::string_view(token).substr(at));
      if (left != rank_of.end() && right != rank_of.end())
        parts.emplace_back(left->second, right->second);
    }
    std::ranges::sort(parts);
    allowance.take(parts.size() * (token.size() + 8), file.path);
    for (const auto& [left, right] : parts)
      json.begin_array()
          .value(to_byte_chars(ranks[static_cast<std::size_t>(left)]))
          .value(to_byte_chars(ranks[static_cast<std::size_t>(right)]))
          .end_array();
  }
  json.end_array();
}

// `specials` have the first ids if `specials_first`, else those behind the ranks.
std::string json_of(const HfConfigFile& file, const std::vector<std::string>& ranks,
                    const std::vector<std::string>& specials, bool specials_first,
                    std::string_view pattern) {
  const std::size_t before = specials_first ? specials.size() : 0;
  const std::size_t behind = specials_first ? 0 : ranks.size();
  JsonWriter json;
  json.begin_object().key("added_tokens").begin_array();
  for (std::size_t i = 0; i < specials.size(); ++i) {
    json.begin_object().member("id", behind + i).member("content", specials[i]);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"})
      json.member(flag, false);
    json.member("special", true).end_object();
  }
  json.end_array().key("pre_tokenizer").raw(hf_split_bytes(pattern, false));
  json.key("decoder").raw(hf_byte_level(true, true));
  json.key("model").begin_object().member("type", "BPE").member("ignore_merges", true);
  json.key("vocab").begin_object();
  for (std::size_t i = 0; i < before; ++i) json.member(specials[i], i);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    json.member(to_byte_chars(ranks[rank]), before + rank);
  json.end_object();
  write_merges(ranks, file, json);
  return json.end_object().end_object().text();
}

}  // namespace

std::string hf_json_from_ranks(const HfConfigFile& file, const HfConfig& config) {
  const std::vector<std::string> ranks =
      parse_ranks(file.content, file.path, std::numeric_limits<std::int32_t>::max());
  std::vector<std::string> specials;
  for (const HfRoleToken& more : config.more_special) specials.push_back(more.token.content);
  return json_of(file, ranks, specials, false, kHfLlama3Pattern);
}

std::string hf_json_from_tekken(const HfConfigFile& file) {
  const std::optional<TekkenConfig> config = tekken_config(file.content, file.path);
  if (!config || config->pattern.empty())
    fail(Exit::bad_data, file.path, ": config: has no \"pattern\"");
  std::size_t limit = std::numeric_limits<std::int32_t>::max();
  if (config->vocab_size > 0)
    limit = static_cast<std::size_t>(
        std::max(config->vocab_size - std::ssize(config->specials), std::int64_t{0}));
  const std::vector<std::string> ranks = parse_ranks(file.content, file.path, limit);
  return json_of(file, ranks, config->specials, true, config->pattern);
}

}  // namespace mt
