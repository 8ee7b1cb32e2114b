// PromptScores: how likely a GPT finds each token of a prompt, and which it finds likelier.  Logits
// of no more tokens are kept at a time than fit into some memory, so that long prompts take several
// passes.  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/sampling.h"
#include "model/pass.h"

namespace mt {

class PromptScores {
 public:
  // Over the first `vocab_size` tokens; threads of the CPU, 0: one a core.
  PromptScores(const Model& model, std::int64_t vocab_size, int threads);

  // Log-probabilities of ids[1] and those behind it, with so many alternatives each.  adapter: as
  // in CachedPass.
  std::vector<LogProbs> score(std::span<const std::int32_t> ids, std::size_t alternatives,
                              std::int64_t adapter = 0);

 private:
  void reserve(std::int64_t length, std::int64_t rows);

  Stream stream_;
  Pass pass_;
  std::int64_t most_rows_, length_ = 0, rows_ = 0;  // what the pass has room for
};

}  // namespace mt
