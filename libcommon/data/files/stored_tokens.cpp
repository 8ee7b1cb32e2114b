#include "data/files/stored_tokens.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace mt {
namespace {

// What of a token is not in its element: 0 where all is.
template <class T>
auto missed(std::int32_t token) {
  using Whole = std::conditional_t<std::is_integral_v<T>, std::int32_t, std::int64_t>;
  if constexpr (std::is_unsigned_v<T>)
    return token & ~Whole{std::numeric_limits<T>::max()};
  else
    return static_cast<Whole>(static_cast<T>(token)) ^ token;
}

// All elements; false where a token misses something, which is no way out of the loop, so that the
// compiler makes it one of vectors.
template <class T>
[[gnu::always_inline]] inline bool convert(std::span<const std::int32_t> tokens, T* to) {
  decltype(missed<T>(0)) any = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    to[i] = static_cast<T>(tokens[i]);
    any |= missed<T>(tokens[i]);
  }
  return any == 0;
}

template <class T>
[[gnu::target("avx512f,avx512bw,avx512vl")]] bool convert_avx512(
    std::span<const std::int32_t> tokens, T* to) {
  return convert(tokens, to);
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::optional<std::int32_t> StoredTokens::append(TokenType type,
                                                 std::span<const std::int32_t> tokens) {
  return with_token_type(type, [&]<class T>() -> std::optional<std::int32_t> {
    const std::size_t end = size_ + tokens.size() * sizeof(T);
    if (end > capacity_) {
      capacity_ = 2 * end;
      auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity_);
      std::ranges::copy(bytes(), larger.get());
      bytes_ = std::move(larger);
    }
    T* const to = reinterpret_cast<T*>(bytes_.get() + size_);
    size_ = end;
    if (has_avx512() ? convert_avx512(tokens, to) : convert(tokens, to)) return std::nullopt;
    return *std::ranges::find_if(tokens, [](std::int32_t token) { return missed<T>(token) != 0; });
  });
}

}  // namespace mt
