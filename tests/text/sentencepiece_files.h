// Small SentencePiece models for tests, as the bytes of a `.model` file.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece/sentencepiece_model.h"

namespace mt {

inline std::string proto_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string proto_integer(int number, std::uint64_t value) {
  return proto_varint(static_cast<std::uint64_t>(number) << 3) + proto_varint(value);
}
inline std::string proto_bytes(int number, std::string_view bytes) {
  return proto_varint(static_cast<std::uint64_t>(number) << 3 | 2) + proto_varint(bytes.size()) +
         std::string(bytes);
}
inline std::string proto_float(int number, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string bytes = proto_varint(static_cast<std::uint64_t>(number) << 3 | 5);
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(bits >> (8 * i));
  return bytes;
}

inline std::string proto_piece(const SentencePieceModel::Piece& piece) {
  return proto_bytes(1, proto_bytes(1, piece.text) + proto_float(2, piece.score) +
                            proto_integer(3, static_cast<std::uint64_t>(piece.type)));
}

// A model of these pieces behind <unk>, <s> and </s>.  `trainer` and `normalizer`: further fields.
inline std::string small_model(SentencePieceModel::Algorithm algorithm,
                               const std::vector<SentencePieceModel::Piece>& pieces,
                               const std::string& trainer = {},
                               const std::string& normalizer = {}) {
  using Type = SentencePieceModel::Type;
  std::string content;
  content += proto_piece({"<unk>", 0, Type::unknown});
  content += proto_piece({"<s>", 0, Type::control}) + proto_piece({"</s>", 0, Type::control});
  for (const SentencePieceModel::Piece& piece : pieces) content += proto_piece(piece);
  content += proto_bytes(2, proto_integer(3, static_cast<std::uint64_t>(algorithm)) + trainer);
  return content + proto_bytes(3, normalizer);
}

}  // namespace mt
