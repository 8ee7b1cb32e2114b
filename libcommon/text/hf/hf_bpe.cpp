#include "text/hf/hf_bpe.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/json_object.h"
#include "base/utf8.h"
#include "text/bpe/bpe_merges.h"
#include "text/bpe/byte_bpe.h"
#include "text/bpe/byte_map.h"
#include "text/hf/hf_word_model.h"

namespace mt {
namespace {

// --- The file. ---

struct Merge {
  std::string_view left, right;
};

// "LEFT RIGHT", or in newer files ["LEFT","RIGHT"].
std::optional<Merge> parse_merge(simdjson::dom::element element) {
  std::string_view text;
  simdjson::dom::array pair;
  Merge merge;
  if (!element.get(text)) {
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) return std::nullopt;
    return Merge{text.substr(0, space), text.substr(space + 1)};
  }
  if (element.get(pair) || pair.size() != 2 || pair.at(0).get(merge.left) ||
      pair.at(1).get(merge.right))
    return std::nullopt;
  return merge;
}

std::vector<Merge> read_merges(const JsonObject& model) {
  simdjson::dom::array array;
  if (model.member("merges").get(array)) model.refuse("\"merges\": expected an array");
  std::vector<Merge> merges;
  for (const simdjson::dom::element element : array) {
    if (std::string_view text; !element.get(text) && text.starts_with("#version")) continue;
    const auto merge = parse_merge(element);
    if (!merge) model.refuse("\"merges\": ", simdjson::minify(element), ", expected two tokens");
    merges.push_back(*merge);
  }
  return merges;
}

// Tokens are symbols of the same number.  A merge's right side loses the prefix of what goes on.
BpeMerges make_merges(const JsonObject& model, const std::vector<Merge>& merges,
                      const HfVocabulary& vocabulary, std::string_view prefix) {
  BpeMerges result(BpeMerges::Order::by_step);
  const auto symbol = [&](std::string_view token) {
    const auto found = vocabulary.ids.find(token);
    if (found == vocabulary.ids.end())
      model.refuse("\"merges\": ", json_quoted(token), " is no token of the vocabulary");
    return static_cast<BpeMerges::Symbol>(found->second);
  };
  for (const auto& [left, right] : merges) {
    const BpeMerges::Symbol first = symbol(left), second = symbol(right);
    result.add(first, second,
               symbol(concat(left, right.substr(std::min(prefix.size(), right.size())))));
  }
  return result;
}

struct Settings {
  std::string prefix, suffix;  // of characters that go on with a word, and of the last one
  std::optional<std::int32_t> unknown;
  bool byte_fallback, fuse_unknown, ignore_merges;
};

Settings read_settings(const JsonObject& model, const HfVocabulary& vocabulary) {
  if (model.has("dropout"))
    if (double share = 0; model.member("dropout").get(share) || share != 0)
      model.refuse("\"dropout\": ", simdjson::minify(model.member("dropout")),
                   " would give other tokens each time; expected null");
  Settings settings{.prefix = std::string(model.text_or("continuing_subword_prefix", "")),
                    .suffix = std::string(model.text_or("end_of_word_suffix", "")),
                    .unknown = std::nullopt,
                    .byte_fallback = model.flag_or("byte_fallback", false),
                    .fuse_unknown = model.flag_or("fuse_unk", false),
                    .ignore_merges = model.flag_or("ignore_merges", false)};
  if (model.has("unk_token")) {
    const auto token = vocabulary.ids.find(model.text("unk_token"));
    if (token == vocabulary.ids.end())
      model.refuse("\"unk_token\": ", json_quoted(model.text("unk_token")),
                   " is no token of the vocabulary");
    settings.unknown = token->second;
  }
  return settings;
}

// --- Bytes. ---

class BytesBpe : public HfModel {
 public:
  explicit BytesBpe(ByteBpe::Rules rules) : bpe_(std::move(rules)) {}
  void encode(const HfWords& words, std::vector<std::int32_t>& ids) const override {
    bpe_.encode(words.text, words.ends, ids);
  }
  void encode(std::string_view text, Splitter split,
              std::vector<std::int32_t>& ids) const override {
    bpe_.encode(text, split, ids);
  }

 private:
  ByteBpe bpe_;
};

std::unique_ptr<HfModel> make_bytes_bpe(BpeMerges merges, const Settings& settings,
                                        const HfVocabulary& vocabulary) {
  ByteBpe::Rules rules{.merges = std::move(merges)};
  for (int byte = 0; byte < 256; ++byte) {
    const auto token = vocabulary.ids.find(to_byte_chars(std::string(1, static_cast<char>(byte))));
    rules.bytes[byte] = token == vocabulary.ids.end() ? ByteBpe::kDropped
                                                      : static_cast<ByteBpe::Symbol>(token->second);
  }
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    rules.symbol_ids.push_back(static_cast<std::int32_t>(id));
    if (settings.ignore_merges)
      if (auto bytes = from_byte_chars(vocabulary.tokens[id]))
        rules.whole.emplace(std::move(*bytes), static_cast<std::int32_t>(id));
  }
  return std::make_unique<BytesBpe>(std::move(rules));
}

// --- Characters. ---

constexpr std::string_view kSpaceMarkText = "\xE2\x96\x81";  // U+2581

