// CountRuns: counts of words that memory does not hold.  Those that were counted so far go to the
// disk, sorted by their bytes, as often as need be; in the end the runs are merged, and the words
// that occur most often are taken, as many as fit.  Nothing of it remains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "text/training/piece_counts.h"

namespace mt {

class CountRuns {
 public:
  // `path`: beside which a temporary file lies, once there is a run.
  explicit CountRuns(std::string path) : path_(std::move(path)) {}

  void write(PieceCounts& counts);  // and empties them; thread-safe
  bool empty() const { return runs_.empty(); }

  // What a training with these words takes of memory: so much for each word, and each byte of it.
  struct Costs {
    std::size_t word, byte;
  };
  struct Choice {
    std::int64_t whole_from = 1;  // all words that occur so often were taken, or more often
    std::int64_t left_out = 0;    // words, of those that occur less often
  };
  // Moves to `all`, which is empty, the words that occur most often, as many as cost no more than
  // `memory`; of those that occur equally often, and of which some fit, about as many as do, by a
  // hash: of all that `counts` and the runs have, as if they had been counted at once.
  Choice take(std::vector<PieceCounts*> counts, Costs costs, std::size_t memory, PieceCounts& all);

 private:
  struct Run {
    std::uint64_t begin, end;  // in the file
  };
  class Reader;
  using Found = std::function<void(std::string_view word, std::int64_t count)>;
  void for_each_word(const Found& found) const;

  std::string path_;
  std::mutex mutex_;
  std::optional<AtomicFile> file_;
  std::uint64_t size_ = 0;  // of the file
  std::vector<Run> runs_;
};

}  // namespace mt
