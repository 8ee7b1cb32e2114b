#include "data/corpus/plain_json.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <simdjson.h>

namespace mt {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Lines, the first of them from front to back, and the room that takes what its strings say.
class Cursor {
 public:
  Cursor(JsonCopier copier, std::string_view line, char* room)
      : copier_(copier), at_(line.data()), end_(line.data() + line.size()), room_(room) {}

  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view text) {
    if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(text))
      return false;
    at_ += text.size();
    return true;
  }
  bool at_line_end() const { return at_ == end_ || *at_ == '\n'; }
  const char* at() const { return at_; }
  bool ascii() const { return ascii_; }  // all strings so far

  // The string behind a quote, to the one that closes it.
  std::optional<std::string_view> string() {
    const char* const begin = room_;
    for (;;) {
      const JsonCopy copied = copier_(at_, end_, room_);
      at_ = copied.at;
      room_ = copied.room;
      ascii_ &= copied.ascii;
      if (at_ >= end_) break;
      if (*at_ == '"') {
        ++at_;
        return std::string_view(begin, static_cast<std::size_t>(room_ - begin));
      }
      if (!unicode_escape()) break;
    }
    return std::nullopt;
  }

 private:
  // Writes what the \uXXXX here stands for, or two of them; false where there is none, or half a
  // surrogate pair.
  bool unicode_escape() {
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

  JsonCopier copier_;
  const char* at_;
  const char* end_;
  char* room_;
  bool ascii_ = true;
};

// Whether all are printable characters of ASCII that stand for themselves.
bool needs_no_escape(std::string_view text) {
  return std::ranges::all_of(text,
                             [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

}  // namespace

PlainJsonReader::PlainJsonReader(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    keys_.push_back({key, needs_no_escape(key) ? key + '"' : std::string()});
}

std::optional<std::size_t> PlainJsonReader::read(
    std::string_view lines, std::vector<std::vector<std::string_view>>& texts) {
  if (capacity_ < lines.size() + kPadding) {  // no escape is shorter than what it stands for
    capacity_ = 2 * lines.size() + kPadding;
    room_ = std::make_unique_for_overwrite<char[]>(capacity_);
  }
  for (std::vector<std::string_view>& text : texts) text.clear();
  Cursor cursor(copier_, lines, room_.get());
  cursor.skip_blanks();
  if (!cursor.take('{')) return std::nullopt;
  do {
    cursor.skip_blanks();
    if (!cursor.take('"')) return std::nullopt;
    auto wanted = std::ranges::find_if(
        keys_, [&](const Key& key) { return !key.written.empty() && cursor.take(key.written); });
    if (wanted == keys_.end()) {
      const auto key = cursor.string();
      if (!key) return std::nullopt;
      wanted = std::ranges::find(keys_, *key, &Key::text);
    }
    cursor.skip_blanks();
    if (!cursor.take(':')) return std::nullopt;
    cursor.skip_blanks();
    if (!cursor.take('"')) return std::nullopt;
    const auto text = cursor.string();
    if (!text) return std::nullopt;
    cursor.skip_blanks();
    if (wanted == keys_.end()) continue;
    texts[static_cast<std::size_t>(wanted - keys_.begin())].assign(1, *text);
  } while (cursor.take(','));
  if (!cursor.take('}')) return std::nullopt;
  cursor.skip_blanks();
  const auto missing = [](const std::vector<std::string_view>& text) { return text.empty(); };
  if (!cursor.at_line_end() || std::ranges::any_of(texts, missing)) return std::nullopt;
  const auto size = static_cast<std::size_t>(cursor.at() - lines.data());
  if (!cursor.ascii() && !simdjson::validate_utf8(lines.data(), size)) return std::nullopt;
  return size;
}

}  // namespace mt
