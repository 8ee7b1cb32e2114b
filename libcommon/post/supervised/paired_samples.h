// PairedSamples: samples of a source, which an encoder reads, and a target, which a decoder learns
// to say: pair_fields() of the pairs that PackedSamples have one by one.
//   encoder_ids  the source; padding; with positions and the source's length
//   ids          the token that a decoder begins behind, the target but for its last; padding
//   labels       the target; 0                loss_mask  1, but 0 behind the target
//   lengths      the target's
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "post/data/packed_samples.h"

namespace mt {

FieldSpecs pair_fields(std::int64_t source, std::int64_t target);  // tokens of a sample

struct PairLengths {
  std::int64_t source = 0, target = 0;  // tokens of a sample
  std::int32_t start = 0, pad = 0;      // which tokens these are
};

class PairedSamples final : public Samples {
 public:
  PairedSamples(std::unique_ptr<PackedSamples> pairs, const PairLengths& lengths);

  const std::string& name() const override { return pairs_->name(); }
  std::int64_t size() const override { return pairs_->size(); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override {
    return pairs_->lines(k, tokenizer);
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override {
    pairs_->write(k, tokenizer, json);
  }
  Indexes indexes() const override { return {}; }

 private:
  std::unique_ptr<PackedSamples> pairs_;
  PairLengths lengths_;
  FieldSpecs fields_;
};

}  // namespace mt
