// RetroTextSamples: a text a sample, which a Retro learns: those of PackedSamples, none of which
// shares a sample.
//   ids, labels, loss_mask, positions   as there
//   encoder_ids        the text's neighbours, the same for each of the sample's chunks
//   encoder_positions  0, 1, 2, … in each
// Without neighbours the retriever is off, and the last two fields are not there.  Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "model/config/model_config.h"
#include "post/data/packed_samples.h"

namespace mt {

FieldSpecs retro_text_fields(const ModelConfig& retro, std::int64_t seq_length, bool retrieves);

class RetroTextSamples final : public Samples {
 public:
  RetroTextSamples(std::unique_ptr<PackedSamples> texts, const ModelConfig& retro, bool retrieves);

  const std::string& name() const override { return texts_->name(); }
  std::int64_t size() const override { return texts_->size(); }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t k, const Tokenizer& tokenizer) const override {
    return texts_->lines(k, tokenizer);
  }
  void write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const override {
    texts_->write(k, tokenizer, json);
  }
  Indexes indexes() const override { return {}; }

 private:
  std::unique_ptr<PackedSamples> texts_;
  std::size_t retrieved_length_;
  FieldSpecs fields_;
};

}  // namespace mt
