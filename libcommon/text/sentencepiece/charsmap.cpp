#include "text/sentencepiece/charsmap.h"

#include "base/error.h"
#include "base/utf8.h"

namespace mt {

// A unit of the double array: bits 0 to 7 the byte that leads to it; 8: is there a value; 9: is the
// offset to its children shifted by 8; from 10 the offset. With bit 31: the value, in bits 0 to 30.
static constexpr std::uint32_t kIsValue = 1u << 31;
static bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
static std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

static std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

CharsMap::CharsMap(std::string_view blob, const std::string& where) {
  if (blob.empty()) return;
  const auto bad = [&](const auto&... parts) {
    fail(Exit::bad_data, where, "the map of characters: ", parts...);
  };
  if (blob.size() <= 4) bad(blob.size(), " bytes, expected a trie and replacements");
  const std::uint32_t size = read_u32(blob);
  blob.remove_prefix(4);
  if (size >= blob.size() || size == 0 || size % 1024 != 0)
    bad("a trie of ", size, " bytes in ", blob.size(), ", expected a multiple of 1024");
  for (std::size_t at = 0; at < size; at += 4) units_.push_back(read_u32(blob.substr(at, 4)));
  replacements_ = blob.substr(size);
  if (replacements_.back() != '\0' || !is_valid_utf8(replacements_))
    bad("replacements that are not UTF-8 ended by NUL");
  if ((units_[0] & (kIsValue | 0x1FF)) != 0 || offset(units_[0]) == 0) bad("a trie without a root");
  for (std::uint32_t i = 0; i < units_.size(); ++i) {
    const std::uint32_t unit = units_[i], first = i ^ offset(unit);
    if ((unit & kIsValue) != 0) {
      const std::uint32_t value = unit & ~kIsValue;
      if (value >= replacements_.size() || (replacements_[value] & 0xC0) == 0x80)
        bad("unit ", i, " of the trie names no replacement");
    } else if ((first | 0xFF) >= units_.size()) {
      bad("unit ", i, " of the trie leads out of it");
    } else if (has_value(unit) && (units_[first] & kIsValue) == 0) {
      bad("unit ", i, " of the trie has no value where one should be");
    }
  }
}

std::uint32_t CharsMap::child(std::uint32_t node, char byte) const {
  const auto label = static_cast<unsigned char>(byte);
  const std::uint32_t next = node ^ offset(units_[node]) ^ label;
  return (units_[next] & (kIsValue | 0xFF)) == label ? next : 0;
}

CharsMap::Match CharsMap::longest_prefix(std::string_view text, int at_most) const {
  Match match;
  if (units_.empty()) return match;
  std::uint32_t node = 0;
  for (std::size_t at = 0; at < text.size() && at_most > 0; ++at) {
    node = child(node, text[at]);
    if (node == 0) break;
    if (!has_value(units_[node])) continue;
    const std::uint32_t value = units_[node ^ offset(units_[node])] & ~kIsValue;
    match = {at + 1, replacements_.data() + value};
    --at_most;
  }
  return match;
}

bool CharsMap::touches_ascii(char byte) const {
  if (units_.empty()) return false;
  const std::uint32_t node = child(0, byte);
  if (node == 0) return false;
  if (has_value(units_[node])) return true;
  for (int next = 0; next < 0x80; ++next)
    if (child(node, static_cast<char>(next)) != 0) return true;
  return false;
}

}  // namespace mt
