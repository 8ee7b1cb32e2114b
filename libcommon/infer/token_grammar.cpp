#include "infer/token_grammar.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "infer/token_json.h"

namespace mt {

// --- The trie -----------------------------------------------------------------------------------

static std::vector<std::string> bytes_of_tokens(const Tokenizer& tokenizer, std::int64_t count) {
  std::vector<std::string> bytes(static_cast<std::size_t>(count));
  for (std::int32_t id = 0; id < std::min<std::int64_t>(count, tokenizer.vocab_size()); ++id)
    bytes[static_cast<std::size_t>(id)] = token_bytes(tokenizer, id);
  return bytes;
}

TokenTrie::TokenTrie(const Tokenizer& tokenizer, std::int64_t vocab_size,
                     std::span<const std::int32_t> without)
    : bytes_(bytes_of_tokens(tokenizer, vocab_size)) {
  for (std::int32_t id = 0; id < std::ssize(bytes_); ++id) {
    // Other marks may be a grammar's: of calls, say.
    if (std::ranges::count(without, id) > 0 || tokenizer.has_role(id))
      bytes_[static_cast<std::size_t>(id)].clear();
    if (!bytes(id).empty()) tokens_.push_back(id);
  }
  std::ranges::stable_sort(tokens_, {},
                           [&](std::int32_t id) { return std::string_view(bytes(id)); });
  std::vector<std::size_t> path;  // to the node before
  std::string_view before;
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].past = static_cast<std::int32_t>(nodes_.size());
  };
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = bytes(tokens_[i]);
    const auto place = static_cast<std::int32_t>(i);
    const auto same = std::ranges::mismatch(text, before).in1 - text.begin();
    leave(static_cast<std::size_t>(same));
    for (auto depth = static_cast<std::size_t>(same); depth < text.size(); ++depth) {
      path.push_back(nodes_.size());
      nodes_.push_back({.byte = static_cast<std::uint8_t>(text[depth]),
                        .depth = static_cast<std::int32_t>(depth),
                        .tokens_begin = place,
                        .tokens_end = place});
    }
    nodes_[path.back()].tokens_end = place + 1;
    before = text;
  }
  leave(0);
}

// --- Masks --------------------------------------------------------------------------------------

// Goes down the trie's nodes from `begin` to `end` for as long as some byte may follow; at the
// first of them one is at `places`.  met(node, places behind its byte)
static void walk(const TokenTrie& trie, GrammarText& text, std::int32_t begin, std::int32_t end,
                 const GrammarText::Places& places, std::int64_t& steps,
                 const std::function<void(std::int32_t, const GrammarText::Places&)>& met) {
  const auto& nodes = trie.nodes();
  if (begin == end) return;
  const std::int32_t top = nodes[static_cast<std::size_t>(begin)].depth;
  std::vector<GrammarText::Places> path{places};  // in front of each depth's byte
  for (std::int32_t i = begin; i < end;) {
    const TokenTrie::Node& node = nodes[static_cast<std::size_t>(i)];
    path.resize(static_cast<std::size_t>(node.depth - top) + 1);
    const std::int64_t looked_at = text.looked_at();
    path.push_back(text.behind(path.back(), node.byte));
    steps -= 1 + text.looked_at() - looked_at;
    if (steps < 0)
      fail(Exit::bad_data, "too much may follow in the grammar for its tokens to be found");
    if (!path.back().none()) met(i, path.back());
    i = path.back().all.empty() ? node.past : i + 1;
  }
}

static void allow(TokenMask& mask, std::span<const std::int32_t> tokens) {
  for (const std::int32_t id : tokens) mask.add(static_cast<std::size_t>(id));
}

const TokenGrammar::Inside& TokenGrammar::inside(Node node, std::int64_t& steps) const {
  if (const auto found = inside_.find(node); found != inside_.end()) return found->second;
  Inside inside{.stay = TokenMask(trie_.vocab_size()), .leave = {}};
  GrammarText text(grammar_);
  walk(trie_, text, 0, static_cast<std::int32_t>(trie_.nodes().size()),
       {.all = {{.node = node}}, .whole = false}, steps,
       [&](std::int32_t at, const GrammarText::Places& places) {
         if (places.whole) inside.leave.push_back(at);
         if (!places.all.empty())
           allow(inside.stay, trie_.tokens(trie_.nodes()[static_cast<std::size_t>(at)]));
       });
  return inside_.emplace(node, std::move(inside)).first->second;
}

// With the rules that are not whole around the place's: what comes behind each place where its own
// may be whole.
TokenMask TokenGrammar::around(GrammarText& text, const GrammarText::Place& place,
                               std::int64_t& steps) const {
  const Inside& own = inside(place.node, steps);
  TokenMask mask = own.stay;
  const GrammarText::Places behind = text.behind_rule(place.stack);
  if (behind.none()) return mask;
  for (const std::int32_t at : own.leave) {
    const TokenTrie::Node& node = trie_.nodes()[static_cast<std::size_t>(at)];
    allow(mask, trie_.tokens(node));
    walk(trie_, text, at + 1, node.past, behind, steps,
         [&](std::int32_t below, const GrammarText::Places&) {
           allow(mask, trie_.tokens(trie_.nodes()[static_cast<std::size_t>(below)]));
         });
  }
  return mask;
}

void TokenGrammar::add_allowed(GrammarText& text, const GrammarText::Place& place, TokenMask& to,
                               std::int64_t& steps) const {
  std::vector<Node> key = text.returns(place.stack);
  key.push_back(place.node);
  const std::lock_guard lock(mutex_);
  if (inside_.size() >= kMostKept) inside_.clear();
  if (around_.size() >= kMostKept) around_.clear();
  auto found = around_.find(key);
  if (found == around_.end()) {
    TokenMask mask = around(text, place, steps);
    found = around_.emplace(std::move(key), std::move(mask)).first;
  }
  to |= found->second;
}

TokenMask GrammarMatch::allowed() {
  TokenMask mask(grammar_->trie().vocab_size());
  std::int64_t steps = TokenGrammar::kMostSteps;
  for (const GrammarText::Place& place : places_.all)
    grammar_->add_allowed(text_, place, mask, steps);
  return mask;
}

void GrammarMatch::take(std::int32_t token) {
  for (const char c : grammar_->trie().bytes(token))
    places_ = text_.behind(places_, static_cast<std::uint8_t>(c));
  if (places_.none()) fail(Exit::internal, "token ", token, " does not fit the grammar");
}

}  // namespace mt
