// Training a tokenizer's vocabulary on JSON lines or plain text: `mt-preprocess vocab`.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/run_context.h"
#include "data/corpus/corpus_reader.h"

namespace mt {

struct VocabularyOptions {
  CorpusOptions corpus;
  std::string tokenizer_type = "GPT2BPETokenizer";  // what it is a vocabulary of
  std::int64_t vocab_size = 0;
  std::string output_dir;     // gets vocab.json and merges.txt, vocab.txt or tokenizer.model
  std::int64_t memory = 512;  // MiB for words and their counts; rare ones beyond are left out

  void add_to(CommandLine& cl);
};

struct VocabularySummary {
  std::int64_t input_files = 0, input_bytes = 0, lines = 0, bad_lines = 0, vocab_size = 0;
  void write(JsonWriter& json) const;  // schema mt-vocab/1
};

// Learns GPT-2's byte-level BPE (text/training/bpe_trainer.h), BERT's WordPiece
// (text/training/word_piece_trainer.h) or SentencePiece's unigram model
// (text/training/unigram_trainer.h) and writes it.  The result does not depend on the number of
// threads.  Words are counted on the disk where memory is too small for all; those of the fewest
// occurrences for which the training has no memory are left out, with a warning.
VocabularySummary train_vocabulary(const VocabularyOptions& options, const RunContext& context);

}  // namespace mt
