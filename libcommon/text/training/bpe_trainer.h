// BpeTrainer: learns GPT-2's byte-level BPE from texts.
//
// The texts are cut into pieces (text/bpe/gpt2_split.h; ill-formed UTF-8 is read as U+FFFD) and the
// pieces counted. The tokens begin with the 256 bytes in the order of their byte characters
// (text/bpe/byte_map.h), and pairs of them are merged (text/training/pair_merger.h). These are the
// rules of Hugging Face's BpeTrainer; the merges are equal to its.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "text/training/output_folder.h"
#include "text/training/pair_merger.h"
#include "text/training/piece_counts.h"

namespace mt {

struct TrainedBpe {
  std::vector<std::string> tokens;  // the bytes of each id; the last is <|endoftext|>
  // The two ids that make up each token from 256 on, the last excepted; by rank.
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;
};

// DIRECTORY/vocab.json and DIRECTORY/merges.txt, as Gpt2Bpe reads them.  Made before the training,
// so that what is in the way is known before it.
class BpeFiles {
 public:
  static std::vector<std::string> paths(const std::string& directory);
  // Makes the directory if need be.  Without `overwrite` existing files are refused.
  BpeFiles(const std::string& directory, bool overwrite);
  void commit(
      const TrainedBpe& bpe);  // writes both; each appears whole.  Without it nothing remains

 private:
  OutputFolder folder_;
  AtomicFile vocabulary_, merges_;
};

// Not thread-safe: several threads fill one each, and the counts of all are put together.
class BpeTrainer {
 public:
  using Files = BpeFiles;
  static constexpr std::int32_t kMinimumVocabSize = 257;  // the bytes and <|endoftext|>

  void add(std::string_view text);           // keeps each different piece once
  PieceCounts& counts() { return pieces_; }  // of all that was added

  // Throws Exit::usage for less than kMinimumVocabSize and Exit::bad_data, naming the largest
  // possible size, when the texts have too few pairs.  `checkpoint` runs before each merge; what it
  // throws ends the training.
  TrainedBpe train(
      std::int32_t vocab_size, const std::function<void()>& checkpoint = [] {}) const;

 private:
  PieceCounts pieces_;
};

}  // namespace mt
