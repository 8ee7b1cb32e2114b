#include "text/hf/hf_added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode/unicode.h"

namespace mt {
namespace {

// The character that ends before `at`, which is not 0; `at` moves to its start.
char32_t previous_code_point(std::string_view text, std::size_t& at) {
  do --at;
  while (at > 0 && (text[at] & 0xC0) == 0x80);
  std::size_t next = at;
  return next_code_point(text, next);
}

bool is_space(char32_t point) { return category(point) == Category::space; }

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word_char(previous_code_point(text, begin))) return false;
  return end == text.size() || !is_word_char(next_code_point(text, end));
}

std::size_t without_space_before(std::string_view text, std::size_t at) {
  for (std::size_t before = at; at > 0; at = before)
    if (!is_space(previous_code_point(text, before))) break;
  return at;
}

std::size_t behind_space(std::string_view text, std::size_t at) {
  for (std::size_t next = at; at < text.size(); at = next)
    if (!is_space(next_code_point(text, next))) break;
  return at;
}

}  // namespace

void HfAddedVocabulary::add(HfAddedToken token) {
  if (token.content.empty()) return;
  const std::int32_t next = last_ < size_ ? size_ : last_ + 1;
  token.id = vocabulary_.ids.emplace(token.content, next).first->second;
  const auto id = static_cast<std::size_t>(token.id);
  if (id >= vocabulary_.tokens.size()) vocabulary_.tokens.resize(id + 1);
  vocabulary_.tokens[id] = token.content;
  last_ = std::max(last_, token.id);
  if (token.normalized) normalized_.insert(token.id);
  if (const auto known = tokens_.find(token.id); known != tokens_.end() && known->second == token)
    return;
  if (version_ < 5 && !special_texts_.contains(token.content)) {
    (token.special ? special_ : others_).push_back(token);
    if (token.special) special_texts_.insert(token.content);
  }
  tokens_[token.id] = std::move(token);
}

std::vector<HfAddedToken> HfAddedVocabulary::searched() const {
  if (version_ >= 5) return tokens();
  std::vector<HfAddedToken> list;
  for (const auto* const said : {&special_, &others_})
    for (const HfAddedToken& first : *said) {
      list.push_back(tokens_.at(first.id));
      list.back().normalized = first.normalized;
      list.back().special = special_texts_.contains(first.content);
    }
  return list;
}

std::vector<HfAddedToken> HfAddedVocabulary::tokens() const {
  std::vector<HfAddedToken> list;
  for (const auto& [id, token] : tokens_) list.push_back(token);
  return list;
}

HfAddedTokens::HfAddedTokens(std::vector<HfAddedToken> tokens, bool no_special)
    : no_special_(no_special) {
  StringMap<std::size_t> known;
  for (HfAddedToken& token : tokens)
    if (known.emplace(token.content, tokens_.size()).second) tokens_.push_back(std::move(token));
  std::vector<ByteTrie::Entry> entries;
  for (const HfAddedToken& token : tokens_) {
    entries.emplace_back(token.content, static_cast<std::int32_t>(entries.size()));
    first_bytes_[static_cast<unsigned char>(token.content[0])] = true;
  }
  trie_ = ByteTrie(std::move(entries));
}

void HfAddedTokens::find(std::string_view text, std::vector<Part>& parts) const {
  parts.clear();
  std::size_t last = 0;  // where what was found ends
  for (std::size_t at = 0; !empty();) {
    while (at < text.size() && !first_bytes_[static_cast<unsigned char>(text[at])]) ++at;
    if (at == text.size()) break;
    const auto match = trie_.longest_prefix(text.substr(at));
    if (match.length == 0) {
      ++at;
      continue;
    }
    const HfAddedToken& token = tokens_[static_cast<std::size_t>(match.value)];
    std::size_t begin = at, end = at + match.length;
    at = end;
    if (no_special_ && token.special) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(without_space_before(text, begin), last);
    if (token.rstrip) end = behind_space(text, end);
    if (last < begin) parts.push_back({last, begin});
    if (begin < end) parts.push_back({begin, end, token.id});  // another may have taken its space
    last = end;
  }
  if (last < text.size()) parts.push_back({last, text.size()});
}

}  // namespace mt
