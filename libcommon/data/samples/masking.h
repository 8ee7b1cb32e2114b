// Masking: which tokens of a sample of BERT or T5 a model must guess (Megatron-LM core_v0.12.1,
// megatron/core/datasets/masked_dataset.py, draw for draw).
//
// Words are what is masked: a token and those after it that begin with "##".  Starting from words
// in a drawn order, runs of 1 to max_ngram words are masked, of fewer where they would be too many
// tokens, until min(probability x target length, max(1, round(probability x tokens))) are.  How
// many words a run has is drawn with P(n) ~ 1 / n, or geometrically with p = 0.2 (SpanBERT:
// arXiv:1907.10529, section 3.1).  Not here, as no trainer of Megatron's asks for them: runs that
// favour length, parts of words, and permutation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/samples/numpy_random.h"
#include "text/tokenizer.h"

namespace mt {

// What samples need to know of a tokenizer.
struct WordPieces {
  SpecialTokens special;
  std::vector<bool> continues_word;  // by id, of the whole vocabulary
  std::int64_t vocab_size() const { return std::ssize(continues_word); }

  // Throws Exit::bad_config where the tokenizer lacks [CLS], [SEP], [MASK] or padding.
  static WordPieces of(const Tokenizer& tokenizer);
  // Throws Exit::bad_config where there are none that stand for T5's spans.
  void check_sentinels() const;
};

struct MaskingOptions {
  double probability = 0.15;  // of tokens that are masked, above 0 and below 1
  int max_ngram = 3;
  bool geometric = false;
  // 80 % of the masked tokens become [MASK], 10 % one drawn from the vocabulary, and 10 % stay;
  // else all become [MASK].
  bool some_random = true;
};

// Masked together: neighbouring words.  Positions in a sample, ascending, and what was there.
struct MaskedSpan {
  struct Token {
    std::int32_t position = 0, label = 0;
    bool operator==(const Token&) const = default;
  };
  std::vector<Token> tokens;
};

// Tokens, and a mask of them: 1, but 0 for padding.
void fill_padded(std::span<std::int32_t> into, std::span<const std::int32_t> tokens,
                 std::int32_t padding);
void fill_mask(std::span<std::int32_t> into, std::size_t ones);
void fill_positions(std::span<std::int32_t> into);  // 0, 1, 2, ...

// How many tokens of at most `tokens` are masked at most, with this probability.
std::int64_t most_masked(std::int64_t tokens, double probability);

class Masking {
 public:
  Masking(const WordPieces& pieces, const MaskingOptions& options);

  // Masks `tokens` in place and returns what was masked, in order of first positions.
  std::vector<MaskedSpan> mask(std::span<std::int32_t> tokens, std::int64_t target_length,
                               RandomState& random) const;

 private:
  struct Words;  // of a sample
  Words words_of(std::span<const std::int32_t> tokens) const;
  int draw_words(RandomState& random) const;
  void replace(std::int32_t& token, RandomState& random) const;

  const WordPieces& pieces_;
  MaskingOptions options_;
  std::vector<double> cumulative_;  // P(1), P(1) + P(2), ...
};

}  // namespace mt
