#include "data/samples/ict_samples.h"

#include <algorithm>

namespace mt {

FieldSpecs query_fields(std::int64_t seq_length, std::int64_t contexts) {
  const auto tokens = [&](Field field, std::int64_t texts) {
    return FieldSpec{.field = field, .per_sample = texts * seq_length};
  };
  const auto lengths = [](Field field, std::int64_t texts) {
    return FieldSpec{.field = field, .per_sample = texts, .of_tokens = false};
  };
  return {tokens(Field::ids, 1),
          tokens(Field::positions, 1),
          lengths(Field::lengths, 1),
          tokens(Field::encoder_ids, contexts),
          tokens(Field::encoder_positions, contexts),
          lengths(Field::encoder_lengths, contexts),
          tokens(Field::types, contexts),
          {.field = Field::loss_mask, .dtype = DType::f32, .per_sample = 1, .of_tokens = false}};
}

static void fill_texts(const Tensor& ids, const Tensor& positions, const Tensor& lengths,
                       TokenSpans texts, std::int32_t padding) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto own = [&](const Tensor& all) {
      const std::span<std::int32_t> span = all.span<std::int32_t>();
      return span.subspan(i * span.size() / texts.size(), span.size() / texts.size());
    };
    if (ids) fill_padded(own(ids), texts[i], padding);
    if (positions) fill_positions(own(positions));
    if (lengths) own(lengths)[0] = static_cast<std::int32_t>(texts[i].size());
  }
}

void fill_query(const Fields& sample, std::span<const std::int32_t> query, TokenSpans contexts,
                std::int32_t padding) {
  fill_texts(sample[Field::ids], sample[Field::positions], sample[Field::lengths], {&query, 1},
             padding);
  fill_texts(sample[Field::encoder_ids], sample[Field::encoder_positions],
             sample[Field::encoder_lengths], contexts, padding);
  std::ranges::fill(sample.span<std::int32_t>(Field::types), 0);
  if (const Tensor& mask = sample[Field::loss_mask])
    with_float_type(mask.dtype(), [&]<class T>() { mask.span<T>()[0] = T(1); });
}

void IctSamples::get(std::int64_t k, const Fields& sample) const {
  std::vector<std::int32_t> query(static_cast<std::size_t>(dataset_.seq_length())),
      query_mask = query, context = query, context_mask = query;
  dataset_.get(k, {query, query_mask, context, context_mask});
  const auto text = [](const std::vector<std::int32_t>& tokens,
                       const std::vector<std::int32_t>& mask) {
    return std::span(tokens).first(static_cast<std::size_t>(std::ranges::count(mask, 1)));
  };
  const std::span<const std::int32_t> own = text(context, context_mask);
  fill_query(sample, text(query, query_mask), {&own, 1}, padding_);
}

namespace {

class IctKind final : public SampleKind {
 public:
  IctKind(const TokenFiles& files, const TokenFiles& titles, const WordPieces& pieces,
          const IctDatasetOptions& options)
      : files_(files), titles_(titles), pieces_(pieces), options_(options) {}

  const char* item_name() const override { return "documents"; }
  std::int64_t items(std::size_t file) const override { return files_[file]->documents(); }
  const std::string& file_name(std::size_t file) const override { return files_[file]->name(); }
  std::int64_t index_bytes(const SamplePart& part) const override {
    return BlockMap::bytes(part.samples.value_or(part.items.size()));
  }
  std::unique_ptr<Samples> make(const SamplePart& part, const IndexCache& cache) const override {
    IctDatasetOptions options = options_;
    options.documents = part.items;
    options.num_samples = part.samples;
    return std::make_unique<IctSamples>(*files_[part.file], *titles_[part.file], pieces_, options,
                                        cache);
  }

 private:
  const TokenFiles &files_, &titles_;
  const WordPieces& pieces_;
  IctDatasetOptions options_;
};

}  // namespace

std::unique_ptr<SampleKind> ict_samples(const TokenFiles& files, const TokenFiles& titles,
                                        const WordPieces& pieces,
                                        const IctDatasetOptions& options) {
  return std::make_unique<IctKind>(files, titles, pieces, options);
}

}  // namespace mt
