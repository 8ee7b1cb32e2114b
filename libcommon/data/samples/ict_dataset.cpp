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

  fill_padded(sample.query, query, special.pad);
  fill_mask(sample.query_mask, query.size());
  fill_padded(sample.context, context, special.pad);
  fill_mask(sample.context_mask, context.size());
  return facts;
}

ShownSample IctDataset::show(std::int64_t k, const Tokenizer& tokenizer) const {
  expect_room_for_fields(4, seq_length());
  Tokens query(static_cast<std::size_t>(seq_length())), query_mask = query, context = query,
                                                        context_mask = query;
  const Facts facts = get(k, {query, query_mask, context, context_mask});
  const auto text_of = [&](const Tokens& tokens, const Tokens& mask) {
    return marked_text(
        tokenizer, std::span(tokens).first(static_cast<std::size_t>(std::ranges::count(mask, 1))));
  };
  ShownSample shown{data_.name(), facts.sentences,
                    concat(", document ", facts.document, ", block ", facts.block)};
  shown.facts = {{"document", facts.document}, {"block", facts.block}};
  shown.texts = {{"query", text_of(query, query_mask)},
                 {"context", text_of(context, context_mask)}};
  shown.fields = {{"query_tokens", query},
                  {"query_pad_mask", query_mask},
                  {"context_tokens", context},
                  {"context_pad_mask", context_mask}};
  return shown;
}

}  // namespace mt
