// InBatchRetrieval: each query is to find its own context, the first of those that it brings, among
// all of a batch, which are those of the micro-batches of all data-parallel ranks together
// (Karpukhin et al.: arXiv:2004.04906, section 3.2; Megatron-LM core_v0.12.1, pretrain_ict.py):
//   scores = factor Q C^T     of all, [n, n each]; losses: kernels/retrieval_loss.h
// Every rank computes all of it, in the sum_dtype, and has the losses of its own queries.  What it
// adds to its own weights is through its own rows of Q and C, so that the sum over ranks is the
// gradient of the sum of all losses.  No parameters.
#pragma once

#include "kernels/retrieval_loss.h"
#include "nn/step.h"

namespace mt {

struct RetrievalRules {
  double factor = 1;
  RetrievalTops tops = {};
};

class InBatchRetrieval {
 public:
  struct Saved {
    Tensor queries, contexts;  // [n, width] and [n each, width], of all ranks
    Tensor gradient;           // of the scores, times the factor
  };
  // What is made of this rank's own queries: loss, weight [sequences], hits [tops.count sequences].
  // With an empty weight nothing is saved.
  struct Out {
    Tensor loss, hits;
    ConstTensor weight;
  };
  // queries: [sequences, width]; contexts: [sequences each, width].
  static void forward(Step& s, const Out& out, ConstTensor queries, ConstTensor contexts,
                      const RetrievalRules& rules, Saved* saved);
  static void backward(Step& s, Tensor d_queries, Tensor d_contexts, const Saved& saved);
};

}  // namespace mt
