// Runner: runs a full GPT forward without gradients, on the CPU, in memory whose size was found on
// `meta`. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/gpt.h"
#include "nn/kv_cache.h"

namespace mt {

class Runner {
 public:
  // `threads` 0: one a core.
  Runner(const Gpt& model, int threads);

  std::int64_t max_tokens() const { return model_.config().max_position_embeddings; }

  // nll[i] = -log p(ids[i + 1] | ids[0..i]), in nats; one less than the ids, of which there are at
  // least 2 and at most max_tokens() + 1.
  void score(std::span<const std::int32_t> ids, std::span<double> nll);

  // Generation.  logits() takes the tokens that follow those it has seen since start() and returns
  // the logits of the token after them, [padded vocabulary], valid until the next call.
  void start() { cache_.clear(); }
  std::int64_t length() const { return cache_.length(); }
  ConstTensor next_logits(std::span<const std::int32_t> ids);

 private:
  const Gpt& model_;
  Stream stream_;
  KvCache cache_;
  WeightGrads no_gradients_;
  Arena layer_, unused_;
};

}  // namespace mt
