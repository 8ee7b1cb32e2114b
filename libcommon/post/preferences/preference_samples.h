// PreferenceSamples: samples of whole pairs of texts, packed: what PackedSamples fill, and
//   lengths    of each text, in tokens: the chosen and the rejected one of each pair; then zeroes
//   reference  of each text its log-probability by the model that the run began with; 0 until known
//   values     of each pair its margin; of a single text whether it is wanted
//   share      1 where there is a pair, else 0
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "post/data/packed_samples.h"

namespace mt {

// What samples of up to so many pairs bring.
FieldSpecs preference_fields(std::int64_t seq_length, std::int64_t pairs);
// The most pairs that a sample has.
std::int64_t most_pairs(const Packed& packed);

class PreferenceSamples final : public Samples {
 public:
  // `reference`, if any: of each text of each sample, as many as most_pairs() makes room for.
  PreferenceSamples(std::unique_ptr<PackedSamples> packed, std::int64_t pairs,
                    std::shared_ptr<const std::vector<double>> reference)
      : packed_(std::move(packed)),
        pairs_(static_cast<std::size_t>(pairs)),
        reference_(std::move(reference)),
        fields_(preference_fields(packed_->packed().seq_length, pairs)) {}

  const std::string& name() const override { return packed_->name(); }
  std::int64_t size() const override { return packed_->size(); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override {
    return packed_->lines(k, tokenizer);
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override {
    packed_->write(k, tokenizer, json);
  }
  Indexes indexes() const override { return {}; }
  std::size_t bin(std::int64_t k) const { return packed_->bin(k); }

 private:
  std::unique_ptr<PackedSamples> packed_;
  std::size_t pairs_;
  std::shared_ptr<const std::vector<double>> reference_;
  FieldSpecs fields_;
};

// Single texts become pairs: each with its prompt and the completion of the one before it among so
// many, the first with that of the last (arXiv:2402.01306, section 4.1; TRL's KTOTrainer).  What
// makes a pair longer than `longest` is cut from the end of the second.
std::vector<Example> with_others_completions(std::vector<Example> texts, std::int64_t group,
                                             std::int64_t longest);

}  // namespace mt
