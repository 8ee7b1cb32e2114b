// ChunkText: what a chunk says, of which embeddings are made: the text of its tokens without ends
// of document.  Thread-safe; must not outlive its tokenizer.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace mt {

class ChunkText {
 public:
  explicit ChunkText(const Tokenizer& gpt);
  std::string of(std::span<const std::int32_t> tokens) const;

 private:
  const Tokenizer& gpt_;
  std::string end_;  // what the tokenizer makes of an end of document
};

}  // namespace mt
