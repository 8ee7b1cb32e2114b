#include "data/samples/ict_dataset.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "data/samples/numpy_random.h"

namespace mt {

using Tokens = std::vector<std::int32_t>;

IctDataset::IctDataset(const IndexedDataset& data, const IndexedDataset& titles,
                       const WordPieces& pieces, const IctDatasetOptions& options,
                       const IndexCache& cache)
    : data_(data),
      titles_(titles),
      pieces_(pieces),
      options_(options),
      map_(data, titles,
           {.documents = options.documents,
            .max_length = options.seq_length - 3,
            .one_sentence = options.use_one_sent_docs,
            .seed = options.seed,
            .num_samples = options.num_samples},
           cache) {}

void IctDataset::fill(std::span<const std::int32_t> tokens, std::span<std::int32_t> into,
                      std::span<std::int32_t> mask) const {
  std::ranges::fill(into, pieces_.special.pad);
  std::ranges::copy(tokens, into.begin());
  std::ranges::fill(mask, 0);
  std::ranges::fill(mask.first(tokens.size()), 1);
}

IctDataset::Facts IctDataset::get(std::int64_t k, const IctSample& sample) const {
  const auto S = static_cast<std::size_t>(options_.seq_length);
  assert(sample.query.size() == S && sample.query_mask.size() == S && sample.context.size() == S &&
         sample.context_mask.size() == S);
  const SpecialTokens& special = pieces_.special;
  const std::int64_t vocab = pieces_.vocab_size();
  const Facts facts{map_.sentences(k), options_.documents.begin + map_.document(k), map_.block(k)};
  RandomState random(options_.seed + static_cast<std::uint32_t>(k));
  const std::int64_t drawn = facts.sentences.begin + random.randint(0, facts.sentences.size());
  const bool stays = random.random() < options_.query_in_block_prob;

  Tokens query = read_sentences(data_, {drawn, drawn + 1}, vocab);
  query.resize(std::min(query.size(), S - 2));
  query.insert(query.begin(), special.cls);
  query.push_back(special.sep);

  const Tokens title = read_sentences(titles_, {facts.document, facts.document + 1}, vocab);
  if (title.size() + 3 > S)
    fail(Exit::bad_data, titles_.name(), ": sequence ", facts.document, ": a title of ",
         title.size(), " tokens, expected at most --seq-length less 3, ", S - 3);
  Tokens context = {special.cls};
  context.insert(context.end(), title.begin(), title.end());
  context.push_back(special.sep);
  for (std::int64_t i = facts.sentences.begin; i < facts.sentences.end; ++i) {
    if (i == drawn && !stays) continue;
    const Tokens sentence = read_sentences(data_, {i, i + 1}, vocab);
    context.insert(context.end(), sentence.begin(), sentence.end());
  }
  context.resize(std::min(context.size(), S - 1));
  context.push_back(special.sep);

  fill(query, sample.query, sample.query_mask);
  fill(context, sample.context, sample.context_mask);
  return facts;
}

}  // namespace mt
