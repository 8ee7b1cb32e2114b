// kernels/sample.h: the choice of the next token from logits, a function of the logits, the rule
// and the token's place alone (DESIGN D5), so that the same command gives the same text.
//
// As Megatron's sampling.py, in this order: the logits are divided by the temperature; top-k keeps
// the k largest and whatever equals the k-th; top-p keeps the likeliest tokens, of those left, up
// to and including the one that brings their probability over p; one of them is drawn: the first,
// by id or, with top-p, by falling probability and then rising id, with which the sum of weights
// exceeds u times that of all, u being to_unit() of the first word of philox({token, prompt,
// sample, 0}, {seed, kSampling}).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda_types.h"

namespace mt {

struct Sampling {
  double temperature = 1;  // 0: the likeliest token
  std::int64_t top_k = 0;  // 0: all; 1: the likeliest token
  double top_p = 0;        // 0 and 1: all
  std::uint64_t seed = 1234;
  bool operator==(const Sampling&) const = default;
};

// The place of a token: which prompt of the run, which of its samples, which token of that.
struct TokenPlace {
  std::uint32_t prompt = 0, sample = 0, token = 0;
  bool operator==(const TokenPlace&) const = default;
};

struct Choice {
  Sampling rule;
  TokenPlace place;
  std::uint32_t scored = 0;  // 1: it is asked how likely the token was
  bool operator==(const Choice&) const = default;
};

inline constexpr std::uint32_t kSampling = 0x5A4D504C;  // purpose of these random numbers

struct Candidate {
  std::int32_t id = 0;
  double weight = 0;  // proportional to its probability
  bool operator==(const Candidate&) const = default;
};

}  // namespace mt

namespace mt::cpu {
// What may be drawn; alone, if the likeliest token is to be taken, of equals the one with the
// smallest id.  Logits of which one is NaN or none is finite are Exit::bad_data.
std::vector<Candidate> candidates(std::span<const double> logits, const Sampling& rule);

// One of these, whose weights add up to so much in their order.
std::int32_t draw(std::span<const Candidate> candidates, double total, const Choice& choice);

// A token from [0, logits.size()).
std::int32_t sample(std::span<const double> logits, const Choice& choice);
}  // namespace mt::cpu

// Chooses a token for each row of logits, [rows, vocab] f32; its choice's place is the next token's
// afterwards.  It is -1 where the CPU fails.  A token of place n also goes to shown[2 row + n % 2],
// if that is not null: the host's memory, which may look at it while the next one is chosen.  Where
// the choice is scored, the logarithm of the token's probability among all tokens, of logits that
// are divided by the temperature if that is not 0, goes to scores[2 row + n % 2], if that is not
// null, within some 1e-9.  positions and lengths, [rows], are each one more afterwards; both may be
// null.
// Weights are in units of 2^-62 of a bound of their sum: the token is the CPU's unless u lies
// within some 1e-9 of the border between two.
namespace mt::cuda {
std::size_t sample_work(std::int64_t rows, std::int64_t vocab);
void sample(std::int32_t* tokens, Choice* choices, std::int32_t* positions, std::int32_t* lengths,
            std::int32_t* shown, double* scores, const float* logits, std::int64_t rows,
            std::int64_t vocab, void* work, cudaStream_t stream);
}  // namespace mt::cuda
