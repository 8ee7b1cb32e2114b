#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace mt {

TextScore& TextScore::operator+=(const TextScore& other) {
  nll += other.nll;
  tokens += other.tokens;
  bytes += other.bytes;
  return *this;
}

double TextScore::perplexity() const { return std::exp(nats_per_token()); }

double TextScore::bits_per_byte() const {
  return nll / std::numbers::ln2 / static_cast<double>(bytes);
}

TextScore score_text(std::span<const std::int32_t> tokens, std::int64_t bytes, std::int32_t eod,
                     std::int64_t window, const Score& score) {
  std::vector<std::int32_t> ids{eod};
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  TextScore result{.tokens = static_cast<std::int64_t>(tokens.size()), .bytes = bytes};
  std::vector<double> nll;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += static_cast<std::size_t>(window)) {
    const std::size_t count = std::min(static_cast<std::size_t>(window), ids.size() - 1 - begin);
    nll.resize(count);
    score(std::span(ids).subspan(begin, count + 1), nll);
    for (const double value : nll) result.nll += value;
  }
  if (!std::isfinite(result.nll)) fail(Exit::bad_data, "the model's probabilities are not numbers");
  return result;
}

}  // namespace mt
