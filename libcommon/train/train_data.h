// TrainData: the token file of a run, cut into training, validation and test samples, and the
// tokenizer's facts that go with it.  Shared by all ranks, read-only.
#pragma once

#include <array>
#include <optional>

#include "data/gpt_dataset.h"
#include "data/manifest.h"
#include "data/split.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace mt {

struct DataOptions {
  std::string data_path, split = "969, 30, 1";
  std::int64_t seq_length = 0;
  bool eod_mask_loss = false;
  TokenizerOptions tokenizer;
  void add_to(CommandLine& cl);
};

class TrainData {
 public:
  // Opens the file and its manifest.  The tokenizer comes from the options or else from the
  // manifest; where both know it, they must agree (Exit::bad_config).
  explicit TrainData(const DataOptions& options);

  // Cuts it for a run of `length`.
  void build(const TrainingLength& length, std::uint64_t seed);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TokenizerOptions& tokenizer_options() const { return tokenizer_options_; }
  // Null where the split has no share of the file.
  const GptDataset* split(Split which) const;

 private:
  DataOptions options_;
  IndexedDataset file_;
  TokenizerOptions tokenizer_options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::array<std::optional<GptDataset>, kSplits> splits_;
};

// Fills `batch` with samples [first, first + sequences): tokens, labels, positions 0, 1, …, the
// mask, and row_weight = mask / sum(mask) / micro_batches.  Returns the sum of the mask: the tokens
// that count.
double fill_batch(const GptDataset& data, std::int64_t first, std::int64_t sequences,
                  int micro_batches, const Batch& batch);

}  // namespace mt
