// SampleOptions: of what kind the samples of a run are, and how they are made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mt {

class CommandLine;

inline constexpr double kMostTokens = 2147483646;   // of a sample
inline constexpr std::int64_t kMostTextsOfRow = 8;  // samples that are packed

enum class SampleType : std::uint8_t {
  gpt,   // gpt_dataset.h
  bert,  // bert_dataset.h
  t5,    // t5_dataset.h
};

SampleType sample_type(const std::string& name);  // "gpt", "bert" or "t5"

// MaskOptions: how text is masked in samples of BERT and T5, in Megatron's words.
struct MaskOptions {
  double mask_prob = 0.15, short_seq_prob = 0.1;
  bool binary_head = true, pack_sequences = false;      // BERT's
  std::optional<std::int64_t> decoder_seq_length = {};  // T5's

  void add_to(CommandLine& cl);
  std::int64_t texts_of_row() const { return pack_sequences ? kMostTextsOfRow : 1; }
  // Throws Exit::usage, naming the option, where one says something that samples of this type have
  // no use for, or where one is missing.  `type_option`: by which the type is told.
  void check(SampleType type, const std::string& type_option) const;
};

}  // namespace mt
