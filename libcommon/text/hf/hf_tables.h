// What Hugging Face's tokenizers 0.23.3 holds of Unicode, outside of regular expressions (for those
// see text/unicode/unicode.h).  The tables are made by scripts/make-hugging-face-tables.py from the
// library itself, whose parts do not agree on a version: normal forms are those of about 9.0, lower
// case and numbers those of 17.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mt {

enum class HfFlag : std::uint16_t {
  mark = 1 << 0,             // what StripAccents drops
  nonspacing_mark = 1 << 1,  // what BertNormalizer's strip_accents drops
  control = 1 << 2,          // what its clean_text drops
  punctuation = 1 << 3,
  numeric = 1 << 4,
  canonical = 1 << 5,   // NFD is another text; with compatible, NFKD yet another one
  compatible = 1 << 6,  //
  lower = 1 << 7,
  composes = 1 << 8,           // with a character before it, or NFC is another text
  extends = 1 << 9,            // a grapheme cluster (of a character before it that does not break)
  prepend = 1 << 10,           // begins the cluster of the character behind it
  breaks = 1 << 11,            // CR, LF and controls: always a cluster, but for CR LF
  pictograph = 1 << 12,        // joined by U+200D to one before it
  consonant = 1 << 13,         // joined by a linker to one before it
  linker = 1 << 14,            //
  conjunct_extends = 1 << 15,  // may stand before or behind a linker
};

namespace hf_tables {
struct Entry {
  std::uint16_t flags;
  std::uint8_t combining_class;
};
struct Mapping {
  char32_t point;
  std::uint16_t begin, size;  // in kPool
};
struct Pair {
  char32_t first, second, composed;
};
extern const std::uint16_t kBlock[];  // code point / 128 -> block
extern const std::uint8_t kKind[];    // 128 a block -> entry
extern const Entry kEntries[];
// In the order of their code points; Hangul syllables are mapped by rule.
extern const Mapping kCanonical[], kCompatible[], kLower[];
extern const std::size_t kCanonicalCount, kCompatibleCount, kLowerCount;
extern const char32_t kPool[];
extern const Pair kPairs[];  // in the order of (first, second)
extern const std::size_t kPairCount;
}  // namespace hf_tables

inline const hf_tables::Entry& hf_entry(char32_t point) {
  using namespace hf_tables;
  return kEntries[kKind[kBlock[point >> 7] * 128 + (point & 127)]];
}
inline bool hf_is(char32_t point, HfFlag flag) {
  return (hf_entry(point).flags & static_cast<std::uint16_t>(flag)) != 0;
}
inline std::uint8_t hf_combining_class(char32_t point) { return hf_entry(point).combining_class; }

}  // namespace mt
