#include "train/train_data.h"

#include "base/command.h"
#include "data/tokenizer_source.h"

#include <vector>

namespace mt {

void DataOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  cl.option("--data-path", &data_path, "PREFIX", "token file PREFIX.bin, PREFIX.idx");
  cl.option("--split", &split, "A,B,C", "shares of training, validation and test");
  cl.option("--seq-length", &seq_length, "N", "tokens of a sample", at_least(1));
  cl.flag("--eod-mask-loss", &eod_mask_loss,
          "predictions made after an end of document do not count");
  tokenizer.add_to(cl);
}

TrainData::TrainData(const DataOptions& options)
    : options_(options),
      file_(options.data_path),
      tokenizer_options_(options.tokenizer),
      tokenizer_(dataset_tokenizer(options.data_path, options.tokenizer)) {
  if (tokenizer_options_.type.empty())
    tokenizer_options_ = mt::tokenizer_options(read_manifest(options.data_path).tokenizer.value());
}

void TrainData::build(const TrainingLength& length, std::uint64_t seed) {
  const auto ranges = split_ranges(options_.split, file_.sequences());
  const auto samples = target_samples(length);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i] || samples[i] == 0) continue;
    if (ranges[i]->size() == 0 && i > 0) continue;  // a small file may leave nothing to evaluate on
    splits_[i].emplace(file_, GptDatasetOptions{.index = {.sequences = *ranges[i],
                                                          .seq_length = options_.seq_length,
                                                          .seed = static_cast<std::uint32_t>(seed),
                                                          .num_samples = samples[i]},
                                                .eod_id = tokenizer_->eod(),
                                                .vocab_size = tokenizer_->vocab_size(),
                                                .eod_mask_loss = options_.eod_mask_loss});
  }
}

const GptDataset* TrainData::split(Split which) const {
  const auto& dataset = splits_[static_cast<std::size_t>(which)];
  return dataset ? &*dataset : nullptr;
}

double fill_batch(const GptDataset& data, std::int64_t first, std::int64_t sequences,
                  int micro_batches, const Batch& batch) {
  const auto length = static_cast<std::size_t>(data.seq_length());
  std::vector<float> mask(length * static_cast<std::size_t>(sequences));
  double sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(sequences); ++i) {
    const std::size_t at = i * length;
    const auto part = [&](const auto& all) { return all.subspan(at, length); };
    data.get(first + static_cast<std::int64_t>(i), part(batch.ids.span<std::int32_t>()),
             part(batch.labels.span<std::int32_t>()), part(std::span(mask)));
    for (std::size_t t = 0; t < length; ++t)
      batch.positions.as<std::int32_t>()[at + t] = static_cast<std::int32_t>(t);
  }
  for (const float m : mask) sum += static_cast<double>(m);
  with_float_type(batch.loss_mask.dtype(), [&]<class T>() {
    for (std::size_t t = 0; t < mask.size(); ++t) {
      batch.loss_mask.as<T>()[t] = static_cast<T>(mask[t]);
      batch.row_weight.as<T>()[t] =
          static_cast<T>(sum == 0 ? 0 : static_cast<double>(mask[t]) / sum / micro_batches);
    }
  });
  return sum;
}

}  // namespace mt
