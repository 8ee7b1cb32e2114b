// ImageTextSamples: packed texts with the images that they have places for: what PackedSamples
// have, and
//   ids                -1 where a row of an image stands
//   image_rows         which row that is, of those of the sample's images; else -1
//   pixels             of all tokens of as many tiles as any sample's images have
//                      (model/image_tiles.h); zeroes of those it lacks
//   encoder_positions  the place of each of these tokens in its tile
// Images are read and decoded whenever a sample is made.  Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/samples/samples.h"
#include "model/config/model_config.h"
#include "post/data/packed_samples.h"

namespace mt {

// Of a LLaVA's samples, which have at most so many tiles.
FieldSpecs image_text_fields(const ModelConfig& llava, std::int64_t seq_length, std::int64_t tiles);

// The most tiles that an image may become.
std::int64_t most_tiles(const ModelConfig& llava);
// The most tiles that a sample has; at least 1, so that all of a model is always asked.
std::int64_t most_tiles(const Packed& packed);

class ImageTextSamples final : public Samples {
 public:
  ImageTextSamples(std::unique_ptr<PackedSamples> texts, const ModelConfig& llava,
                   std::int64_t tiles);

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
  bool takes_long() const override { return true; }

 private:
  std::unique_ptr<PackedSamples> texts_;
  ModelConfig llava_;
  FieldSpecs fields_;
};

}  // namespace mt
