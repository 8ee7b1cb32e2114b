// Sampling: the choice of the next token from logits, a function of the logits, the options and the
// place of the token alone (DESIGN D5), so that the same command gives the same text.
//
// As Megatron's sampling.py, in this order: the logits are divided by the temperature; top-k keeps
// the k largest and whatever equals the k-th; top-p keeps the likeliest tokens, of those left, up
// to and including the one that brings their probability over p; one of them is drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/command.h"

namespace mt {

struct SamplingOptions {
  double temperature = 1;  // 0: the likeliest token
  std::int64_t top_k = 0;  // 0: all; 1: the likeliest token
  double top_p = 0;        // 0 and 1: all
  std::uint64_t seed = 1234;
  void add_to(CommandLine& cl);
};

// The place of a token: which prompt of the run, which of its samples, which token of that.
struct TokenPlace {
  std::uint32_t prompt = 0, sample = 0, token = 0;
};

struct Candidate {
  std::int32_t id = 0;
  double weight = 0;  // proportional to its probability
  bool operator==(const Candidate&) const = default;
};

// What may be drawn; alone, if the likeliest token is to be taken, of equals the one with the
// smallest id.  Logits of which one is NaN or none is finite are Exit::bad_data.
std::vector<Candidate> candidates(std::span<const double> logits, const SamplingOptions& options);

// A token from [0, logits.size()).
std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options,
                          TokenPlace place);

// Log-probabilities of a token and of the `count` likeliest, by falling probability and then rising
// id, from logits as they are.
struct LogProbs {
  double chosen = 0;
  std::vector<std::pair<std::int32_t, double>> top;
};
LogProbs log_probs(std::span<const double> logits, std::int32_t chosen, std::size_t count);

}  // namespace mt
