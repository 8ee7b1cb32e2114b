// TextStates: what a GPT makes of a text, as one vector: the last hidden states of its last token,
// of its first, or the mean of all tokens'; of length 1.  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/pass.h"

namespace mt {

enum class Pooling : std::uint8_t { last, mean, cls };

class TextStates {
 public:
  TextStates(const Model& model, int threads);  // of the CPU; 0: one a core

  // The state of a text, which has 1 to max_position_embeddings tokens.  adapter: as in CachedPass.
  std::vector<float> of(std::span<const std::int32_t> ids, Pooling pooling,
                        std::int64_t adapter = 0);

 private:
  Stream stream_;
  Pass pass_;
  std::int64_t length_ = 0, rows_ = 0;  // what the pass has room for
};

}  // namespace mt
