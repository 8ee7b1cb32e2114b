#include "data/samples/sample_kinds.h"

#include <utility>

#include "base/error.h"
#include "data/samples/bert_packs.h"
#include "data/samples/t5_dataset.h"

namespace mt {
namespace {

class GptSamples final : public SampleKind {
 public:
  GptSamples(std::vector<const TokenSequences*> files, const GptDatasetOptions& options)
      : files_(std::move(files)), options_(options) {}

  const char* item_name() const override { return "sequences"; }
  std::int64_t items(std::size_t file) const override { return files_[file]->sequences(); }
  const std::string& file_name(std::size_t file) const override { return files_[file]->name(); }
  std::int64_t index_bytes(const SamplePart& part) const override {
    return GptIndex::bytes(*files_[part.file], options_of(part).index);
  }
  std::unique_ptr<Samples> make(const SamplePart& part, const IndexCache& cache) const override {
    return std::make_unique<GptDataset>(*files_[part.file], options_of(part), cache);
  }

 private:
  GptDatasetOptions options_of(const SamplePart& part) const {
    GptDatasetOptions options = options_;
    options.index.sequences = part.items;
    options.index.num_samples = part.samples;
    return options;
  }

  std::vector<const TokenSequences*> files_;
  GptDatasetOptions options_;
};

// Samples of sentences.
template <class Dataset, class Options>
class SentenceSamples final : public SampleKind {
 public:
  SentenceSamples(const TokenFiles& files, const WordPieces& pieces, const Options& options)
      : files_(files), pieces_(pieces), options_(options) {}

  const char* item_name() const override { return "documents"; }
  std::int64_t items(std::size_t file) const override { return files_[file]->documents(); }
  const std::string& file_name(std::size_t file) const override { return files_[file]->name(); }
  // How many rows there are shows when they are made: about as many as samples, or documents.
  std::int64_t index_bytes(const SamplePart& part) const override {
    return SentenceMap::bytes(part.samples.value_or(part.items.size()));
  }
  std::unique_ptr<Samples> make(const SamplePart& part, const IndexCache& cache) const override {
    Options options = options_;
    options.documents = part.items;
    options.num_samples = part.samples;
    return std::make_unique<Dataset>(*files_[part.file], pieces_, options, cache);
  }

 private:
  const TokenFiles& files_;
  const WordPieces& pieces_;
  Options options_;
};

}  // namespace

std::unique_ptr<SampleKind> gpt_samples(std::vector<const TokenSequences*> files,
                                        const GptDatasetOptions& options) {
  return std::make_unique<GptSamples>(std::move(files), options);
}

std::unique_ptr<SampleKind> masked_samples(SampleType type, const TokenFiles& files,
                                           const WordPieces& pieces, std::int64_t seq_length,
                                           const MaskOptions& masks, std::uint32_t seed) {
  if (type == SampleType::bert) {
    const BertDatasetOptions options{.seq_length = seq_length,
                                     .seed = seed,
                                     .mask_prob = masks.mask_prob,
                                     .short_seq_prob = masks.short_seq_prob,
                                     .binary_head = masks.binary_head};
    if (masks.pack_sequences)
      return std::make_unique<SentenceSamples<BertPacks, BertDatasetOptions>>(files, pieces,
                                                                              options);
    return std::make_unique<SentenceSamples<BertDataset, BertDatasetOptions>>(files, pieces,
                                                                              options);
  }
  return std::make_unique<SentenceSamples<T5Dataset, T5DatasetOptions>>(
      files, pieces,
      T5DatasetOptions{.seq_length = seq_length,
                       .decoder_seq_length = *masks.decoder_seq_length,
                       .seed = seed,
                       .mask_prob = masks.mask_prob,
                       .short_seq_prob = masks.short_seq_prob});
}

void check_sentences(const IndexedDataset& file) {
  for (std::int64_t d = 0; d < file.documents(); ++d)
    if (file.document_begin(d + 1) - file.document_begin(d) > 1) return;
  fail(Exit::bad_data, file.name(),
       ": each document is one sequence, expected sentences; see mt-preprocess --split-sentences");
}

}  // namespace mt
