#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"
#include "text/bert/bert_tokenizer.h"
#include "text/bert/bert_words.h"
#include "text/id_buffer.h"

namespace mt {
namespace {

// The class of an ASCII character; bytes from 0x80 on are `high`.
enum class ByteClass : std::uint8_t { word, space, dropped, punctuation, high };

const std::array<ByteClass, 256> kByteClass = [] {
  std::array<ByteClass, 256> classes;
  classes.fill(ByteClass::high);
  for (char32_t byte = 0; byte < 0x80; ++byte) {
    const BertClass kind = bert_class(byte);
    classes[byte] = kind == BertClass::space         ? ByteClass::space
                    : kind == BertClass::dropped     ? ByteClass::dropped
                    : kind == BertClass::punctuation ? ByteClass::punctuation
                                                     : ByteClass::word;
  }
  return classes;
}();

ByteClass byte_class(char byte) { return kByteClass[static_cast<unsigned char>(byte)]; }

char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte; }

}  // namespace

// One text being encoded.
class BertTokenizer::Run {
 public:
  Run(const BertTokenizer& tokenizer, PieceCache& cache, std::vector<std::int32_t>& ids)
      : tokenizer_(tokenizer), cache_(cache), ids_(ids) {}

  void encode(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      switch (byte_class(text[at])) {
        case ByteClass::space:
        case ByteClass::dropped:
          ++at;
          break;
        case ByteClass::punctuation:
          put_word(text, at, 1);
          ++at;
          break;
        default:
          at = encode_from(text, at);
      }
    }
    ids_.flush();
  }

 private:
  // A word of ASCII, or what else begins at `at`; returns where that ends.
  std::size_t encode_from(std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && byte_class(text[end]) == ByteClass::word) ++end;
    if (end < text.size() &&
        (byte_class(text[end]) == ByteClass::high || byte_class(text[end]) == ByteClass::dropped))
      return encode_stretch(text, at);
    if (!tokenizer_.lower_case_) {
      put_word(text, at, end - at);
    } else {
      word_.resize(end - at + kPadding);
      for (std::size_t i = at; i < end; ++i) word_[i - at] = lower(text[i]);
      put_word(word_, 0, end - at);
    }
    return end;
  }

  // What is between here and white space.
  std::size_t encode_stretch(std::string_view text, std::size_t at) {
    bool after_cased = ends_cased(text.substr(0, at));
    stretch_.clear();
    while (at < text.size()) {
      std::size_t next = at;
      const char32_t point = next_code_point(text, next);
      const BertClass kind = bert_class(point);
      if (kind == BertClass::space || kind == BertClass::separator) break;
      at = next;
      if (kind == BertClass::ideograph) {
        put_stretch(after_cased);
        stretch_ = point;
        put_stretch(false);
        after_cased = false;
      } else if (kind != BertClass::dropped) {
        stretch_ += point;
      }
    }
    put_stretch(after_cased);
    std::size_t next = at;
    if (at < text.size()) next_code_point(text, next);
    return next;
  }

  // Whether the text before a stretch, which is ASCII from the last white space on, ends with a
  // letter, but for what is case-ignorable or dropped.
  static bool ends_cased(std::string_view before) {
    for (; !before.empty(); before.remove_suffix(1)) {
      const char last = before.back();
      if (byte_class(last) == ByteClass::dropped) continue;
      if (byte_class(last) != ByteClass::word && byte_class(last) != ByteClass::punctuation)
        return false;
      const auto point = static_cast<char32_t>(static_cast<unsigned char>(last));
      // The answer for one character is `so_far` only if it is case-ignorable.
      if (bert_ends_cased({&point, 1}, false) == bert_ends_cased({&point, 1}, true))
        return bert_ends_cased({&point, 1}, false);
    }
    return false;
  }

  // Encodes the words of stretch_, which it clears.
  void put_stretch(bool after_cased) {
    if (tokenizer_.lower_case_) {
      bert_lower(stretch_, after_cased, lowered_);
      lowered_.swap(stretch_);
    }
    word_.clear();
    for (const char32_t point : stretch_) {
      if (bert_class(point) == BertClass::punctuation) {
        put_built_word();
        append_utf8(word_, point);
        put_built_word();
      } else {
        append_utf8(word_, point);
      }
    }
    put_built_word();
    stretch_.clear();
  }

  void put_built_word() {
    if (!word_.empty()) put_word(word_, 0, word_.size());
    word_.clear();
  }

  // Encodes the word text[at, at + length).
  void put_word(std::string_view text, std::size_t at, std::size_t length) {
    if (length > PieceCache::kMaxBytes) return cut(text.substr(at, length));
    const PieceCache::Key key = PieceCache::key(text, at, length);
    PieceCache::Entry& entry = cache_.entry(key);
    if (entry.key == key) return ids_.put(entry);
    cut(text.substr(at, length));
    if (pieces_.size() > PieceCache::kMaxIds) return;
    entry.key = key;
    entry.count = static_cast<std::int32_t>(pieces_.size());
    std::ranges::copy(pieces_, entry.ids.begin());
  }

  void cut(std::string_view word) {
    pieces_.clear();
    tokenizer_.word_piece_.encode(word, pieces_);
    for (const std::int32_t id : pieces_) ids_.put(id);
  }

  static constexpr std::size_t kPadding = 16;  // so that a key is made by one load

  const BertTokenizer& tokenizer_;
  PieceCache& cache_;
  IdBuffer ids_;
  std::string word_;
  std::u32string stretch_, lowered_;
  std::vector<std::int32_t> pieces_;  // of the last word that was cut
};

void BertTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  PieceCachePool::Loan cache(caches_);
  Run(*this, *cache, ids).encode(text);
}

}  // namespace mt
