#include "eval/guesses.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace mt {

GuessScore& GuessScore::operator+=(const GuessScore& other) {
  nll += other.nll;
  tokens += other.tokens;
  right += other.right;
  return *this;
}

double GuessScore::perplexity() const { return std::exp(nats_per_token()); }

GuessScore score_guesses(ConstTensor logits, std::span<const std::int32_t> tokens) {
  GuessScore score{.tokens = std::ssize(tokens)};
  if (tokens.empty()) return score;
  with_float_type(logits.dtype(), [&]<class T>() {
    const auto all = logits.span<T>();
    const std::size_t vocab = all.size() / tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto row = all.subspan(i * vocab, vocab);
      const auto top = std::ranges::max_element(row);
      double sum = 0;
      for (const T x : row) sum += std::exp(static_cast<double>(x) - static_cast<double>(*top));
      const auto token = static_cast<std::size_t>(tokens[i]);
      score.nll += std::log(sum) + static_cast<double>(*top) - static_cast<double>(row[token]);
      score.right += static_cast<std::size_t>(top - row.begin()) == token;
    }
  });
  if (!std::isfinite(score.nll)) fail(Exit::bad_data, "the model's logits are not numbers");
  return score;
}

GuessSamples::GuessSamples(SampleType type, const std::string& prefix, const WordPieces& pieces,
                           std::int64_t seq_length, const MaskOptions& masks, std::uint32_t seed) {
  files_.push_back(std::make_unique<IndexedDataset>(prefix));
  const IndexedDataset& file = *files_.front();
  check_sentences(file);
  kind_ = masked_samples(type, files_, pieces, seq_length, masks, seed);
  samples_ = kind_->make({.file = 0, .items = {0, file.documents()}, .samples = {}}, {});
  const FieldSpecs& specs = samples_->fields();
  storage_ = Buffer(Device::cpu, static_cast<std::size_t>(fields_bytes(specs, 1, DType::f32)));
  sample_ = fields_in(storage_.tensor(DType::u8, {static_cast<std::int64_t>(storage_.bytes())}),
                      specs, 1, DType::f32);
}

GuessSamples::~GuessSamples() = default;

std::int64_t GuessSamples::size() const { return samples_->size(); }

static std::vector<std::int32_t> first_of(const Fields& sample, Field field, std::size_t count) {
  const auto all = sample.span<std::int32_t>(field);
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()))};
}

// How many places of a sample count; those that do not are behind them.
static std::size_t counting(const Fields& sample) {
  return static_cast<std::size_t>(std::ranges::count(sample.span<float>(Field::loss_mask), 1.0F));
}

MaskedText GuessSamples::masked(std::int64_t k) {
  samples_->get(k, sample_);
  const auto length = static_cast<std::size_t>(sample_.span<std::int32_t>(Field::lengths)[0]);
  return {.ids = first_of(sample_, Field::ids, length),
          .types = first_of(sample_, Field::types, length),
          .asked = first_of(sample_, Field::masked, counting(sample_)),
          .tokens = first_of(sample_, Field::labels, counting(sample_))};
}

CutText GuessSamples::cut(std::int64_t k) {
  samples_->get(k, sample_);
  const auto length =
      static_cast<std::size_t>(sample_.span<std::int32_t>(Field::encoder_lengths)[0]);
  return {.read = first_of(sample_, Field::encoder_ids, length),
          .ids = first_of(sample_, Field::ids, counting(sample_)),
          .tokens = first_of(sample_, Field::labels, counting(sample_))};
}

void mask_in_turn(std::span<const std::int32_t> tokens, const SpecialTokens& special,
                  std::int64_t window, const std::function<void(MaskedText)>& visit) {
  for (std::span left = tokens; !left.empty();) {
    const auto seen = left.first(std::min(left.size(), static_cast<std::size_t>(window)));
    MaskedText text{.ids = {special.cls}, .types = {}, .asked = {0}, .tokens = {0}};
    text.ids.insert(text.ids.end(), seen.begin(), seen.end());
    text.ids.push_back(special.sep);
    for (std::size_t i = 1; i <= seen.size(); ++i) {
      MaskedText one = text;
      one.asked = {static_cast<std::int32_t>(i)};
      one.tokens = {std::exchange(one.ids[i], special.mask)};
      visit(std::move(one));
    }
    left = left.subspan(seen.size());
  }
}

}  // namespace mt
