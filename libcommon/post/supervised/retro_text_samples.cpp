#include "post/supervised/retro_text_samples.h"

#include <algorithm>

#include "data/samples/gpt_dataset.h"
#include "data/samples/masking.h"

namespace mt {

FieldSpecs retro_text_fields(const ModelConfig& retro, std::int64_t seq_length, bool retrieves) {
  FieldSpecs fields = gpt_fields(seq_length, false);
  if (retrieves)
    for (const Field field : {Field::encoder_ids, Field::encoder_positions})
      fields.push_back(
          {.field = field, .per_sample = retro.neighbor_tokens(seq_length), .of_tokens = false});
  return fields;
}

RetroTextSamples::RetroTextSamples(std::unique_ptr<PackedSamples> texts, const ModelConfig& retro,
                                   bool retrieves)
    : texts_(std::move(texts)),
      retrieved_length_(static_cast<std::size_t>(retro.retrieved_length())),
      fields_(retro_text_fields(retro, texts_->packed().seq_length, retrieves)) {}

void RetroTextSamples::get(std::int64_t k, const Fields& sample) const {
  const Packed& packed = texts_->packed();
  const Piece& piece = packed.bins[texts_->bin(k)].front();
  const Example& text = packed.examples[piece.text];
  const GptSample to = GptSample::of(sample);
  fill_padded(to.tokens, text.ids, 0);
  fill_padded(to.labels, std::span(text.ids).subspan(1), 0);
  fill_positions(to.positions);
  std::ranges::fill(to.loss_mask, 0.0F);
  for (std::size_t i = 1; i < text.ids.size(); ++i)
    to.loss_mask[i - 1] = text.learnt[i] ? 1.0F : 0.0F;
  const auto ids = sample.span<std::int32_t>(Field::encoder_ids),
             positions = sample.span<std::int32_t>(Field::encoder_positions);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = text.neighbors[i % text.neighbors.size()];
    positions[i] = static_cast<std::int32_t>(i % retrieved_length_);
  }
}

}  // namespace mt
