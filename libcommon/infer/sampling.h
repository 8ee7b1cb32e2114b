// Sampling: the options of kernels/sample.h's choice of the next token, and log-probabilities.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/command.h"
#include "kernels/sample.h"
#include "tensor/tensor.h"

namespace mt {

struct SamplingOptions : Sampling {
  void add_to(CommandLine& cl);
};

// By each token top-p becomes `factor` times what it was, but no less than `least`; 0: it stays.
struct TopPDecay {
  double factor = 0, least = 0;
  bool operator==(const TopPDecay&) const = default;
};

// The choice of the token behind a choice's.
Choice following(Choice choice, const TopPDecay& decay = {});

// Sets `numbers` to logits, of any type in host memory.
void to_f64(std::vector<double>& numbers, ConstTensor logits);

// SharedLogits: logits of which several draw a token, by the same rule mostly, for which what may
// be drawn is found once.
class SharedLogits {
 public:
  explicit SharedLogits(std::span<const double> logits) : logits_(logits) {}
  std::span<const double> all() const { return logits_; }
  std::int32_t sample(const Choice& choice);  // as cpu::sample()

 private:
  std::span<const double> logits_;
  std::optional<Sampling> rule_;  // the rule that the next two are of
  std::vector<Candidate> candidates_;
  double total_ = 0;
};

// Log-probabilities of a token and of the `count` likeliest, by falling probability and then rising
// id, from logits as they are.
struct LogProbs {
  double chosen = 0;
  std::int64_t rank = 1;  // the token's, from 1: behind those that are likelier
  std::vector<std::pair<std::int32_t, double>> top;
};
LogProbs log_probs(std::span<const double> logits, std::int32_t chosen, std::size_t count);

// Returns the log-probability of one token alone, computed in numbers of this type as a loss
// computes it, to the bit; of logits that are divided by the temperature, if that is not 0.
double score_of(std::span<const double> logits, std::int32_t chosen, double temperature,
                DType dtype);

}  // namespace mt
