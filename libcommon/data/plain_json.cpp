#include "data/plain_json.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include <simdjson.h>

namespace mt {
namespace {

// What `\x` stands for; 0: nothing.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> escapes{};
  for (const char c : {'"', '\\', '/'}) escapes[static_cast<unsigned char>(c)] = c;
  escapes['b'] = '\b';
  escapes['f'] = '\f';
  escapes['n'] = '\n';
  escapes['r'] = '\r';
  escapes['t'] = '\t';
  return escapes;
}();

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// A line from front to back, and the room that takes what its strings say.
class Cursor {
 public:
  Cursor(std::string_view line, char* room)
      : at_(line.data()), end_(line.data() + line.size()), room_(room) {}

  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool at_end() const { return at_ == end_; }
  bool ascii() const { return _mm_movemask_epi8(seen_) == 0; }  // all strings so far

  // The string behind a quote, to the one that closes it.
  std::optional<std::string_view> string() {
    const char* const begin = room_;
    while (at_ < end_) {
      const std::uint32_t special = copy();
      if (special == 0) {
        at_ += kStep;
        room_ += kStep;
        continue;
      }
      at_ += std::countr_zero(special);
      room_ += std::countr_zero(special);
      if (at_ >= end_) break;
      if (*at_ == '"') {
        ++at_;
        return std::string_view(begin, static_cast<std::size_t>(room_ - begin));
      }
      if (!escape()) break;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kStep = PlainJsonReader::kPadding;

  // Copies kStep bytes and says which of them are quotes, backslashes or control characters.
  std::uint32_t copy() {
    std::uint32_t special = 0;
    for (int part = 0; part < kStep; part += 16) {
      const __m128i chars = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at_ + part));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(room_ + part), chars);
      seen_ = _mm_or_si128(seen_, chars);
      const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(chars, _mm_set1_epi8(0x1F)), chars);
      const __m128i quote = _mm_cmpeq_epi8(chars, _mm_set1_epi8('"'));
      const __m128i backslash = _mm_cmpeq_epi8(chars, _mm_set1_epi8('\\'));
      const __m128i any = _mm_or_si128(control, _mm_or_si128(quote, backslash));
      special |= static_cast<std::uint32_t>(_mm_movemask_epi8(any)) << part;
    }
    return special;
  }

  // Writes what the escape here stands for; false where there is none, or half a surrogate pair.
  bool escape() {
    if (*at_ != '\\' || end_ - at_ < 2) return false;
    if (at_[1] != 'u') {
      *room_ = kEscapes[static_cast<unsigned char>(at_[1])];
      at_ += 2;
      return *room_++ != '\0';
    }
    std::uint32_t point = unit();
    if (point >= 0xD800 && point < 0xDC00) {
      const std::uint32_t low = unit();
      if (low < 0xDC00 || low > 0xDFFF) return false;
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    } else if (point >= 0xDC00 && point <= 0xDFFF) {
      return false;
    }
    if (point == kNone) return false;
    write(point);
    return true;
  }

  // The UTF-16 unit of the \uXXXX here; kNone where there is no such thing.
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  std::uint32_t unit() {
    if (end_ - at_ < 6 || at_[0] != '\\' || at_[1] != 'u') return kNone;
    int value = 0;
    for (int i = 2; i < 6; ++i) value = value < 0 ? value : digit_value(at_[i]) | value << 4;
    at_ += 6;
    return value < 0 ? kNone : static_cast<std::uint32_t>(value);
  }

  void write(std::uint32_t point) {
    const auto trail = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3F)); };
    if (point < 0x80) {
      *room_++ = static_cast<char>(point);
    } else if (point < 0x800) {
      *room_++ = static_cast<char>(0xC0 | point >> 6);
      *room_++ = trail(0);
    } else if (point < 0x10000) {
      *room_++ = static_cast<char>(0xE0 | point >> 12);
      *room_++ = trail(6);
      *room_++ = trail(0);
    } else {
      *room_++ = static_cast<char>(0xF0 | point >> 18);
      *room_++ = trail(12);
      *room_++ = trail(6);
      *room_++ = trail(0);
    }
  }

  const char* at_;
  const char* end_;
  char* room_;
  __m128i seen_ = _mm_setzero_si128();
};

}  // namespace

bool PlainJsonReader::read(std::string_view line, const std::vector<std::string>& keys,
                           std::vector<std::vector<std::string_view>>& texts) {
  if (capacity_ < line.size() + kPadding) {  // no escape is shorter than what it stands for
    capacity_ = 2 * line.size() + kPadding;
    room_ = std::make_unique_for_overwrite<char[]>(capacity_);
  }
  found_.assign(keys.size(), false);
  Cursor cursor(line, room_.get());
  cursor.skip_blanks();
  if (!cursor.take('{')) return false;
  do {
    cursor.skip_blanks();
    if (!cursor.take('"')) return false;
    const auto key = cursor.string();
    cursor.skip_blanks();
    if (!key || !cursor.take(':')) return false;
    cursor.skip_blanks();
    if (!cursor.take('"')) return false;
    const auto text = cursor.string();
    if (!text) return false;
    cursor.skip_blanks();
    const auto wanted = std::find(keys.begin(), keys.end(), *key);
    if (wanted == keys.end()) continue;
    texts[static_cast<std::size_t>(wanted - keys.begin())].assign(1, *text);
    found_[static_cast<std::size_t>(wanted - keys.begin())] = true;
  } while (cursor.take(','));
  if (!cursor.take('}')) return false;
  cursor.skip_blanks();
  if (!cursor.at_end() || std::find(found_.begin(), found_.end(), false) != found_.end())
    return false;
  return cursor.ascii() || simdjson::validate_utf8(line.data(), line.size());
}

}  // namespace mt
