#include "text/bpe/tik_tokenizer.h"

#include <simdjson.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/bpe/rank_file.h"
#include "text/bpe/tekken.h"
#include "text/hf/hf_patterns.h"

namespace mt {
namespace {

struct Pattern {
  const char* name;
  Splitter split;
};
constexpr Pattern kPatterns[] = {{"v1", megatron_v1_split},
                                 {"v2", megatron_v2_split},
                                 {"cl100k", cl100k_split},
                                 {"o200k", o200k_split},
                                 {"llama3", llama3_split}};
constexpr const char* kNeededTokens[] = {"<unk>", "<s>", "</s>"};

Splitter splitter_of(const std::string& name) {
  for (const Pattern& pattern : kPatterns)
    if (pattern.name == name) return pattern.split;
  std::string names;
  for (const Pattern& pattern : kPatterns) names += concat(names.empty() ? "" : ", ", pattern.name);
  if (name.empty())
    fail(Exit::usage, "--tiktoken-pattern: not given, --tokenizer-type ", TikTokenizer::kType,
         " needs it: one of ", names);
  fail(Exit::usage, "--tiktoken-pattern ", name, ": expected one of ", names);
}

// All special tokens in the order of their ids.
std::vector<std::string> special_tokens(const TokenizerOptions& options) {
  static constexpr const char* kName = "--tiktoken-special-tokens";
  std::vector<std::string> tokens = options.tiktoken_special_tokens;
  if (tokens.empty()) tokens.assign(std::begin(kNeededTokens), std::end(kNeededTokens));
  if (static_cast<std::int64_t>(tokens.size()) > options.tiktoken_num_special_tokens)
    fail(Exit::usage, kName, ": ", tokens.size(), ", expected at most ",
         options.tiktoken_num_special_tokens, ", as --tiktoken-num-special-tokens says");
  for (const char* needed : kNeededTokens)
    if (std::ranges::find(tokens, needed) == tokens.end())
      fail(Exit::usage, kName, ": ", needed, " is not among them");
  for (auto id = static_cast<std::int64_t>(tokens.size()); id < options.tiktoken_num_special_tokens;
       ++id)
    tokens.push_back(concat("<SPECIAL_", id, ">"));
  std::set<std::string_view> known;
  for (const std::string& token : tokens) {
    if (token.empty() || token.find_first_of(" \t\n\v\f\r") != token.npos)
      fail(Exit::usage, kName, ": \"", token, "\", expected a word without white space");
    if (!known.insert(token).second) fail(Exit::usage, kName, ": ", token, " is there twice");
  }
  return tokens;
}

std::string hash_of(const TokenizerOptions& options, const std::vector<std::string>& tokens,
                    std::size_t special) {
  Hasher hasher;
  hasher.update(concat(TikTokenizer::kType, " ", options.tiktoken_pattern, " ", special, "\n"));
  for (const std::string& token : tokens) {
    hasher.update(concat(token.size(), "\n"));
    hasher.update(token);
  }
  return hasher.hex();
}

}  // namespace

std::vector<std::string> tiktoken_patterns() {
  std::vector<std::string> names;
  for (const Pattern& pattern : kPatterns) names.emplace_back(pattern.name);
  return names;
}

// What is left open, as Mistral's file says; its pattern is one of those that have a name.
static TokenizerOptions with_tekken(TokenizerOptions options, std::string_view content) {
  const std::optional<TekkenConfig> config = tekken_config(content, options.model);
  if (!config) return options;
  const TokenizerOptions none;
  for (const Pattern& pattern : kPatterns)
    if (options.tiktoken_pattern.empty() && known_splitter(config->pattern) == pattern.split)
      options.tiktoken_pattern = pattern.name;
  std::vector<std::string> names = config->specials;
  if (!names.empty() && options.tiktoken_num_special_tokens == none.tiktoken_num_special_tokens)
    options.tiktoken_num_special_tokens = std::ssize(names);
  if (options.tiktoken_special_tokens.empty()) {
    names.resize(std::min(std::ssize(names), options.tiktoken_num_special_tokens));
    options.tiktoken_special_tokens = names;
  }
  if (options.vocab_size <= 0) options.vocab_size = config->vocab_size;
  return options;
}

TikTokenizer::TikTokenizer(const TokenizerOptions& given) {
  const std::string& path = given.model;
  const std::string content = read_regular_file(path);
  const TokenizerOptions options = with_tekken(given, content);
  split_ = splitter_of(options.tiktoken_pattern);
  const std::int64_t size = options.vocab_size > 0 ? options.vocab_size : kDefaultVocabSize;
  const std::int64_t special = special_ = options.tiktoken_num_special_tokens;
  if (size > (1 << 30) || special >= size)
    fail(Exit::usage, "--vocab-size ", size, ": expected ", special + 1, " to ", 1 << 30,
         ", with --tiktoken-num-special-tokens ", special);
  std::vector<std::string> tokens = special_tokens(options);
  const std::vector<std::string> ranks =
      parse_ranks(content, path, static_cast<std::size_t>(size - special));
  if (static_cast<std::int64_t>(ranks.size()) < size - special)
    fail(Exit::bad_data, path, ": ", ranks.size(), " tokens, expected ", size - special,
         " for --vocab-size ", size, "; all of them: --vocab-size ", ranks.size() + special);
  bpe_.emplace(rank_rules(ranks, static_cast<std::int32_t>(special)));
  const auto id_of = [&](const char* token) {
    return static_cast<std::int32_t>(std::ranges::find(tokens, token) - tokens.begin());
  };
  eod_ = id_of("</s>");
  bos_ = id_of("<s>");
  tokens.insert(tokens.end(), ranks.begin(), ranks.end());
  identity_ = hash_of(options, tokens, static_cast<std::size_t>(special));
  tokens_ = TokenBytes(std::move(tokens));
}

void TikTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (simdjson::validate_utf8(text.data(), text.size()))
    encode_utf8(text, ids);
  else
    encode_utf8(replace_invalid_utf8(text), ids);
}

void TikTokenizer::encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const {
  bpe_->encode(text, split_, ids);
}

}  // namespace mt
