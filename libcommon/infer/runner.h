// Runner: runs a GPT forward token by token, with a cache of keys and values, on the CPU, in memory
// whose size was found on `meta`.  Not thread-safe.
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

  // next_logits() takes the tokens that follow those it has seen since start() and returns
  // the logits of the token after them, [padded vocabulary], valid until the next call.
  void start() { cache_.clear(); }
  std::int64_t length() const { return cache_.length(); }
  ConstTensor next_logits(std::span<const std::int32_t> ids);

 private:
  const Gpt& model_;
  Stream stream_;
  KvCache cache_;
  Arena layer_;
};

}  // namespace mt
