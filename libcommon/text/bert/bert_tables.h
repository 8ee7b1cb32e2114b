// What BERT's tokenizer asks of Unicode: Python 3.11's, which is 14.0.  The tables are made by
// scripts/make-unicode-tables.py --bert.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mt {

enum class BertClass : std::uint8_t {
  kept,
  space,         // general category Zs, tab, line feed, carriage return
  separator,     // what else str.split() splits at: U+2028, U+2029
  dropped,       // U+0000, U+FFFD, categories Cc and Cf
  punctuation,   // categories P*, and of ASCII all that is neither letter, number nor space
  ideograph,     // a word by itself
  mark,          // category Mn; of a combining class other than 0
  starter_mark,  // and of class 0
};

namespace bert_tables {
struct Mapping {
  char32_t point;
  std::uint16_t begin, size;  // in kPool
};
struct Range {
  char32_t first, last;
};
struct Ordered {
  char32_t point;
  std::uint8_t combining_class;
};
extern const std::uint8_t kBlock[];  // code point / 256 -> block
extern const std::uint8_t kClass[];  // 256 a block: the class, and 8 where kMapped has it
// Canonical decomposition of the lower case, where that is another text (but for Hangul).
extern const Mapping kMapped[];
extern const std::size_t kMappedCount;
extern const char32_t kPool[];
extern const Range kCased[], kIgnorable[];  // as str.lower() asks it around a capital sigma
extern const std::size_t kCasedCount, kIgnorableCount;
extern const Ordered kOrdered[];  // no marks, yet of a combining class other than 0
extern const std::size_t kOrderedCount;
}  // namespace bert_tables

inline std::uint8_t bert_entry(char32_t point) {
  return bert_tables::kClass[bert_tables::kBlock[point >> 8] * 256 + (point & 255)];
}
inline BertClass bert_class(char32_t point) {
  return static_cast<BertClass>(bert_entry(point) & 7);
}
// Is its lower case, or the decomposition of that, another text?
inline bool bert_mapped(char32_t point) { return (bert_entry(point) & 8) != 0; }

}  // namespace mt
