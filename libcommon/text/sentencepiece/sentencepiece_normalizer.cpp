#include "text/sentencepiece/sentencepiece_normalizer.h"

#include <bit>

#include "text/bpe/char_masks.h"
#include "text/unicode/utf8_length.h"

namespace mt {

static constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
static constexpr int kMostPrefixes = 64;  // of nested user-defined pieces the shortest are seen

static ByteTrie trie_of(const std::vector<std::string_view>& keys) {
  std::vector<ByteTrie::Entry> entries;
  for (const std::string_view key : keys) entries.emplace_back(key, 0);
  return ByteTrie(std::move(entries));
}

SentencePieceNormalizer::SentencePieceNormalizer(CharsMap map, const Options& options)
    : map_(std::move(map)),
      options_(options),
      untouched_(trie_of(options.untouched)),
      has_untouched_(!options.untouched.empty()) {
  options_.untouched.clear();  // views of what need not outlive this call
  for (int byte = 0; byte < 0x80; ++byte) {
    ByteTrie::Node node = ByteTrie::kRoot;
    const char first = static_cast<char>(byte);
    plain_[byte] = !map_.touches_ascii(first) && !untouched_.step(node, first);
    if (byte >= 0x20 && byte < 0x7F) printable_plain_ &= plain_[byte];
  }
}

SentencePieceNormalizer::Prefix SentencePieceNormalizer::prefix(std::string_view text) const {
  if (has_untouched_) {
    const std::size_t length = untouched_.longest_prefix(text, kMostPrefixes).length;
    if (length != 0) return {text.substr(0, length), length};
  }
  if (const CharsMap::Match match = map_.longest_prefix(text); match.length != 0)
    return {match.replacement, match.length};
  const std::size_t length = valid_utf8_length(text, 0);
  if (length == 0) return {"\xEF\xBF\xBD", 1};
  return {text.substr(0, length), length};
}

void SentencePieceNormalizer::append(std::string_view normal, bool& after_space,
                                     std::string& out) const {
  while (after_space && normal.starts_with(' ')) normal.remove_prefix(1);
  if (normal.empty()) return;
  after_space = options_.remove_extra_whitespaces && normal.ends_with(' ');
  if (options_.escape_whitespaces)
    for (std::size_t mark; (mark = normal.find(kSpaceMark)) != normal.npos;) {
      out.append(normal.substr(0, mark)) += ' ';
      normal.remove_prefix(mark + kSpaceMark.size());
    }
  out += normal;
}

// One character, and neither a space nor the mark of one.
static bool is_plain_character(std::string_view text) {
  return text.size() == utf8_length(text[0]) && text[0] != ' ' && text != kSpaceMark;
}

// How many characters of `text`, looking at 64 bytes at a time, are plain and no space among them
// is to go.
std::size_t SentencePieceNormalizer::plain_run(std::string_view text, bool& after_space) const {
  std::size_t run = 0;
  while (text.size() - run > CharMasks::kBytes) {
    const CharMasks is(text.substr(run, CharMasks::kBytes));
    std::uint64_t ends = ~is.printable;
    if (options_.remove_extra_whitespaces)
      ends |= is.blank & (is.blank << 1 | std::uint64_t{after_space});
    auto length = static_cast<std::size_t>(std::countr_zero(ends));
    // A character before one that is longer may be mapped together with it.
    if (length > 0 && static_cast<unsigned char>(text[run + length]) >= 0x80) --length;
    if (length == 0) break;
    run += length;
    after_space = text[run - 1] == ' ' && options_.remove_extra_whitespaces;
    if (length < CharMasks::kBytes) break;
  }
  return run;
}

void SentencePieceNormalizer::normalize(std::string_view text, std::string& out) const {
  out.clear();
  if (options_.remove_extra_whitespaces)
    while (!text.empty()) {
      const Prefix first = prefix(text);
      if (first.text != " ") break;
      text.remove_prefix(first.length);
    }
  if (text.empty()) return;
  out.reserve(text.size() + 1);
  if (options_.add_dummy_prefix && !options_.whitespace_as_suffix) out += ' ';
  bool after_space = options_.remove_extra_whitespaces;
  std::size_t begin = 0;  // text[begin, at) is yet to be put, as it is
  for (std::size_t at = 0; at < text.size();) {
    // A run of plain characters, and no space among them that is to go.
    if (printable_plain_ && plain_[static_cast<unsigned char>(text[at])])
      at += plain_run(text.substr(at), after_space);
    for (; at < text.size() && plain_[static_cast<unsigned char>(text[at])]; ++at) {
      if (text[at] == ' ' && after_space) break;
      if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0x80) break;
      after_space = text[at] == ' ' && options_.remove_extra_whitespaces;
    }
    if (at == text.size()) break;
    const Prefix next = prefix(text.substr(at));
    if (next.text.data() == text.data() + at && is_plain_character(next.text)) {
      after_space = false;
    } else {
      out.append(text, begin, at - begin);
      append(next.text, after_space, out);
      begin = at + next.length;
    }
    at += next.length;
  }
  out.append(text, begin);
  if (options_.remove_extra_whitespaces) out.resize(out.find_last_not_of(' ') + 1);
  if (options_.add_dummy_prefix && options_.whitespace_as_suffix) out += ' ';
}

}  // namespace mt
