// Tokens as a token file has them: each an element of its type, back to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/file.h"
#include "data/files/token_type.h"

namespace mt {

class StoredTokens {
 public:
  // Appends the tokens' elements.  Returns the first that the type cannot hold, if there is one.
  std::optional<std::int32_t> append(TokenType type, std::span<const std::int32_t> tokens);
  void clear() { size_ = 0; }
  Bytes bytes() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;  // no vector, which would set them to zero first
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace mt
