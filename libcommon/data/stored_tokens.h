// Tokens as a token file has them: each an element of its type, back to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/token_type.h"

namespace mt {

// Appends the tokens' elements.  Returns the first that the type cannot hold, if there is one.
std::optional<std::int32_t> append_stored(std::vector<std::byte>& out, TokenType type,
                                          std::span<const std::int32_t> tokens);

}  // namespace mt
