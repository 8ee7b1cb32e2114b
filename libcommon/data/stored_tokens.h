// Tokens as a token file has them: each an element of its type, back to back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "data/token_type.h"

namespace mt {

// Appends the tokens' elements.  Returns the first that the type cannot hold, if there is one.
inline std::optional<std::int32_t> append_stored(std::vector<std::byte>& out, TokenType type,
                                                 std::span<const std::int32_t> tokens) {
  return with_token_type(type, [&]<class T>() -> std::optional<std::int32_t> {
    using Whole = std::conditional_t<std::is_integral_v<T>, std::int32_t, std::int64_t>;
    const auto misses = [](std::int32_t token) {
      return static_cast<Whole>(static_cast<T>(token)) ^ token;
    };
    const std::size_t before = out.size();
    out.resize(before + tokens.size() * sizeof(T));
    T* const to = reinterpret_cast<T*>(out.data() + before);
    Whole missed = 0;  // no way out of the loop, so that the compiler makes it one of vectors
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      to[i] = static_cast<T>(tokens[i]);
      missed |= misses(tokens[i]);
    }
    if (missed == 0) return std::nullopt;
    return *std::find_if(tokens.begin(), tokens.end(), misses);
  });
}

}  // namespace mt
