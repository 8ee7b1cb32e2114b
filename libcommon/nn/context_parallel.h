// Context parallelism: ranks share every sequence.  Of P ranks, each sequence is cut into 2 P
// chunks of equal length, of which rank r has the r-th and the r-th from the end, so that all see
// as many keys (Megatron's zig-zag).  A Step's tokens are its rank's, its positions those in the
// sequence.
//
// Only attention and a Mamba's mixer look at other ranks' tokens.  For the mixer all ranks exchange
// tokens for heads (nn/mamba.h).  For attention they form in each layer a grid of `heads` x `ring`
// of them: those of a `heads` group exchange tokens for heads, so that each has all the
// group's tokens of some heads (Jacobs et al.: arXiv:2309.14509); those of a `ring` group send each
// other their keys and values.
//   p2p         ring, from neighbour to neighbour while the ones before are computed with
//               (Liu, Zaharia, Abbeel: arXiv:2310.01889)
//   all_gather  ring, all keys and values at once
//   a2a         heads;  a2a_p2p  neighbours exchange heads, and rings go from group to group
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "comm/group.h"
#include "nn/context_comm.h"
#include "nn/step.h"

namespace mt {

struct Rope;  // ops/ops.h

class ContextParallel {
 public:
  // How each layer's attention does it, or all layers' if there is one; with a2a_p2p so many
  // neighbours exchange heads.  Keys that are passed on lie in `memory`, which is as large on every
  // rank and must outlive this.
  ContextParallel(Group& ranks, std::vector<ContextComm> comm, int neighbours,
                  const Tensor& memory);

  int size() const { return ranks_.size(); }
  Group& ranks() const { return ranks_; }
  int rank() const { return ranks_.rank(); }
  bool copies() const { return copies_; }  // whether GPUs copy other ranks' keys by themselves
  // The groups of a layer's grid, and whether keys are passed on in its ring or gathered.
  struct Grid {
    Group *heads, *ring;
    bool passes;
  };
  ContextComm comm(std::int64_t layer) const {  // those behind the last have the last one's
    return comm_[std::min(static_cast<std::size_t>(layer), comm_.size() - 1)];
  }
  Grid grid(std::int64_t layer) const;

 private:
  Group& ranks_;
  std::vector<ContextComm> comm_;
  std::unique_ptr<Group> alone_, whole_ring_, neighbours_, rings_;
  bool copies_ = false;
};

// The positions at which the two chunks of a rank begin.
std::array<std::int64_t, 2> chunk_starts(std::int64_t chunk, int ranks, int rank);

// Consecutive rows whose tokens follow each other in a sequence of `length` tokens; `first` is the
// first one's sequence times `length` plus its position.
struct TokenRun {
  std::int64_t begin = 0, end = 0, first = 0;
};
std::vector<TokenRun> token_runs(const Step& s, std::int64_t begin, std::int64_t end);
std::int64_t whole_length(const Step& s);  // of a sequence, over all ranks
// Returns what all ranks' tokens have, i32, in the order of whole sequences; in `layer`.
ConstTensor of_whole_sequences(Step& s, ConstTensor of_tokens);

// Dropout of this rank's rows of hidden states (ops.h), by their places in whole sequences.
void add_dropout(Step& s, Tensor y, ConstTensor residual, ConstTensor x, ConstTensor bias,
                 const Dropout& dropout);
void add_dropout_backward(Step& s, Tensor dx, ConstTensor dy, const Dropout& dropout);
// Returns dy behind a dropout: made for weight gradients to read, or, where nothing is dropped, dy.
ConstTensor dropped_gradient(Step& s, ConstTensor dy, const Dropout& dropout);
// Rotary embedding of all tokens of this rank.
void turn_tokens(Step& s, Tensor x, Rope rope, bool inverse);

}  // namespace mt
