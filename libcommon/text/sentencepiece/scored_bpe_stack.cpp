#include "text/sentencepiece/scored_bpe_stack.h"

#include <algorithm>
#include <unordered_set>

namespace mt {

static bool is_character(std::string_view text) {
  return !text.empty() && utf8_length(text[0]) >= text.size();
}

void ScoredBpeStack::number_characters(const std::vector<std::string>& texts, const ByteTrie& ids) {
  std::unordered_set<std::string_view> seen;
  for (const std::string_view text : texts)
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at]))
      seen.insert(text.substr(at, utf8_length(text[at])));
  std::vector<std::string_view> characters(seen.begin(), seen.end());
  std::ranges::sort(characters);
  std::vector<ByteTrie::Entry> entries;
  for (const std::string_view character : characters) {
    entries.emplace_back(character, static_cast<std::int32_t>(entries.size()));
    const std::int32_t id = ids.find(character);
    character_ids_.push_back(id == ByteTrie::kNone ? kUnknownPiece : id);
  }
  characters_ = ByteTrie(std::move(entries));
  for (std::size_t byte = 0; byte < ascii_.size(); ++byte) {
    const char character = static_cast<char>(byte);
    ascii_[byte] = static_cast<Symbol>(characters_.find({&character, 1}));
  }
}

// The symbol of a character, or of a piece whose rank is below `below`; else kNone.
ScoredBpeStack::Symbol ScoredBpeStack::symbol(std::string_view text, std::uint32_t below,
                                              const std::vector<std::uint32_t>& ranks,
                                              const ByteTrie& ids) const {
  if (is_character(text)) return static_cast<Symbol>(characters_.find(text));
  const std::int32_t id = ids.find(text);
  if (id == ByteTrie::kNone || ranks[id] >= below) return kNone;
  return static_cast<Symbol>(character_ids_.size()) + static_cast<Symbol>(id);
}

ScoredBpeStack::ScoredBpeStack(const std::vector<std::string>& texts,
                               const std::vector<std::uint32_t>& ranks, const ByteTrie& ids) {
  number_characters(texts, ids);
  std::vector<std::int32_t> pieces;  // that are merged
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(texts.size()); ++id) {
    lengths_.push_back(static_cast<std::uint32_t>(texts[id].size()));
    if (!texts[id].empty() && !is_character(texts[id]) && ids.find(texts[id]) == id)
      pieces.push_back(id);
  }
  const auto rank = [&](std::int32_t id) { return ranks[id]; };
  std::ranges::sort(pieces, {}, rank);
  if (std::ranges::adjacent_find(pieces, {}, rank) != pieces.end()) return;
  std::vector<BpeStack::Merge> merges;
  for (const std::int32_t id : pieces) {
    const std::string_view text = texts[id];
    const Symbol result = static_cast<Symbol>(character_ids_.size()) + static_cast<Symbol>(id);
    for (std::size_t at = utf8_length(text[0]); at < text.size(); at += utf8_length(text[at])) {
      const Symbol left = symbol(text.substr(0, at), ranks[id], ranks, ids);
      const Symbol right = symbol(text.substr(at), ranks[id], ranks, ids);
      if (left != kNone && right != kNone) merges.push_back({left, right, result});
    }
  }
  stack_.emplace(merges);
}

bool ScoredBpeStack::encode(std::string_view text, std::size_t begin, std::size_t end,
                            std::vector<TextSegment>& segments) const {
  if (!stack_) return false;
  std::vector<Symbol> symbols;
  symbols.reserve(end - begin);
  for (std::size_t at = begin; at < end; at += utf8_length(text[at]))
    symbols.push_back(character(text, at));
  const std::size_t count = stack_->apply(symbols);
  if (count == BpeStack::kCannot) return false;
  const auto characters = static_cast<Symbol>(character_ids_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Symbol symbol = symbols[i];
    const bool piece = symbol != kNone && symbol >= characters;
    begin += piece ? lengths_[symbol - characters] : utf8_length(text[begin]);
    const std::int32_t id = piece             ? static_cast<std::int32_t>(symbol - characters)
                            : symbol == kNone ? kUnknownPiece
                                              : character_ids_[symbol];
    segments.push_back({id, static_cast<std::uint32_t>(begin)});
  }
  return true;
}

}  // namespace mt
