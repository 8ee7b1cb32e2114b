// WordPieceTrainer: learns BERT's vocabulary from texts.
//
// The texts are cut into words as Hugging Face's BertNormalizer and BertPreTokenizer do it, which
// differ from Megatron's tokenizer (text/bert/bert_tokenizer.h) in rare characters only, and the
// words counted. The tokens begin with [PAD], [UNK], [CLS], [SEP] and [MASK]; then comes each
// character of the words, then, with ## before it, each that goes on with a word, both in the order
// of their code points. Pairs of them are merged (text/training/pair_merger.h); the right one loses
// its ##. These are the rules of Hugging Face's WordPieceTrainer, with the one difference that the
// order of its characters with ##, and so what it takes of pairs that occur equally often, is
// another in each run.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "text/training/output_folder.h"
#include "text/training/pair_merger.h"
#include "text/training/piece_counts.h"

namespace mt {

// DIRECTORY/vocab.txt, as BertTokenizer reads it.  Made before the training, so that what is in the
// way is known before it.
class WordPieceFiles {
 public:
  static std::vector<std::string> paths(const std::string& directory);
  // Makes the directory if need be.  Without `overwrite` an existing file is refused.
  WordPieceFiles(const std::string& directory, bool overwrite);
  void commit(const std::vector<std::string>& tokens);  // without it nothing remains

 private:
  OutputFolder folder_;
  AtomicFile vocabulary_;
};

// Not thread-safe: several threads fill one each, and the counts of all are put together.
class WordPieceTrainer {
 public:
  using Files = WordPieceFiles;
  static constexpr std::array<std::string_view, 5> kSpecial = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                               "[MASK]"};
  static constexpr std::int32_t kMinimumVocabSize = kSpecial.size();

  // `lower_case`: takes lower case and drops accents.
  explicit WordPieceTrainer(bool lower_case) : lower_case_(lower_case) {}

  void add(std::string_view text);          // keeps each different word once
  PieceCounts& counts() { return words_; }  // of all that was added

  // The tokens by id.  Throws Exit::bad_data, naming the least or the largest possible size, when
  // the texts have too many characters or too few pairs.  `checkpoint` runs for each token beyond
  // the special ones; what it throws ends the training.
  std::vector<std::string> train(
      std::int32_t vocab_size, const std::function<void()>& checkpoint = [] {}) const;

 private:
  bool lower_case_;
  PieceCounts words_;
};

}  // namespace mt
