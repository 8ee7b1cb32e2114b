// TokenSteps: the steps of a generation on a GPU, a token more of each of some sequences.  The GPU
// takes the tokens that it chooses itself and counts on, so that a step needs nothing from the
// host: while the host looks at the tokens of one step the next one runs, and is thrown away if the
// host wants another.  Each number of sequences and of keys, rounded up, is a captured graph from
// its second step on; the first loads what it needs.  Not thread-safe.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "infer/runner_input.h"
#include "tensor/graph.h"

namespace mt {

class TokenSteps {
 public:
  // Queues a step: the tokens that follow input.ids go there and to `shown`, as of Sample, and its
  // choices, positions and lengths are the next step's.  `longest`: tokens of a sequence at most.
  using Forward =
      std::function<void(const RunnerInput& input, const Tensor& shown, std::int64_t longest)>;

  // At most `together` sequences of at most `max_tokens` tokens.
  TokenSteps(Stream& stream, std::int64_t together, std::int64_t max_tokens, Forward forward);
  TokenSteps(const TokenSteps&) = delete;
  ~TokenSteps();

  struct Turn {
    std::vector<std::int64_t> sequences;  // slots of the cache
    std::vector<std::int32_t> ids;        // their last tokens
    std::vector<Choice> choices;
    bool operator==(const Turn&) const = default;
  };
  // The tokens that follow; lengths: of all slots, the turn's being one more afterwards.
  std::span<const std::int32_t> next(const Turn& turn, std::span<std::int64_t> lengths);

  // The sequences have changed: what runs ahead does not count.
  void forget() { running_ahead_ = false; }

 private:
  void send(const Turn& turn, std::span<const std::int64_t> lengths);
  void queue(std::int64_t sequences, std::int64_t longest);

  Stream& stream_;
  std::int64_t max_tokens_;
  Forward forward_;
  Buffer input_, host_;                                   // on the GPU, and in pinned memory
  Tensor shown_;                                          // pinned: the tokens of two steps
  std::array<EventHandle, 2> done_ = {};                  // steps, by turns
  std::size_t queued_ = 0;                                // steps so far
  Graphs<std::pair<std::int64_t, std::int64_t>> graphs_;  // by sequences and keys
  bool running_ahead_ = false;
  Turn ahead_;  // what the step is that runs ahead
  std::vector<std::int32_t> tokens_;
};

}  // namespace mt
