#include "data/samples/t5_dataset.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

using Tokens = std::vector<std::int32_t>;

FieldSpecs t5_fields(std::int64_t seq_length, std::int64_t decoder_seq_length) {
  return {{.field = Field::encoder_ids, .per_sample = seq_length},
          {.field = Field::encoder_positions, .per_sample = seq_length},
          {.field = Field::encoder_lengths, .per_sample = 1, .of_tokens = false},
          {.field = Field::ids, .per_sample = decoder_seq_length},
          {.field = Field::positions, .per_sample = decoder_seq_length},
          {.field = Field::labels, .per_sample = decoder_seq_length},
          {.field = Field::loss_mask, .dtype = DType::f32, .per_sample = decoder_seq_length}};
}

T5Dataset::T5Dataset(const IndexedDataset& data, const WordPieces& pieces,
                     const T5DatasetOptions& options, const IndexCache& cache)
    : data_(data),
      pieces_(pieces),
      options_(options),
      fields_(t5_fields(options.seq_length, options.decoder_seq_length)),
      map_(data,
           {.documents = options.documents,
            .max_length = options.seq_length - 2,
            .min_sentences = 1,
            .short_seq_prob = options.short_seq_prob,
            .seed = options.seed,
            .num_samples = options.num_samples},
           cache),
      masking_(pieces, {.probability = options.mask_prob,
                        .max_ngram = 10,
                        .geometric = true,
                        .some_random = false}) {}

struct T5Dataset::Made {
  Tokens encoder, decoder, labels;
  Facts facts;
};

T5Dataset::Made T5Dataset::make(std::int64_t k) const {
  const SpecialTokens& special = pieces_.special;
  const std::int64_t target = map_.target_length(k);
  RandomState random(options_.seed + static_cast<std::uint32_t>(k));
  Tokens text = read_sentences(data_, map_.sentences(k), pieces_.vocab_size());
  Made made;
  made.decoder = {special.bos};
  made.facts.truncated = std::ssize(text) > target;
  if (made.facts.truncated) text.resize(static_cast<std::size_t>(target));
  const std::vector<MaskedSpan> spans = masking_.mask(text, target, random);
  if (spans.size() > special.extra.size())
    fail(Exit::bad_config, "--vocab-extra-ids ", special.extra.size(), ": sample ", k, " of ",
         data_.name(), " has ", spans.size(), " spans, expected at least as many sentinels");

  Tokens &encoder = made.encoder, &decoder = made.decoder, &labels = made.labels;
  auto from = text.begin();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto& tokens = spans[i].tokens;
    encoder.insert(encoder.end(), from, text.begin() + tokens.front().position);
    encoder.push_back(special.extra[i]);
    labels.push_back(special.extra[i]);
    for (const MaskedSpan::Token& token : tokens) labels.push_back(token.label);
    from = text.begin() + tokens.back().position + 1;
  }
  encoder.insert(encoder.end(), from, text.end());
  decoder.insert(decoder.end(), labels.begin(), labels.end());
  labels.push_back(special.eos);
  if (std::ssize(encoder) > seq_length() || std::ssize(decoder) > decoder_seq_length())
    fail(Exit::bad_config, "sample ", k, " of ", data_.name(), ": ", encoder.size(),
         " tokens for the encoder and ", decoder.size(), " for the decoder, expected at most ",
         "--seq-length ", seq_length(), " and --decoder-seq-length ", decoder_seq_length());
  return made;
}

T5Dataset::Facts T5Dataset::get(std::int64_t k, const T5Sample& sample) const {
  const Made made = make(k);
  const std::int32_t pad = pieces_.special.pad;
  fill_padded(sample.encoder, made.encoder, pad);
  fill_padded(sample.decoder, made.decoder, pad);
  fill_padded(sample.labels, made.labels, -1);
  fill_mask(sample.loss_mask, made.decoder.size());
  fill_mask(sample.encoder_mask, made.encoder.size());
  fill_mask(sample.decoder_mask, made.decoder.size());
  return made.facts;
}

void T5Dataset::get(std::int64_t k, const Fields& sample) const {
  const Made made = make(k);
  const std::int32_t pad = pieces_.special.pad;
  const auto of = [&](Field field) { return sample.span<std::int32_t>(field); };
  fill_padded(of(Field::encoder_ids), made.encoder, pad);
  fill_positions(of(Field::encoder_positions));
  of(Field::encoder_lengths)[0] = static_cast<std::int32_t>(made.encoder.size());
  fill_padded(of(Field::ids), made.decoder, pad);
  fill_positions(of(Field::positions));
  fill_padded(of(Field::labels), made.labels, 0);
  const auto loss_mask = sample.span<float>(Field::loss_mask);
  std::ranges::fill(loss_mask, 0.0F);
  std::ranges::fill(loss_mask.first(made.labels.size()), 1.0F);
}

ShownSample T5Dataset::show(std::int64_t k, const Tokenizer& tokenizer) const {
  expect_room_for_fields(2, seq_length());
  expect_room_for_fields(4, decoder_seq_length());
  Tokens encoder(static_cast<std::size_t>(seq_length())), encoder_mask = encoder;
  Tokens decoder(static_cast<std::size_t>(decoder_seq_length())), labels = decoder, loss = decoder,
                                                                  decoder_mask = decoder;
  const Facts facts = get(k, {encoder, decoder, labels, loss, encoder_mask, decoder_mask});
  const auto text_of = [&](const Tokens& tokens, const Tokens& mask) {
    return marked_text(
        tokenizer, std::span(tokens).first(static_cast<std::size_t>(std::ranges::count(mask, 1))));
  };
  ShownSample shown{
      data_.name(), map_.sentences(k),
      concat(", ", map_.target_length(k), " tokens", facts.truncated ? ", truncated" : "")};
  shown.facts = {{"truncated", facts.truncated}};
  shown.texts = {{"encoder", text_of(encoder, encoder_mask)},
                 {"decoder", text_of(decoder, decoder_mask)},
                 {"labels", text_of(labels, decoder_mask)}};
  shown.fields = {{"text_enc", encoder}, {"text_dec", decoder},      {"labels", labels},
                  {"loss_mask", loss},   {"enc_mask", encoder_mask}, {"dec_mask", decoder_mask}};
  return shown;
}

}  // namespace mt
