#include "retro/chunk_text.h"

#include <vector>

namespace mt {

ChunkText::ChunkText(const Tokenizer& gpt) : gpt_(gpt) {
  if (gpt.eod() >= 0) end_ = gpt.decode_text(std::vector<std::int32_t>{gpt.eod()});
}

std::string ChunkText::of(std::span<const std::int32_t> tokens) const {
  std::string text = gpt_.decode_text(tokens);
  for (std::size_t at = 0; !end_.empty() && (at = text.find(end_, at)) != std::string::npos;)
    text.erase(at, end_.size());
  return text;
}

}  // namespace mt
