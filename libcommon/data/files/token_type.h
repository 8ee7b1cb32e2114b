// Element types of a token file, numbered as in the header of an .idx file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace mt {

enum class TokenType : std::uint8_t { u8 = 1, i8, i16, i32, i64, f64, f32, u16 };

// What Megatron-LM picks for a vocabulary: u16 below 65500 ids, else i32.
constexpr TokenType token_type_for(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

// Calls body.template operator()<T>() with the C++ type of `type`.
template <class Body>
decltype(auto) with_token_type(TokenType type, Body&& body) {
  switch (type) {
    case TokenType::u8:
      return std::forward<Body>(body).template operator()<std::uint8_t>();
    case TokenType::i8:
      return std::forward<Body>(body).template operator()<std::int8_t>();
    case TokenType::i16:
      return std::forward<Body>(body).template operator()<std::int16_t>();
    case TokenType::i64:
      return std::forward<Body>(body).template operator()<std::int64_t>();
    case TokenType::f64:
      return std::forward<Body>(body).template operator()<double>();
    case TokenType::f32:
      return std::forward<Body>(body).template operator()<float>();
    case TokenType::u16:
      return std::forward<Body>(body).template operator()<std::uint16_t>();
    case TokenType::i32:
      break;
  }
  return std::forward<Body>(body).template operator()<std::int32_t>();
}

inline std::size_t size_of(TokenType type) {
  return with_token_type(type, []<class T>() { return sizeof(T); });
}

// These are numpy's names.
constexpr const char* name_of(TokenType type) {
  constexpr const char* kNames[] = {"uint8", "int8",    "int16",   "int32",
                                    "int64", "float64", "float32", "uint16"};
  return kNames[static_cast<int>(type) - 1];
}

}  // namespace mt
