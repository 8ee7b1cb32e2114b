// ItemRange: items [begin, end) of a token file: sequences for GPT, documents for BERT and T5.
#pragma once

#include <cstdint>

namespace mt {

struct ItemRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const ItemRange&) const = default;
};

}  // namespace mt
