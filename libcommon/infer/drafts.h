// Drafts: guesses of the tokens that follow texts, which a model then sees all at once
// (speculative decoding).  A guess only saves time: a token of it counts where the model, having
// seen those before it, chooses the same one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "infer/cached_pass.h"

namespace mt {

class Drafts {
 public:
  struct Text {
    std::int64_t sequence;  // its number, which another text may have later
    std::span<const std::int32_t> ids;
    std::int64_t most;  // tokens to guess
  };

  virtual ~Drafts() = default;
  // Guesses at most so many tokens of each text as it says, and fewer where nothing is known.
  virtual std::vector<std::vector<std::int32_t>> guess(std::span<const Text> texts) = 0;
  // The sequence's text has ended.
  virtual void forget(std::int64_t /*sequence*/) {}
};

// What followed the latest earlier occurrence of the text's last tokens in itself: of the last
// four, where they have been there before, else of three, two or one (n-gram look-up).
std::unique_ptr<Drafts> ngram_drafts();

// The likeliest tokens of another, smaller model, which keeps what it has seen of each sequence.
// Exit::bad_config, of --draft-load, for a model with an encoder, or whose layers pass states on.
std::unique_ptr<Drafts> model_drafts(const Model& model, const CachedPass::Options& options);

// What the model's own layers that predict further tokens say, as many tokens as it has of these,
// to texts of which it has seen all but the last token: `pass` is that by which it sees them, and
// its sequences are the texts'.
std::unique_ptr<Drafts> further_drafts(CachedPass& pass, std::int64_t layers);

}  // namespace mt
