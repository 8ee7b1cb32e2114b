// Sets of samples over small token files, and memory for a batch of them, for tests.
#pragma once

#include "data/files/indexed_dataset.h"
#include "data/samples/blended.h"
#include "data/samples/gpt_dataset.h"
#include "data/samples/train_data.h"
#include "tests/base/scratch.h"
#include "tests/data/support.h"
#include "tests/support/host_tensor.h"

namespace mt {

constexpr std::int64_t kLength = 8;
constexpr std::int32_t kEod = 99;

inline const Blended& blended(const SampleSet& set) {
  return dynamic_cast<const Blended&>(*set.samples);
}
inline const GptDataset& gpt_dataset(const Samples& dataset) {
  return dynamic_cast<const GptDataset&>(dataset);
}
inline const GptIndex& gpt_index(const Samples& dataset) { return gpt_dataset(dataset).index(); }

struct BatchMemory {
  BatchMemory(std::int64_t sequences, DType dtype)
      : ids(DType::i32, {sequences * kLength}),
        labels(DType::i32, {sequences * kLength}),
        positions(DType::i32, {sequences * kLength}),
        mask(dtype, {sequences * kLength}),
        weight(dtype, {sequences * kLength}) {}
  Fields batch() const {
    Fields batch;
    batch[Field::ids] = ids;
    batch[Field::labels] = labels;
    batch[Field::positions] = positions;
    batch[Field::loss_mask] = mask;
    batch[Field::weight] = weight;
    return batch;
  }
  HostTensor ids, labels, positions, mask, weight;
};

// The samples of one token file, in Megatron's order.
struct FileSamples {
  Scratch scratch;
  IndexedDataset file;
  SampleSet set;
  FileSamples(const Documents& documents, bool eod_mask_loss, PastEnd past_end = PastEnd::error)
      : file(write(scratch, documents)), set(make_set(file, eod_mask_loss, past_end)) {}
  const GptIndex& index() const { return gpt_index(*set.samples); }

  static std::string write(const Scratch& scratch, const Documents& documents) {
    write_documents(scratch.path("data"), TokenType::u16, documents);
    return scratch.path("data");
  }
  static SampleSet make_set(const IndexedDataset& file, bool eod_mask_loss, PastEnd past_end) {
    auto data = std::make_unique<GptDataset>(
        file,
        GptDatasetOptions{.index = {.sequences = {0, file.sequences()}, .seq_length = kLength},
                          .eod_id = kEod,
                          .vocab_size = 100,
                          .eod_mask_loss = eod_mask_loss});
    const std::int64_t size = data->size();
    return {"", std::move(data), Sampler(size, {.past_end = past_end})};
  }
};

}  // namespace mt
