#include "data/samples/mock_tokens.h"

#include <numeric>

#include "data/samples/numpy_generator.h"

namespace mt {

MockTokens::MockTokens(std::int64_t vocab_size, std::int64_t eod)
    : lengths_(100000), vocab_size_(vocab_size), eod_(eod) {
  NumpyGenerator random(0);
  for (std::int32_t& length : lengths_) length = static_cast<std::int32_t>(random.integer(1, 4096));
}

std::int64_t MockTokens::tokens(ItemRange sequences) const {
  return std::accumulate(lengths_.begin() + sequences.begin, lengths_.begin() + sequences.end,
                         std::int64_t{0});
}

void MockTokens::read(std::int64_t sequence, std::int64_t offset,
                      std::span<std::int64_t> out) const {
  const std::int64_t last = length(sequence) - 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t at = offset + static_cast<std::int64_t>(i);
    out[i] = at == last ? eod_ : (at + 1) % vocab_size_;
  }
}

}  // namespace mt