class CharacterBpe : public HfWordModel {
 public:
  CharacterBpe(BpeMerges merges, const Settings& settings, const HfVocabulary& vocabulary,
               bool cut_at_marks)
      : merges_(std::move(merges)), settings_(settings), cut_at_marks_(cut_at_marks) {
    for (const auto& [token, id] : vocabulary.ids) {
      std::size_t end = 0;
      const char32_t point = token.empty() ? 0 : next_code_point(token, end);
      if (!token.empty() && end == token.size()) characters_.emplace(point, id);
    }
    if (decorates()) tokens_ = vocabulary.ids;
    bytes_.assign(256, -1);
    if (settings.byte_fallback) bytes_ = hf_byte_tokens(vocabulary);
    if (settings.ignore_merges) whole_ = vocabulary.ids;
    merges_.prepare();
  }

  void encode(const HfWords& words, std::vector<std::int32_t>& ids) const override {
    if (!cut_at_marks_) return HfWordModel::encode(words, ids);
    HfWords parts{.text = words.text, .ends = {}};
    std::size_t at = 0;
    for (const std::size_t end : words.ends)
      for (; at < end; at = parts.ends.back()) parts.ends.push_back(part_end(parts.text, at, end));
    HfWordModel::encode(parts, ids);
  }

 private:
  // Marks and what follows them up to the next.
  static std::size_t part_end(std::string_view text, std::size_t at, std::size_t end) {
    text = text.substr(0, end);
    while (text.substr(at).starts_with(kSpaceMarkText)) at += kSpaceMarkText.size();
    return std::min(text.find(kSpaceMarkText, at), end);
  }

  void cut(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const override {
    if (const auto token = whole_.find(word); token != whole_.end())
      return ids.push_back(token->second);
    auto& symbols = scratch.symbols;
    symbols.clear();
    bool unknown = false;  // what is yet to be put: it waits for a character that is known
    const auto put_unknown = [&] {
      if (unknown) symbols.push_back(static_cast<BpeMerges::Symbol>(*settings_.unknown));
    };
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t before = at;
      const char32_t point = next_code_point(word, at);
      const std::string_view plain = word.substr(before, at - before);
      std::string decorated;
      if (decorates()) decorated = decorate(plain, before == 0, at == word.size());
      if (const auto token = decorates() ? decorated_id(decorated) : id_of(point); token >= 0) {
        put_unknown();
        unknown = false;
        symbols.push_back(static_cast<BpeMerges::Symbol>(token));
      } else if (!put_bytes(decorates() ? decorated : plain, symbols) && settings_.unknown) {
        if (!settings_.fuse_unknown) put_unknown();
        unknown = true;
      }
    }
    put_unknown();
    merges_.apply(symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  // Are characters looked up with what shows their place in the word?
  bool decorates() const { return !settings_.prefix.empty() || !settings_.suffix.empty(); }
  std::string decorate(std::string_view character, bool first, bool last) const {
    return concat(first ? "" : settings_.prefix, character, last ? settings_.suffix : "");
  }

  // -1: it is no token.
  std::int32_t id_of(char32_t character) const {
    const auto found = characters_.find(character);
    return found == characters_.end() ? -1 : found->second;
  }
  std::int32_t decorated_id(std::string_view character) const {
    const auto found = tokens_.find(character);
    return found == tokens_.end() ? -1 : found->second;
  }

  // False, and none is put, where a byte has no token.
  bool put_bytes(std::string_view character, std::vector<BpeMerges::Symbol>& symbols) const {
    const auto id_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
    if (std::ranges::any_of(character, [&](char byte) { return id_of(byte) < 0; })) return false;
    for (const char byte : character)
      symbols.push_back(static_cast<BpeMerges::Symbol>(id_of(byte)));
    return true;
  }

  BpeMerges merges_;
  Settings settings_;
  bool cut_at_marks_;
  std::unordered_map<char32_t, std::int32_t> characters_;
  StringMap<std::int32_t> tokens_;   // where characters are decorated
  std::vector<std::int32_t> bytes_;  // -1: the byte has no token
  StringMap<std::int32_t> whole_;    // words that are taken before any merge
};

// May words be cut before each U+2581 that another character precedes, because no merge joins what
// is there?  Not where unknown characters are dropped: what stood on both sides is joined then.
bool marks_begin_parts(const std::vector<Merge>& merges, const Settings& settings,
                       const HfVocabulary& vocabulary) {
  if (settings.ignore_merges || !settings.unknown || !vocabulary.ids.contains(kSpaceMarkText) ||
      !settings.prefix.empty() || !settings.suffix.empty())
    return false;
  const std::string& unknown = vocabulary.tokens[*settings.unknown];
  return std::ranges::none_of(merges, [&](const Merge& merge) {
    return merge.right.starts_with(kSpaceMarkText) &&
           (!merge.left.ends_with(kSpaceMarkText) || merge.left == unknown);
  });
}

}  // namespace

bool hf_bpe_takes_bytes(const JsonObject& model, const HfVocabulary& vocabulary) {
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.text_or(name, "").empty()) return false;
  if (!model.has("unk_token") && !model.flag_or("byte_fallback", false)) return true;
  for (const char16_t character : kByteChars) {
    std::string token;
    append_utf8(token, character);
    if (!vocabulary.ids.contains(token)) return false;
  }
  return true;
}

std::unique_ptr<HfModel> make_hf_bpe(const JsonObject& model, const HfVocabulary& vocabulary,
                                     bool bytes) {
  const Settings settings = read_settings(model, vocabulary);
  const std::vector<Merge> merges = read_merges(model);
  BpeMerges ranked = make_merges(model, merges, vocabulary, settings.prefix);
  if (bytes) return make_bytes_bpe(std::move(ranked), settings, vocabulary);
  return std::make_unique<CharacterBpe>(std::move(ranked), settings, vocabulary,
                                        marks_begin_parts(merges, settings, vocabulary));
}

}  // namespace mt
