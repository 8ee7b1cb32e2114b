#include "text/bpe/gpt2_files.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "base/utf8.h"
#include "text/bpe/byte_map.h"
#include "text/unicode/unicode.h"

namespace mt {

// A token as JSON writes it, so that it is on one line, without the quotes.
static std::string shown(std::string_view token) {
  const std::string quoted = JsonWriter().value(token).text();
  return quoted.substr(1, quoted.size() - 2);
}

TokenIds parse_vocabulary(std::string_view json, const std::string& path, std::int64_t holes) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const auto document = parse_json(parser, json);
  if (document.error()) fail_json(json, path, document.error(), "a vocabulary, as vocab.json");
  if (document.get(object)) fail(Exit::bad_data, path, ": expected a JSON object, token -> id");
  TokenIds ids;
  std::size_t entries = 0;
  for (const auto field : object) ++entries, static_cast<void>(field);
  const auto ids_below = static_cast<std::int64_t>(entries) + holes;
  std::vector<bool> taken(static_cast<std::size_t>(ids_below));
  ids.reserve(entries);
  for (const auto [token, value] : object) {
    std::int64_t id = 0;
    if (value.get(id) || id < 0 || id >= ids_below)
      fail(Exit::bad_data, path, ": token ", shown(token), ": id ", simdjson::minify(value),
           ", expected a number from 0 to ", ids_below - 1, ", for ", entries, " tokens");
    if (taken[id])
      fail(Exit::bad_data, path, ": token ", shown(token), ": id ", id, " is there twice");
    taken[id] = true;
    if (!ids.emplace(token, static_cast<std::int32_t>(id)).second)
      fail(Exit::bad_data, path, ": token ", shown(token), " is there twice");
  }
  return ids;
}

namespace {

// Overwrites `words`.
void split_words(std::string_view line, std::vector<std::string_view>& words) {
  words.clear();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t start = at;
    if (line[at] > ' ' && line[at] < 0x7F) {  // of ASCII
      ++at;
      continue;
    }
    if (!is_python_space(next_code_point(line, at))) continue;
    if (start > begin) words.push_back(line.substr(begin, start - begin));
    begin = at;
  }
  if (line.size() > begin) words.push_back(line.substr(begin));
}

// The next line of `text`, without its end (LF, CR LF or CR, as Python reads text files); nothing
// when no line end follows, which drops the last line of a file that does not end with one.
std::optional<std::string_view> take_line(std::string_view& text) {
  const auto found = std::ranges::find_if(text, [](char c) { return c == '\r' || c == '\n'; });
  if (found == text.end()) return std::nullopt;
  const auto end = static_cast<std::size_t>(found - text.begin());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + (text.substr(end, 2) == "\r\n" ? 2 : 1));
  return line;
}

class MergesParser {
 public:
  MergesParser(const std::string& path, const TokenIds& ids)
      : path_(path), ids_(ids), symbols_(ids.size(), kNone) {
    rules_.symbol_ids.reserve(256 + ids.size());
    for (int byte = 0; byte < 256; ++byte) {
      const std::string character = to_byte_chars(std::string(1, static_cast<char>(byte)));
      const auto token = ids.find(character);
      rules_.symbol_ids.push_back(token == ids.end() ? 0 : token->second);
      rules_.bytes[byte] = byte;
      if (token == ids.end())
        no_tokens_.emplace(character, byte);
      else
        symbols_[token->second] = byte;
    }
  }

  ByteBpe::Rules parse(std::string_view text) {
    if (!simdjson::validate_utf8(text.data(), text.size()))
      fail(Exit::bad_data, path_, ": not UTF-8");
    take_line(text);
    rules_.merges.reserve(static_cast<std::size_t>(std::ranges::count(text, '\n')));
    std::vector<std::string_view> words;
    for (line_ = 2; const auto line = take_line(text); ++line_) {
      split_words(*line, words);
      add(words);
    }
    return std::move(rules_);
  }

 private:
  void add(const std::vector<std::string_view>& words) {
    if (words.empty()) return;
    if (words.size() != 2)
      fail(Exit::bad_data, path_, ":", line_, ": ", words.size(), " words, expected two tokens");
    const ByteBpe::Symbol left = symbol(words[0], ids_.find(words[0]));
    const ByteBpe::Symbol right = symbol(words[1], ids_.find(words[1]));
    result_.assign(words[0]).append(words[1]);
    // A vocabulary has most results in the order of their merges.
    if (next_ == ids_.end() || next_->first != result_) next_ = ids_.find(result_);
    rules_.merges.add(left, right, symbol(result_, next_));
    if (next_ != ids_.end()) ++next_;
  }

  ByteBpe::Symbol symbol(std::string_view token, const TokenIds::Entry* id) {
    if (id == ids_.end()) {
      if (const auto byte = no_tokens_.find(token); byte != no_tokens_.end()) return byte->second;
      fail(Exit::bad_data, path_, ":", line_, ": ", token, " is no token of the vocabulary");
    }
    ByteBpe::Symbol& symbol = symbols_[id->second];
    if (symbol != kNone) return symbol;
    if (!from_byte_chars(token))
      fail(Exit::bad_data, path_, ":", line_, ": ", token, " has a character that is no byte's");
    symbol = static_cast<ByteBpe::Symbol>(rules_.symbol_ids.size());
    rules_.symbol_ids.push_back(id->second);
    return symbol;
  }

  static constexpr ByteBpe::Symbol kNone = -1;

  const std::string& path_;
  const TokenIds& ids_;
  std::int64_t line_ = 0;
  std::vector<ByteBpe::Symbol> symbols_;  // by id
  StringMap<ByteBpe::Symbol> no_tokens_;  // of bytes that have no id
  std::string result_;
  const TokenIds::Entry* next_ = ids_.begin();
  ByteBpe::Rules rules_;
};

}  // namespace

ByteBpe::Rules parse_merges(std::string_view text, const std::string& path, const TokenIds& ids) {
  return MergesParser(path, ids).parse(text);
}

}  // namespace mt
