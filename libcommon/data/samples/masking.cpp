#include "data/samples/masking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "data/samples/split.h"

namespace mt {

WordPieces WordPieces::of(const Tokenizer& tokenizer) {
  WordPieces pieces{tokenizer.special_ids(), {}};
  const SpecialTokens& special = pieces.special;
  if (std::min({special.cls, special.sep, special.mask, special.pad}) < 0)
    fail(Exit::bad_config, "--tokenizer-type ", tokenizer.type(),
         ": has no tokens for masks and padding; expected BertWordPieceLowerCase, ",
         "BertWordPieceCase, SentencePieceTokenizer or a HuggingFaceTokenizer that has them");
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    pieces.continues_word.push_back(tokenizer.continues_word(id));
  return pieces;
}

void fill_padded(std::span<std::int32_t> into, std::span<const std::int32_t> tokens,
                 std::int32_t padding) {
  std::ranges::fill(into, padding);
  std::ranges::copy(tokens, into.begin());
}

void fill_mask(std::span<std::int32_t> into, std::size_t ones) {
  std::ranges::fill(into, 0);
  std::ranges::fill(into.first(ones), 1);
}

void fill_positions(std::span<std::int32_t> into) { std::iota(into.begin(), into.end(), 0); }

static double limit_of(std::int64_t tokens, double probability) {
  return std::max(1.0, std::nearbyint(static_cast<double>(tokens) * probability));
}

std::int64_t most_masked(std::int64_t tokens, double probability) {
  return static_cast<std::int64_t>(limit_of(tokens, probability));
}

void WordPieces::check_sentinels() const {
  if (special.extra.empty())
    fail(Exit::bad_config, "--vocab-extra-ids: required for T5's sentinels, usually 100");
}

// Word w has positions[begins[w]] to positions[begins[w + 1]], exclusive.  They need not be
// neighbours: a piece behind a [SEP] belongs to the word before it.
struct Masking::Words {
  std::vector<std::int32_t> positions, begins;
  std::size_t count() const { return begins.size() - 1; }
  std::span<const std::int32_t> run(std::size_t first, int words) const {
    const std::size_t end = std::min(first + static_cast<std::size_t>(words), count());
    return std::span(positions).subspan(static_cast<std::size_t>(begins[first]),
                                        static_cast<std::size_t>(begins[end] - begins[first]));
  }
};

Masking::Masking(const WordPieces& pieces, const MaskingOptions& options)
    : pieces_(pieces), options_(options) {
  std::vector<double> weights;
  for (int n = 1; n <= options.max_ngram; ++n) weights.push_back(1.0 / n);
  cumulative_ = normalized(normalized(weights));  // twice, as upstream
  std::partial_sum(cumulative_.begin(), cumulative_.end(), cumulative_.begin());
  for (double& sum : cumulative_) sum /= cumulative_.back();
}

Masking::Words Masking::words_of(std::span<const std::int32_t> tokens) const {
  Words words;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t token = tokens[i];
    if (token == pieces_.special.cls || token == pieces_.special.sep) continue;
    if (!pieces_.continues_word[static_cast<std::size_t>(token)] || words.begins.empty())
      words.begins.push_back(static_cast<std::int32_t>(words.positions.size()));
    words.positions.push_back(static_cast<std::int32_t>(i));
  }
  words.begins.push_back(static_cast<std::int32_t>(words.positions.size()));
  return words;
}

int Masking::draw_words(RandomState& random) const {
  if (options_.geometric)
    return static_cast<int>(std::min<std::int64_t>(random.geometric(0.2), options_.max_ngram));
  const double drawn = random.random();
  const auto above = std::upper_bound(cumulative_.begin(), cumulative_.end(), drawn);
  return static_cast<int>(above - cumulative_.begin()) + 1;
}

void Masking::replace(std::int32_t& token, RandomState& random) const {
  if (!options_.some_random || random.random() < 0.8)
    token = pieces_.special.mask;
  else if (random.random() >= 0.5)
    token = static_cast<std::int32_t>(random.randint(0, pieces_.vocab_size()));
}

std::vector<MaskedSpan> Masking::mask(std::span<std::int32_t> tokens, std::int64_t target_length,
                                      RandomState& random) const {
  const double limit = std::min(options_.probability * static_cast<double>(target_length),
                                limit_of(std::ssize(tokens), options_.probability));
  const Words words = words_of(tokens);
  std::vector<std::size_t> order(words.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(std::span(order));
  std::vector<bool> is_masked(tokens.size());
  std::size_t masked = 0;
  std::vector<MaskedSpan> spans;
  for (const std::size_t word : order) {
    if (static_cast<double>(masked) >= limit) break;
    const auto fits = [&](int run) {
      return limit >= static_cast<double>(masked + words.run(word, run).size());
    };
    int run = draw_words(random);
    while (run > 0 && !fits(run)) --run;
    const auto positions = run > 0 ? words.run(word, run) : std::span<const std::int32_t>();
    if (positions.empty() || std::ranges::any_of(positions, [&](std::int32_t at) {
          return is_masked[static_cast<std::size_t>(at)];
        }))
      continue;
    MaskedSpan& span = spans.emplace_back();
    for (const std::int32_t position : positions) {
      const auto at = static_cast<std::size_t>(position);
      is_masked[at] = true;
      span.tokens.push_back({position, tokens[at]});
      replace(tokens[at], random);
    }
    masked += positions.size();
  }
  std::ranges::sort(spans, {}, [](const MaskedSpan& span) { return span.tokens.front().position; });
  return spans;
}

}  // namespace mt
