// PolicyObjective: a mean of losses of tokens that a policy wrote (kernels/policy_loss.h), as
// PolicyShare says.  Beside it are told, as means over the tokens: the estimate of the divergence,
// the ratio of probabilities, and the shares of tokens whose ratio was clipped below and above.
// Samples have some texts each (post/policy/policy_samples.h), of which ranks may share the tokens
// where no loss is of a whole text.  Its own fields are
//   share    of each token: what its loss counts for in the value of its term
//   weight   of each token: what it weighs in the objective
//   rows     of each token, 1 at the first of a text that counts: by these texts are counted
//   targets  the lengths of the texts that losses are of; where they are of tokens alone, that of
//            the row of tokens
// Where a value head says what texts are worth from each token on, how far that is from what they
// were (kernels/value_loss.h) is a second loss, of which tokens count as of the first, and told as
// the share of tokens is whose value was clipped.  Its own field is
//   value_weight  of each token: what that loss weighs in the objective
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/policy_loss.h"
#include "model/model.h"
#include "train/run/objective.h"

namespace mt {

// What a token's loss counts in the value of n texts, of which its own has t tokens that count, of
// N in all.
enum class PolicyShare : std::uint8_t {
  of_tokens,       // 1 / N, N of the global batch
  of_micro_batch,  // 1 / N, N of the micro-batch; micro-batches weigh alike
  of_texts,        // 1 / (n t)
  of_longest,      // 1 / (n L), L: the tokens that a completion may have
  of_sums          // 1 / n
};

class PolicyObjective final : public Objective, private Criterion {
 public:
  struct OfValues {
    double weight = 0, clip = 0;  // kernels/value_loss.h
  };
  struct How {
    PolicyShare share = PolicyShare::of_tokens;
    std::int64_t longest = 1;     // tokens that a completion may have
    std::int64_t seq_length = 0;  // of a sample
    double temperature = 1;       // probabilities are of logits that are divided by it
    std::int64_t texts = 1;       // of a sample, at most
    std::optional<OfValues> values = {};
  };
  PolicyObjective(const PolicyRules& rules, const How& how);

  std::span<const Term> terms() const override { return terms_; }
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  void look_ahead(const Fields& whole) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;
  // The log-probabilities of a sample's labels, token by token; 0 of those that do not count.
  // Behind these its tokens' values, of which nothing is left out.
  std::int64_t scores() const override { return (values_ ? 2 : 1) * seq_length_; }

 private:
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override;

  // Whether losses of a term count as the policy's own do, rather than one as any other.
  bool is_shared(std::size_t term) const { return term == 0 || term == kValueTerm; }

  static constexpr std::size_t kValueTerm = 5;
  std::vector<Term> terms_;
  PolicyRules rules_;
  PolicyShare share_;
  std::int64_t longest_, seq_length_;
  double temperature_;
  std::int64_t texts_;
  std::optional<OfValues> values_;
};

}  // namespace mt
