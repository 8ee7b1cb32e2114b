// HeadExchange: the ranks of a `heads` group (context_parallel.h) between two ways to share the
// work: each has its tokens of all heads, or all tokens of its heads.  All tokens of a sequence lie
// in the order of their positions.  Memory is the layer arena's, until the caller rewinds it.
#pragma once

#include "nn/step.h"

namespace mt {

class HeadExchange {
 public:
  HeadExchange(Step& s, Group& ranks) : s_(s), ranks_(ranks) {}

  // [tokens, columns of all heads, …] of own tokens -> [all tokens, columns of own heads, …].
  // Where the group is this rank alone, or `own` is empty, they are the same.
  ConstTensor to_heads(ConstTensor own);
  Tensor room(Tensor own);                        // what to_heads() would return, not filled
  void to_tokens(Tensor own, ConstTensor parts);  // and back
  ConstTensor all(ConstTensor own);               // [tokens] -> [all tokens]

 private:
  Shape parts_of(const Shape& own) const;
  // Chunks of all tokens: `ordered` by sequences and positions, `by_rank` by ranks before.
  void order(Tensor ordered, ConstTensor by_rank);
  void part(Tensor by_rank, ConstTensor ordered);

  Step& s_;
  Group& ranks_;
};

}  // namespace mt
