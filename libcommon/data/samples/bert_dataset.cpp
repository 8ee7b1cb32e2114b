#include "data/samples/bert_dataset.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"

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

// A sample of n tokens has at most round(n p) of them masked, or 1; several have no more than this.
static std::int64_t most_masked_of(std::int64_t texts, std::int64_t tokens, double probability) {
  if (texts == 1) return most_masked(tokens, probability);
  return static_cast<std::int64_t>(static_cast<double>(tokens) * probability) + texts;
}

FieldSpecs bert_fields(std::int64_t seq_length, double mask_prob, bool binary_head,
                       std::int64_t texts) {
  const std::int64_t most = most_masked_of(texts, seq_length, mask_prob);
  FieldSpecs fields = {{.field = Field::ids, .per_sample = seq_length},
                       {.field = Field::positions, .per_sample = seq_length},
                       {.field = Field::lengths, .per_sample = texts, .of_tokens = false},
                       {.field = Field::masked, .per_sample = most, .of_tokens = false},
                       {.field = Field::labels, .per_sample = most, .of_tokens = false}};
  const auto add_mask = [&](Field field, std::int64_t n) {
    fields.push_back({.field = field, .dtype = DType::f32, .per_sample = n, .of_tokens = false});
  };
  add_mask(Field::loss_mask, most);
  if (!binary_head) return fields;
  fields.push_back({.field = Field::types, .per_sample = seq_length});
  fields.push_back({.field = Field::order, .per_sample = texts, .of_tokens = false});
  add_mask(Field::order_mask, texts);
  return fields;
}

BertDataset::BertDataset(const IndexedDataset& data, const WordPieces& pieces,
                         const BertDatasetOptions& options, const IndexCache& cache)
    : data_(data),
      pieces_(pieces),
      options_(options),
      fields_(bert_fields(options.seq_length, options.mask_prob, options.binary_head)),
      map_(data,
           {.documents = options.documents,
            .max_length = options.seq_length - 3,
            .min_sentences = options.binary_head ? 2 : 1,
            .short_seq_prob = options.short_seq_prob,
            .seed = options.seed,
            .num_samples = options.num_samples},
           cache),
      masking_(pieces, {.probability = options.mask_prob, .max_ngram = 3}) {}

std::int64_t BertDataset::longest(std::int64_t k) const {
  const ItemRange sentences = map_.sentences(k);
  std::int64_t tokens = 0;
  for (std::int64_t i = sentences.begin; i < sentences.end; ++i) tokens += data_.length(i);
  return std::min(tokens, map_.target_length(k)) + (options_.binary_head ? 3 : 2);
}

struct BertDataset::Made {
  Tokens text;
  std::size_t first_text = 0;  // tokens, with [CLS] and [SEP]
  std::vector<MaskedSpan> masked;
  Facts facts;
};

BertDataset::Made BertDataset::make(std::int64_t k) const {
  const ItemRange sentences = map_.sentences(k);
  const std::int64_t target = map_.target_length(k);
  RandomState random(options_.seed + static_cast<std::uint32_t>(k));
  std::int64_t pivot = sentences.size();
  Made made;
  if (options_.binary_head) {
    pivot = sentences.size() >= 3 ? random.randint(1, sentences.size()) : 1;
    made.facts.is_random = random.random() < 0.5;
  }
  const std::int64_t vocab = pieces_.vocab_size(), middle = sentences.begin + pivot;
  const Tokens before = read_sentences(data_, {sentences.begin, middle}, vocab);
  const Tokens after = read_sentences(data_, {middle, sentences.end}, vocab);
  std::span<const std::int32_t> a = before, b = after;
  if (made.facts.is_random) std::swap(a, b);
  made.facts.truncated = truncate(a, b, target, random);
  made.text = joined(a, b, pieces_.special);
  assert(std::ssize(made.text) <= seq_length());
  made.first_text = a.size() + 2;
  made.masked = masking_.mask(made.text, target, random);
  return made;
}

// 1 for the tokens of the second text.
static void fill_types(std::span<std::int32_t> types, std::size_t first_text, std::size_t length) {
  std::ranges::fill(types, 0);
  std::ranges::fill(types.first(length).subspan(first_text), 1);
}

BertDataset::Facts BertDataset::get(std::int64_t k, const BertSample& sample) const {
  const Made made = make(k);
  fill_padded(sample.text, made.text, pieces_.special.pad);
  fill_types(sample.types, made.first_text, made.text.size());
  fill_mask(sample.padding_mask, made.text.size());
  std::ranges::fill(sample.labels, -1);
  std::ranges::fill(sample.loss_mask, 0);
  for (const MaskedSpan& span : made.masked)
    for (const MaskedSpan::Token& token : span.tokens) {
      sample.labels[static_cast<std::size_t>(token.position)] = token.label;
      sample.loss_mask[static_cast<std::size_t>(token.position)] = 1;
    }
  return made.facts;
}

void BertDataset::get(std::int64_t k, const Fields& sample) const {
  const Made made = make(k);
  const auto of = [&](Field field) { return sample.span<std::int32_t>(field); };
  fill_padded(of(Field::ids), made.text, pieces_.special.pad);
  fill_positions(of(Field::positions));
  of(Field::lengths)[0] = static_cast<std::int32_t>(made.text.size());
  std::vector<MaskedSpan::Token> masked;
  for (const MaskedSpan& span : made.masked)
    masked.insert(masked.end(), span.tokens.begin(), span.tokens.end());
  std::ranges::sort(masked, {}, &MaskedSpan::Token::position);
  const auto places = of(Field::masked), labels = of(Field::labels);
  const auto loss_mask = sample.span<float>(Field::loss_mask);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool is_used = i < masked.size();
    places[i] = is_used ? masked[i].position : 0;
    labels[i] = is_used ? masked[i].label : 0;
    loss_mask[i] = is_used ? 1.0F : 0.0F;
  }
  if (!options_.binary_head) return;
  fill_types(of(Field::types), made.first_text, made.text.size());
  of(Field::order)[0] = made.facts.is_random ? 1 : 0;
  sample.span<float>(Field::order_mask)[0] = 1;
}

ShownSample BertDataset::show(std::int64_t k, const Tokenizer& tokenizer) const {
  expect_room_for_fields(5, seq_length());
  Tokens text(static_cast<std::size_t>(seq_length())), types = text, labels = text, padding = text,
                                                       loss = text;
  const Facts facts = get(k, {text, types, labels, padding, loss});
  ShownSample shown{
      data_.name(), map_.sentences(k),
      concat(", ", map_.target_length(k), " tokens", facts.is_random ? ", swapped" : "",
             facts.truncated ? ", truncated" : "")};
  const auto length = static_cast<std::size_t>(std::ranges::count(padding, 1));
  shown.facts = {{"is_random", facts.is_random}, {"truncated", facts.truncated}};
  shown.texts = {{"text", marked_text(tokenizer, std::span(text).first(length), labels)}};
  shown.fields = {{"text", text},
                  {"types", types},
                  {"labels", labels},
                  {"padding_mask", padding},
                  {"loss_mask", loss}};
  return shown;
}

}  // namespace mt
