#include "text/sentencepiece/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/file.h"
#include "tests/base/scratch.h"
#include "tests/text/sentencepiece_files.h"
#include "text/sentencepiece/charsmap.h"

namespace mt {
namespace {

using Model = SentencePieceModel;
using Type = Model::Type;
using Algorithm = Model::Algorithm;

std::string error_of_model(const std::string& content) {
  return error_of([&] { parse_sentencepiece_model(content, "m"); });
}

std::string with_piece(const Model::Piece& piece, const std::string& trainer = {}) {
  return small_model(Algorithm::unigram, {piece}, trainer);
}

std::string le32(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// A map of characters: 256 units, those given and else ones that lead to nothing, and "x\0".
std::string charsmap(std::initializer_list<std::pair<int, std::uint32_t>> units) {
  std::vector<std::uint32_t> all(256, 1 << 10);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = 1 << 10 | 0xFF;
  for (const auto& [at, unit] : units) all[at] = unit;
  std::string blob = le32(1024);
  for (const std::uint32_t unit : all) blob += le32(unit);
  return blob + std::string("x\0", 2);
}

constexpr std::uint32_t kRoot = 1 << 10;                    // its children lie at 1 ^ byte
constexpr std::uint32_t kLetterA = 2 << 10 | 1 << 8 | 'a';  // at 1 ^ 'a', has a value
constexpr int kAtA = 1 ^ 'a';

}  // namespace

TEST(SentencePieceModel, FieldsAreRead) {
  const std::string trainer = proto_integer(24, 1) + proto_bytes(44, "?") + proto_bytes(46, "[B]") +
                              proto_bytes(47, "") + proto_bytes(99, "new");
  const std::string normalizer = proto_integer(3, 0) + proto_integer(4, 0) + proto_integer(5, 0);
  std::string content =
      small_model(Algorithm::bpe, {{"ab", -1.5f, Type::normal}, {"[B]", 0, Type::control}}, trainer,
                  normalizer);
  content += proto_integer(900, 7) + proto_float(901, 1) + proto_bytes(5, proto_integer(4, 0));
  content += concat("\xF1\x38", std::string(8, 'x'));  // field 910, an f64
  const Model model = parse_sentencepiece_model(content, "m");
  ASSERT_EQ(model.pieces.size(), 5u);
  EXPECT_EQ(model.pieces[3].text, "ab");
  EXPECT_EQ(model.pieces[3].score, -1.5f);
  EXPECT_EQ(model.algorithm, Algorithm::bpe);
  EXPECT_TRUE(model.whitespace_as_suffix);
  EXPECT_FALSE(model.byte_fallback);
  EXPECT_EQ(model.unk_surface, "?");
  EXPECT_FALSE(model.normalizer.add_dummy_prefix || model.normalizer.remove_extra_whitespaces ||
               model.normalizer.escape_whitespaces);
  EXPECT_TRUE(model.denormalizer.add_dummy_prefix);
  EXPECT_FALSE(model.denormalizer.remove_extra_whitespaces);
  EXPECT_EQ(model.unk, 0);
  EXPECT_EQ(model.bos, 4);
  EXPECT_EQ(model.eos, 2);
  EXPECT_EQ(model.pad, -1);
}

TEST(SentencePieceModel, WhatIsWrittenIsRead) {
  const std::string trainer =
      proto_integer(24, 1) + proto_bytes(44, "?") + proto_bytes(46, "[B]") + proto_bytes(48, "a");
  const std::string normalizer = proto_bytes(2, charsmap({{0, kRoot}, {kAtA, kLetterA}}));
  std::string content =
      small_model(Algorithm::bpe, {{"ab", -1.5f, Type::normal}, {"[B]", 0, Type::control}}, trainer,
                  normalizer + proto_integer(4, 0));
  content += proto_bytes(5, proto_integer(3, 0));
  const Model model = parse_sentencepiece_model(content, "m");
  const Model again = parse_sentencepiece_model(sentencepiece_model_content(model), "m");
  ASSERT_EQ(again.pieces.size(), 5u);
  for (std::size_t id = 0; id < 5; ++id) {
    EXPECT_EQ(again.pieces[id].text, model.pieces[id].text);
    EXPECT_EQ(again.pieces[id].score, model.pieces[id].score);
    EXPECT_EQ(again.pieces[id].type, model.pieces[id].type);
  }
  EXPECT_EQ(again.algorithm, Algorithm::bpe);
  EXPECT_TRUE(again.whitespace_as_suffix);
  EXPECT_EQ(again.unk_surface, "?");
  EXPECT_EQ(again.bos, 4);
  EXPECT_EQ(again.eos, 2);
  EXPECT_EQ(again.pad, -1);
  EXPECT_EQ(again.normalizer.charsmap, model.normalizer.charsmap);
  EXPECT_FALSE(again.normalizer.remove_extra_whitespaces);
  EXPECT_FALSE(again.denormalizer.add_dummy_prefix);
}

TEST(SentencePieceModel, EachCutIsRefused) {
  for (const char* name : {"unigram", "bpe"}) {
    const std::string content =
        read_file(std::string(MT_TESTDATA "/sentencepiece/") + name + ".model");
    parse_sentencepiece_model(content, "m");
    for (std::size_t size = 0; size < content.size(); ++size) {
      const std::string error = error_of_model(content.substr(0, size));
      ASSERT_TRUE(error.starts_with("65 m: ")) << name << ", " << size << " bytes: " << error;
      ASSERT_EQ(error.find('\n'), std::string::npos) << error;
    }
  }
}

TEST(SentencePieceModel, MalformedProtobufs) {
  EXPECT_EQ(error_of_model(""), "65 m: no pieces, not a SentencePiece model");
  EXPECT_EQ(error_of_model("{\"version\""), "65 m: is JSON, expected a SentencePiece model");
  EXPECT_EQ(error_of_model("\x0A"),
            "65 m: byte 0: needs 1 bytes and 0 are left: cut, or not a protobuf");
  EXPECT_EQ(error_of_model("\x0A\x05xx"),
            "65 m: byte 0: needs 5 bytes and 2 are left: cut, or not a protobuf");
  EXPECT_EQ(error_of_model("\x0A\x02\x0A\x7F"),
            "65 m: byte 2: needs 127 bytes and 0 are left: cut, or not a protobuf");
  EXPECT_EQ(
      error_of_model(concat("\x0A", std::string(9, '\xFF'), "\x01")),
      "65 m: byte 0: needs 18446744073709551615 bytes and 0 are left: cut, or not a protobuf");
  EXPECT_EQ(error_of_model(std::string(11, '\xFF')),
            "65 m: byte 0: a number of more than 10 bytes, not a protobuf");
  EXPECT_EQ(error_of_model(std::string("\0", 1)), "65 m: byte 0: field number 0, not a protobuf");
  EXPECT_EQ(error_of_model("\x0B"), "65 m: byte 0: field 1 of wire type 3, expected 0, 1, 2 or 5");
  EXPECT_EQ(error_of_model(proto_integer(1, 3)),
            "65 m: byte 0: field 1 of wire type 0, expected 2");
  EXPECT_EQ(error_of_model(proto_bytes(1, proto_bytes(1, "a\xFF"))),
            "65 m: byte 2: field 1 is not UTF-8");
}

TEST(SentencePieceModel, ContradictionsAreNamed) {
  const std::string good = with_piece({"a", 0, Type::normal});
  EXPECT_EQ(error_of_model(good), "");
  EXPECT_EQ(error_of_model(good.substr(0, good.size() - 2)),
            "65 m: no normalizer_spec: cut, or not a SentencePiece model");
  EXPECT_EQ(error_of_model(with_piece({"", 0, Type::normal})), "65 m: piece 3 is empty");
  EXPECT_EQ(error_of_model(with_piece({"<s>", 0, Type::normal})),
            "65 m: piece 3, \"<s>\", is there twice");
  EXPECT_EQ(error_of_model(with_piece({std::string("a\0", 2), 0, Type::normal})),
            "65 m: piece 3 holds a NUL");
  EXPECT_EQ(error_of_model(with_piece({std::string(8000, 'a'), 0, Type::normal})),
            "65 m: piece 3 has 8000 bytes, expected less than 8000");
  EXPECT_EQ(error_of_model(with_piece({"a", std::numeric_limits<float>::infinity(), Type::normal})),
            "65 m: piece 3, \"a\": its score is not finite");
  EXPECT_EQ(error_of_model(with_piece({"a", 0, Type::unknown})),
            "65 m: pieces 0 and 3 both are of type 2, unknown");
  EXPECT_EQ(error_of_model(with_piece({"a", 0, static_cast<Type>(7)})),
            "65 m: byte 55: type 7 of a piece, expected 1 to 6");
  EXPECT_EQ(error_of_model(with_piece({"<0x41>", 0, Type::byte})),
            "65 m: piece 3 is of type 6, byte, without byte_fallback");
  const std::string fallback = proto_integer(35, 1);
  EXPECT_EQ(error_of_model(with_piece({"<0x4g>", 0, Type::byte}, fallback)),
            "65 m: piece 3, \"<0x4g>\", is of type 6, expected <0x00> to <0xFF>");
  EXPECT_EQ(error_of_model(with_piece({"<\n>", 0, Type::byte}, fallback)),
            "65 m: piece 3, \"<\\n>\", is of type 6, expected <0x00> to <0xFF>");
  EXPECT_EQ(error_of_model(with_piece({"<0x00>", 0, Type::byte}, fallback)),
            "65 m: byte_fallback, but no piece for byte 1");
  for (const int type : {0, 5})
    EXPECT_TRUE(
        error_of_model(small_model(static_cast<Algorithm>(type), {}))
            .ends_with(concat("model type ", type,
                              ", expected 1 (unigram), 2 (BPE), 3 (words) or 4 (characters)")));
  const std::string piece = proto_piece({"a", 0, Type::normal});
  EXPECT_EQ(error_of_model(piece + proto_bytes(2, "") + proto_bytes(3, "")),
            "65 m: no piece of type 2, unknown");
}

TEST(CharsMap, LongestKeyWins) {
  const CharsMap map(charsmap({{0, kRoot}, {kAtA, kLetterA}, {kAtA ^ 2, 1u << 31}}), "m: ");
  EXPECT_EQ(map.longest_prefix("ab").length, 1u);
  EXPECT_EQ(map.longest_prefix("ab").replacement, "x");
  EXPECT_EQ(map.longest_prefix("b").length, 0u);
  EXPECT_TRUE(map.touches_ascii('a'));
  EXPECT_FALSE(map.touches_ascii('b'));
  EXPECT_EQ(CharsMap().longest_prefix("a").length, 0u);
}

TEST(CharsMap, DamageIsNamed) {
  const auto error = [](const std::string& blob) {
    return error_of([&] { CharsMap(blob, "m: "); });
  };
  const auto line = [](const char* what) { return concat("65 m: the map of characters: ", what); };
  EXPECT_EQ(error("abcd"), line("4 bytes, expected a trie and replacements"));
  EXPECT_EQ(error(le32(1000) + "abcd"),
            line("a trie of 1000 bytes in 4, expected a multiple of 1024"));
  EXPECT_EQ(error(le32(0) + "abcd"), line("a trie of 0 bytes in 4, expected a multiple of 1024"));
  std::string open = charsmap({{0, kRoot}});
  EXPECT_EQ(error(open), "");
  open.back() = 'x';
  EXPECT_EQ(error(open), line("replacements that are not UTF-8 ended by NUL"));
  EXPECT_EQ(error(charsmap({})), line("a trie without a root"));
  EXPECT_EQ(error(charsmap({{0, kRoot}, {kAtA, kLetterA}})),
            line("unit 96 of the trie has no value where one should be"));
  EXPECT_EQ(error(charsmap({{0, kRoot}, {5, 1u << 31 | 2}})),
            line("unit 5 of the trie names no replacement"));
  EXPECT_EQ(error(charsmap({{0, kRoot}, {5, 256 << 10}})),
            line("unit 5 of the trie leads out of it"));
}

}  // namespace mt
