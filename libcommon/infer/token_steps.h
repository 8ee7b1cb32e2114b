// TokenSteps: the steps of a generation on a GPU, a token more of each of some sequences.  The GPU
// takes the tokens that it chooses itself and counts on, so that a step needs nothing from the
// host: while the host looks at the tokens of one step the next one runs, of the same sequences.
// The host takes those of its tokens that it then asks for, and leaves those of sequences that have
// ended; the tokens of sequences that began meanwhile come from a step of their own.  It only runs
// where the sequences' pages have places for its tokens, and is told of pages that came since, and
// of choices that differ by more than their places.  Each number of sequences and of keys, rounded
// up, is a captured graph from its second step on; the first loads what it needs.  Several may take
// turns on one pass, each with sequences of its own.  Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "model/pass.h"

namespace mt {

class KvCache;

class TokenSteps {
 public:
  struct Options {
    std::int64_t together = 1;     // sequences at most
    std::int64_t page_tokens = 0;  // of the cache
    // Off where a step that is thrown away would leave what it has done to states.
    bool runs_ahead = true;
  };
  TokenSteps(Pass& pass, const Options& options);
  TokenSteps(const TokenSteps&) = delete;
  ~TokenSteps();

  // A sequence has at most so many pages from now on, unless memory runs out, which changes
  // nothing; the pass must have forgotten what it captured before.
  void reserve(std::int64_t pages);

  struct Turn {
    std::vector<std::int64_t> sequences;  // slots of the cache
    std::vector<std::int32_t> ids;        // their last tokens
    std::vector<Choice> choices;
    bool operator==(const Turn&) const = default;
  };
  // What a sequence of the turn has in the cache.
  struct Row {
    std::int64_t* length;  // one more afterwards, for which it must have pages
    std::int64_t read;     // of what the encoder has read
    std::span<const std::int32_t> pages;
    std::int64_t adapter = 0;  // as in CachedPass
  };
  // The tokens that follow.  behind: the choices of those behind them.
  std::span<const std::int32_t> next(const Turn& turn, std::span<const Choice> behind,
                                     const KvCache& cache, std::span<const Row> rows);
  // How likely each token was that next() has said last, as sample() says; only those of choices
  // that are scored count.
  std::span<const double> scores() const { return scores_; }

  // The sequence has changed, in more than by pages behind those that it has: its token that runs
  // ahead does not count.
  void forget(std::int64_t sequence) {
    std::ranges::replace(ahead_.sequences, sequence, std::int64_t{-1});
  }

 private:
  static PassSize size_of_step(std::int64_t sequences, std::int64_t pages);
  std::size_t input_bytes(std::int64_t pages) const;
  PassInput input_in(const Buffer& buffer, std::int64_t sequences) const;
  void send(const Turn& turn, std::span<const Row> rows);
  void put_pages(std::int32_t* table, std::span<const Row> rows);
  void send_pages(std::span<const Row> rows);
  void send_choices(const Turn& turn, std::span<const Choice> behind);
  void queue(std::span<const Row> rows, const KvCache& cache);
  bool has_places(std::span<const Row> rows) const;
  void take_shown(std::size_t row, const Choice& choice, std::size_t to);
  std::vector<std::size_t> take_ahead(const Turn& turn);
  void step_of(std::span<const std::size_t> some, const Turn& turn, const KvCache& cache,
               std::span<const Row> rows);
  void look_ahead(const Turn& turn, std::span<const Choice> behind);
  void go_on(const Turn& turn, std::span<const Choice> behind, const KvCache& cache,
             std::span<const Row> rows);

  Pass& pass_;
  Options options_;
  std::int64_t pages_ = 0;
  Buffer input_, host_;                   // on the GPU, and in pinned memory
  Tensor shown_, shown_scores_;           // pinned: the tokens of two steps, and their scores
  Tensor tables_;                         // pinned: [2, together, pages] of steps, by turns
  Tensor choices_;                        // likewise: [2, together words of a Choice] i32
  std::size_t pages_there_ = 0;           // of all sequences of the turn, that the GPU knows of
  std::array<EventHandle, 2> done_ = {};  // steps, by turns
  std::size_t queued_ = 0;                // steps so far
  bool running_ahead_ = false;
  Turn ahead_;  // what the step is that runs ahead
  std::vector<std::int32_t> tokens_;
  std::vector<double> scores_;
};

}  // namespace mt
