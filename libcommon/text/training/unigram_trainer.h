// UnigramTrainer: learns a unigram model for SentencePiece (Kudo: arXiv:1804.10959, section 3.2) as
// Google's trainer does, but for two things: there a substring that the same character always
// follows is no seed even if that is of the next word, a space say, and a character may go for a
// time.
//
// The normal form of the texts (spaces stay; one is put before each text) is cut into words: before
// each space, where the script changes (Unicode's property Script; Han, Hiragana and Katakana are
// one, Inherited is that of the character before, a space has none), at ASCII's control characters,
// after kLongestWord bytes, and at rare characters, which are those beyond the most frequent ones
// that make up kCoverage of all. No piece reaches beyond a word.  With n[w] occurrences of word w:
//   seed     all characters, by their occurrences, and the kSeedPieces substrings of 2 to
//            kLongestPiece characters of the largest (occurrences x characters) of those that occur
//            twice or more, and not always before the same character of a word; each with a
//            probability in proportion to that
//   E step   c[x] = sum_w n[w] E[occurrences of piece x | w], over all ways to cut w into pieces,
//            by the forward-backward algorithm; in units of 2^-20, so that their order is all one
//   M step   pieces of c[x] < 0.5 go, but that a character's is 0.5 at least;
//            log p[x] = digamma(c[x]) - digamma(sum_x c[x])  (Liang and Klein: Structured Bayesian
//            Nonparametric Models, ACL 2007 tutorial)
//   pruning  after two of each, while there are more than 1.1 vocab_size pieces: x goes if the best
//            ways to cut the words or x itself do not use it; of the others those of the largest
//              f[x] (log(f[x] / F) - sum_{a in A} log((f[a] + f[x]) / (F + f[x] (|A| - 1))))
//            stay, 3 in 4 of all pieces: f[x] is how often the best ways use x, F the sum of that,
//            A the best way to cut x itself into other pieces.  Characters stay.
//   the end  the characters, and the most probable of the other pieces
// The ids: <unk>, <s>, </s>, the 256 bytes, to which what is no piece falls back, and the pieces
// by falling log probability, which is their score.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_normalizer.h"
#include "text/training/output_folder.h"
#include "text/training/piece_counts.h"

namespace mt {

// DIRECTORY/tokenizer.model, as SentencePiece reads it.  Made before the training, so that what is
// in the way is known before it.
class SentencePieceFiles {
 public:
  static std::vector<std::string> paths(const std::string& directory);
  // Makes the directory if need be.  Without `overwrite` an existing file is refused.
  SentencePieceFiles(const std::string& directory, bool overwrite);
  void commit(const SentencePieceModel& model);  // without it nothing remains

 private:
  OutputFolder folder_;
  AtomicFile model_;
};

// Not thread-safe: several threads fill one each, and the counts of all are put together.
class UnigramTrainer {
 public:
  using Files = SentencePieceFiles;
  static constexpr std::int32_t kSpecialPieces = 3 + 256;  // <unk>, <s>, </s> and the bytes
  static constexpr std::int32_t kMinimumVocabSize = kSpecialPieces + 1;
  static constexpr double kCoverage = 0.9995;
  static constexpr std::size_t kLongestPiece = 16;     // characters
  static constexpr std::size_t kLongestWord = 1024;    // bytes
  static constexpr std::size_t kSeedPieces = 1000000;  // or 10 times vocab_size, if that is more

  UnigramTrainer();

  void add(std::string_view text);          // any bytes; keeps each different word once
  PieceCounts& counts() { return words_; }  // of all that was added; a space is U+0020

  // The model does not depend on the number of threads or the order of the texts.  Throws
  // Exit::usage for less than kMinimumVocabSize and Exit::bad_data, naming the size that is
  // possible, when the texts have too few pieces or too many characters.  `checkpoint` runs before
  // each E step and each pruning; what it throws ends the training.
  SentencePieceModel train(
      std::int32_t vocab_size, const std::function<void()>& checkpoint = [] {}) const;

 private:
  SentencePieceModel empty_;  // without pieces: how texts are normalised
  SentencePieceNormalizer normalizer_;
  PieceCounts words_;
};

}  // namespace mt
