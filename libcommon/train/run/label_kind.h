// What is to be said of whole sequences: labels, of what kind and how many.
#pragma once

#include <cstdint>

namespace mt {

// How labels are said, and with that what is learnt of them.
enum class LabelKind : std::uint8_t {
  one,      // one of several
  numbers,  // one number, or some: a regression
  many,     // for each of several whether it holds
};

struct LabelledSequences {
  std::int64_t seq_length = 0;  // tokens
  std::int64_t labels = 1;      // scores of a sequence
  LabelKind kind = LabelKind::one;
  std::int64_t choices = 1;  // sequences of a sample
};

}  // namespace mt
