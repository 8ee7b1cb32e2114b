#include "data/samples/t5_dataset.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace mt {
namespace {

using Tokens = std::vector<std::int32_t>;

// `from`, then as many of `padding` as fit.
void fill(std::span<std::int32_t> into, const Tokens& from, std::int32_t padding) {
  std::ranges::fill(into, padding);
  std::ranges::copy(from, into.begin());
}

void fill_mask(std::span<std::int32_t> into, std::size_t ones) {
  std::ranges::fill(into, 0);
  std::ranges::fill(into.first(ones), 1);
}

}  // namespace

T5Dataset::T5Dataset(const IndexedDataset& data, const WordPieces& pieces,
                     const T5DatasetOptions& options, const IndexCache& cache)
    : data_(data),
      pieces_(pieces),
      options_(options),
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
                        .some_random = false}) {
  if (pieces.special.extra.empty())
    fail(Exit::bad_config, "--vocab-extra-ids: required for T5's sentinels, usually 100");
}

T5Dataset::Facts T5Dataset::get(std::int64_t k, const T5Sample& sample) const {
  const auto S = static_cast<std::size_t>(options_.seq_length);
  const auto D = static_cast<std::size_t>(options_.decoder_seq_length);
  assert(sample.encoder.size() == S && sample.encoder_mask.size() == S &&
         sample.decoder.size() == D && sample.labels.size() == D && sample.loss_mask.size() == D &&
         sample.decoder_mask.size() == D);
  const SpecialTokens& special = pieces_.special;
  const std::int64_t target = map_.target_length(k);
  RandomState random(options_.seed + static_cast<std::uint32_t>(k));
  Tokens text = read_sentences(data_, map_.sentences(k), pieces_.vocab_size());
  const Facts facts{.truncated = std::ssize(text) > target};
  if (facts.truncated) text.resize(static_cast<std::size_t>(target));
  const std::vector<MaskedSpan> spans = masking_.mask(text, target, random);
  if (spans.size() > special.extra.size())
    fail(Exit::bad_config, "--vocab-extra-ids ", special.extra.size(), ": sample ", k, " of ",
         data_.name(), " has ", spans.size(), " spans, expected at least as many sentinels");

  Tokens encoder, decoder = {special.bos}, labels;
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
  if (encoder.size() > S || decoder.size() > D)
    fail(Exit::bad_config, "sample ", k, " of ", data_.name(), ": ", encoder.size(),
         " tokens for the encoder and ", decoder.size(), " for the decoder, expected at most ",
         "--seq-length ", S, " and --decoder-seq-length ", D);

  fill(sample.encoder, encoder, special.pad);
  fill(sample.decoder, decoder, special.pad);
  fill(sample.labels, labels, -1);
  fill_mask(sample.loss_mask, decoder.size());
  fill_mask(sample.encoder_mask, encoder.size());
  fill_mask(sample.decoder_mask, decoder.size());
  return facts;
}

}  // namespace mt
