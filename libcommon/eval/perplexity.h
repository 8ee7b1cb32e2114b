// Perplexity of texts under a language model that is given as a function.
//   nll = sum over tokens of -log p(token | those before it in its window), in nats
// A text is its tokens with the end-of-document token in front, which is context and is not scored.
// Windows of `window` tokens follow each other without overlap; the last token of one is the first
// context of the next.  Every token is scored once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace mt {

// nll[i] = -log p(ids[i + 1] | ids[0..i]).
using Score = std::function<void(std::span<const std::int32_t> ids, std::span<double> nll)>;

struct TextScore {
  double nll = 0;
  std::int64_t tokens = 0, bytes = 0;
  TextScore& operator+=(const TextScore& other);
  double nats_per_token() const { return nll / static_cast<double>(tokens); }
  double perplexity() const;
  double bits_per_byte() const;
};

// Exit::bad_data if the score is not finite.
TextScore score_text(std::span<const std::int32_t> tokens, std::int64_t bytes, std::int32_t eod,
                     std::int64_t window, const Score& score);

}  // namespace mt
