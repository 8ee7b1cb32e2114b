// Guesses: what an encoder model says of tokens that it does not see: a BERT of masked ones, a T5
// of spans that were cut out; and the samples that it says it of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/samples/sample_kinds.h"
#include "tensor/buffer.h"
#include "tensor/fields.h"
#include "tensor/tensor.h"

namespace mt {

struct GuessScore {
  double nll = 0;                      // sum of -log p(token), in nats
  std::int64_t tokens = 0, right = 0;  // right: those that are the likeliest of all
  GuessScore& operator+=(const GuessScore& other);
  double nats_per_token() const { return nll / static_cast<double>(tokens); }
  double perplexity() const;
  double accuracy() const { return static_cast<double>(right) / static_cast<double>(tokens); }
};

// The score of the tokens that are said with these logits, [tokens, vocabulary] in host memory, a
// row for each; there may be none.  Of tokens that are equally likely the first counts.
// Exit::bad_data for what is no number.
GuessScore score_guesses(ConstTensor logits, std::span<const std::int32_t> tokens);

// A BERT's sample: what of it is asked, and what stood there.
struct MaskedText {
  std::vector<std::int32_t> ids, types, asked, tokens;
};
// A T5's: what its encoder and its decoder read, and what is to be said behind each of the
// decoder's tokens.
struct CutText {
  std::vector<std::int32_t> read, ids, tokens;
};

// GuessSamples: one epoch of the samples of a file of sentences, as `mt-preprocess samples --split
// 1,0,0` makes them.
class GuessSamples {
 public:
  // It and `pieces` must outlive this.
  GuessSamples(SampleType type, const std::string& prefix, const WordPieces& pieces,
               std::int64_t seq_length, const MaskOptions& masks, std::uint32_t seed);
  ~GuessSamples();

  std::int64_t size() const;
  MaskedText masked(std::int64_t k);
  CutText cut(std::int64_t k);

 private:
  TokenFiles files_;
  std::unique_ptr<SampleKind> kind_;
  std::unique_ptr<Samples> samples_;
  Buffer storage_;
  Fields sample_;
};

// The pseudo-perplexity of a text (Salazar et al. 2020: arXiv:1910.14659, eq. 1 and 2): each of its
// tokens is masked in turn, and all others are seen, in windows of at most so many tokens between
// [CLS] and [SEP].  Calls `visit` for each.
void mask_in_turn(std::span<const std::int32_t> tokens, const SpecialTokens& special,
                  std::int64_t window, const std::function<void(MaskedText)>& visit);

}  // namespace mt
