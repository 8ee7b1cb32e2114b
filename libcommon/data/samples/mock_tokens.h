// MockTokens: made-up text for trials without data (Megatron-LM core_v0.12.1, gpt_dataset.py,
// MockGPTLowLevelDataset): 100,000 sequences of 1 to 4095 tokens; one of length L is 1, 2, …, L -
// 1, and the end of a document.  As in later releases, numbers are taken modulo the vocabulary.
#pragma once

#include <vector>

#include "data/samples/token_sequences.h"

namespace mt {

class MockTokens final : public TokenSequences {
 public:
  MockTokens(std::int64_t vocab_size, std::int64_t eod);

  const std::string& name() const override { return name_; }
  std::int64_t sequences() const override { return std::ssize(lengths_); }
  std::int64_t length(std::int64_t sequence) const override {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  std::int64_t tokens(ItemRange sequences) const override;
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int64_t> out) const override;
  std::int64_t document_of(std::int64_t sequence) const override { return sequence; }
  std::string lengths_hash() const override { return "mock 1"; }

 private:
  std::string name_ = "--mock-data";
  std::vector<std::int32_t> lengths_;
  std::int64_t vocab_size_, eod_;
};

}  // namespace mt
