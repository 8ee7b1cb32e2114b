#include "data/samples/bert_dataset.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace mt {
namespace {

using Tokens = std::vector<std::int32_t>;

// A and B within tokens; drops tokens from the ends of the longer one until both fit.
bool truncate(std::span<const std::int32_t>& a, std::span<const std::int32_t>& b,
              std::int64_t length, RandomState& random) {
  bool truncated = false;
  for (; std::ssize(a) + std::ssize(b) > length; truncated = true) {
    auto& longer = a.size() > b.size() ? a : b;
    longer = random.random() < 0.5 ? longer.subspan(1) : longer.first(longer.size() - 1);
  }
  return truncated;
}

Tokens joined(std::span<const std::int32_t> a, std::span<const std::int32_t> b,
              const SpecialTokens& special) {
  Tokens text = {special.cls};
  text.insert(text.end(), a.begin(), a.end());
  text.push_back(special.sep);
  if (b.empty()) return text;
  text.insert(text.end(), b.begin(), b.end());
  text.push_back(special.sep);
  return text;
}

}  // namespace

BertDataset::BertDataset(const IndexedDataset& data, const WordPieces& pieces,
                         const BertDatasetOptions& options, const IndexCache& cache)
    : data_(data),
      pieces_(pieces),
      options_(options),
      map_(data,
           {.documents = options.documents,
            .max_length = options.seq_length - 3,
            .min_sentences = options.binary_head ? 2 : 1,
            .short_seq_prob = options.short_seq_prob,
            .seed = options.seed,
            .num_samples = options.num_samples},
           cache),
      masking_(pieces, {.probability = options.mask_prob, .max_ngram = 3}) {}

BertDataset::Facts BertDataset::get(std::int64_t k, const BertSample& sample) const {
  const auto S = static_cast<std::size_t>(options_.seq_length);
  assert(sample.text.size() == S && sample.types.size() == S && sample.labels.size() == S &&
         sample.padding_mask.size() == S && sample.loss_mask.size() == S);
  const ItemRange sentences = map_.sentences(k);
  const std::int64_t target = map_.target_length(k);
  RandomState random(options_.seed + static_cast<std::uint32_t>(k));
  std::int64_t pivot = sentences.size();
  Facts facts;
  if (options_.binary_head) {
    pivot = sentences.size() >= 3 ? random.randint(1, sentences.size()) : 1;
    facts.is_random = random.random() < 0.5;
  }
  const std::int64_t vocab = pieces_.vocab_size(), middle = sentences.begin + pivot;
  const Tokens before = read_sentences(data_, {sentences.begin, middle}, vocab);
  const Tokens after = read_sentences(data_, {middle, sentences.end}, vocab);
  std::span<const std::int32_t> a = before, b = after;
  if (facts.is_random) std::swap(a, b);
  facts.truncated = truncate(a, b, target, random);

  Tokens text = joined(a, b, pieces_.special);
  assert(text.size() <= S);
  const std::vector<MaskedSpan> masked = masking_.mask(text, target, random);
  std::ranges::fill(sample.text, pieces_.special.pad);
  std::ranges::copy(text, sample.text.begin());
  std::ranges::fill(sample.types, 0);
  std::ranges::fill(sample.types.first(text.size()).subspan(a.size() + 2), 1);
  std::ranges::fill(sample.padding_mask, 0);
  std::ranges::fill(sample.padding_mask.first(text.size()), 1);
  std::ranges::fill(sample.labels, -1);
  std::ranges::fill(sample.loss_mask, 0);
  for (const MaskedSpan& span : masked)
    for (const MaskedSpan::Token& token : span.tokens) {
      sample.labels[static_cast<std::size_t>(token.position)] = token.label;
      sample.loss_mask[static_cast<std::size_t>(token.position)] = 1;
    }
  return facts;
}

}  // namespace mt
