#include "text/bpe/rank_file.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "base/allowance.h"
#include "base/error.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "text/bpe/base64.h"
#include "text/bpe/tik_tokenizer.h"

namespace mt {
namespace {

// Collects tokens in the order of their ranks.  `where` is for errors: "PATH:LINE" or "PATH: token
// 7".
class Ranks {
 public:
  Ranks(const std::string& path, std::size_t limit) : path_(path), limit_(limit) {}

  bool full() const { return tokens_.size() >= limit_; }
  std::size_t size() const { return tokens_.size(); }

  void add(const std::string& where, std::string_view base64, std::int64_t rank) {
    std::optional<std::string> token = from_base64(base64);
    if (!token) fail(Exit::bad_data, where, ": \"", base64, "\" is not the base64 of any bytes");
    if (rank != static_cast<std::int64_t>(size()))
      fail(Exit::bad_data, where, ": rank ", rank, ", expected ", size());
    if (token->size() > TikTokenizer::kMaxTokenBytes)
      fail(Exit::bad_data, where, ": a token of ", token->size(), " bytes, expected at most ",
           TikTokenizer::kMaxTokenBytes);
    if (!known_.insert(*token).second) fail(Exit::bad_data, where, ": the token is there twice");
    tokens_.push_back(std::move(*token));
  }

  std::vector<std::string> take() {
    for (int byte = 0; byte < 256; ++byte)
      if (!known_.contains(std::string(1, static_cast<char>(byte))))
        fail(Exit::bad_data, path_, ": byte ", byte, " is none of the first ", size(), " tokens");
    return std::move(tokens_);
  }

 private:
  const std::string& path_;
  std::size_t limit_;
  std::vector<std::string> tokens_;
  std::unordered_set<std::string> known_;
};

void add_objects(simdjson::dom::element vocabulary, const std::string& path, Ranks& ranks) {
  simdjson::dom::array list;
  if (vocabulary.get(list)) fail(Exit::bad_data, path, ": expected a list of tokens");
  for (const simdjson::dom::element element : list) {
    if (ranks.full()) return;
    const std::string where = concat(path, ": token ", ranks.size());
    simdjson::dom::object object;
    std::int64_t rank = 0;
    std::string_view bytes;
    simdjson::dom::element text;  // is not looked at: often null where the bytes are none
    if (element.get(object) || object.size() != 3 || object["rank"].get(rank) ||
        object["token_bytes"].get(bytes) || object["token_str"].get(text))
      fail(Exit::bad_data, where, ": expected \"rank\", \"token_bytes\" and \"token_str\"");
    ranks.add(where, bytes, rank);
    const bool in_order =
        rank >= 256 || from_base64(bytes) == std::string(1, static_cast<char>(rank));
    if (!in_order) fail(Exit::bad_data, where, ": expected the byte ", rank);
  }
}

// The first character that is no white space; NUL: there is none.
char first_of(std::string_view content) {
  const std::size_t at = content.find_first_not_of(" \t\r\n");
  return at == content.npos ? '\0' : content[at];
}

simdjson::dom::element parse(simdjson::dom::parser& parser, std::string_view content,
                             const std::string& path) {
  simdjson::dom::element root;
  Allowance(8 * content.size()).take_json(content, path);
  if (const auto error = parse_json(parser, content).get(root)) fail_json(content, path, error);
  return root;
}

void parse_lines(std::string_view content, const std::string& path, Ranks& ranks) {
  for (std::int64_t number = 1; !content.empty() && !ranks.full(); ++number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = concat(path, ":", number);
    const std::size_t blank = line.find(' ');
    std::int64_t rank = -1;
    const char* const last = line.data() + line.size();
    if (blank == line.npos || std::from_chars(line.data() + blank + 1, last, rank).ptr != last ||
        rank < 0)
      fail(Exit::bad_data, where, ": expected a token in base64, a space and its rank");
    ranks.add(where, line.substr(0, blank), rank);
  }
}

}  // namespace

bool is_rank_file(std::string_view content) {
  const std::string_view line = content.substr(0, std::min(content.find('\n'), content.size()));
  const std::size_t blank = line.find(' ');
  if (blank == line.npos || !from_base64(line.substr(0, blank))) return false;
  std::string_view rank = line.substr(blank + 1);
  if (rank.ends_with('\r')) rank.remove_suffix(1);
  return !rank.empty() && rank.find_first_not_of("0123456789") == rank.npos;
}

std::vector<std::string> parse_ranks(std::string_view content, const std::string& path,
                                     std::size_t limit) {
  const bool tekken = first_of(content) == '{';
  const std::string where = tekken ? concat(path, ": vocab") : path;
  Ranks ranks(where, limit);
  simdjson::dom::parser parser;
  if (tekken)
    add_objects(JsonObject(parse(parser, content, path), path).member("vocab"), where, ranks);
  else if (first_of(content) == '[')
    add_objects(parse(parser, content, path), where, ranks);
  else
    parse_lines(content, where, ranks);
  return ranks.take();
}

ByteBpe::Rules rank_rules(const std::vector<std::string>& tokens, std::int32_t first_id) {
  ByteBpe::Rules rules;
  rules.merges = BpeMerges(BpeMerges::Order::by_step);
  rules.symbol_ids.resize(tokens.size());
  std::iota(rules.symbol_ids.begin(), rules.symbol_ids.end(), first_id);
  std::vector<ByteBpe::Symbol> by_length(tokens.size()), symbols;
  std::iota(by_length.begin(), by_length.end(), 0);
  std::ranges::stable_sort(by_length, {}, [&](auto rank) { return tokens[rank].size(); });
  for (const ByteBpe::Symbol rank : by_length) {
    const std::string& token = tokens[rank];
    if (token.size() == 1) {
      rules.bytes[static_cast<unsigned char>(token[0])] = rank;
      continue;
    }
    symbols.clear();
    for (const char byte : token) symbols.push_back(rules.bytes[static_cast<unsigned char>(byte)]);
    rules.merges.apply(symbols);
    if (symbols.size() == 2)
      rules.merges.add(symbols[0], symbols[1], rank, rank);
    else
      rules.whole.emplace(token, rules.symbol_ids[rank]);
  }
  return rules;
}

}  // namespace mt
