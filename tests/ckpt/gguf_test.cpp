#include "ckpt/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <random>

#include "base/sha256.h"
#include "ckpt/gguf_quantize.h"
#include "ckpt/safetensors.h"
#include "tests/base/scratch.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

using test::from_hex;

// Of gguf 0.19's GGUFWriter and quants.quantize(), given what the test writes.
const std::string kGolden = from_hex(
    "474755460300000003000000000000000700000000000000140000000000000067656e6572616c2e61726368"
    "69746563747572650800000005000000000000006c6c616d6101000000000000006e04000000070000000100"
    "00000000000078060000000000003f0100000000000000620700000001010000000000000074090000000800"
    "0000020000000000000001000000000000006102000000000000006263010000000000000069090000000500"
    "0000020000000000000001000000feffffff0100000000000000730900000006000000020000000000000000"
    "00803e000080bf01000000000000007702000000030000000000000002000000000000000000000000000000"
    "0000000001000000000000007102000000200000000000000001000000000000000800000020000000000000"
    "0001000000000000006801000000030000000000000001000000600000000000000000000000000000000000"
    "000000000000803f0000004000004040000080400000a0400000000000000000462bb5bcc2c9cfd6dce3e9f0"
    "f6fd030a10171d242a31373e444b51585e656b72787f00000000000000000000000000000000000000000000"
    "0000000000000000003c004000420000000000000000000000000000000000000000000000000000");

template <class T, std::size_t size>
ConstTensor tensor(const T (&values)[size], DType dtype, const Shape& shape) {
  return {values, dtype, shape};
}

TEST(Gguf, FilesAreAsItsOwnPackageWritesThem) {
  const Scratch scratch;
  GgufKeyValues settings;
  settings.text("general.architecture", "llama");
  settings.integer("n", 7);
  settings.real("x", 0.5F);
  settings.flag("b", true);
  settings.texts("t", {"a", "bc"});
  settings.integers("i", {1, -2});
  settings.reals("s", {0.25F, -1});
  const std::string path = scratch.path("model.gguf");
  GgufWriter writer(
      path, settings,
      {{"w", GgufType::f32, {2, 3}}, {"q", GgufType::q8_0, {1, 32}}, {"h", GgufType::f16, {3}}});
  const float w[] = {0, 1, 2, 3, 4, 5};
  float q[32];
  for (int i = 0; i < 32; ++i) q[i] = (static_cast<float>(i) - 11.5F) * 0.37F;
  const std::uint16_t h[] = {0x3c00, 0x4000, 0x4200};
  writer.write("h", tensor(h, DType::f16, {3}));  // in any order
  writer.write("q", tensor(q, DType::f32, {1, 32}));
  writer.write("w", tensor(w, DType::f32, {2, 3}));
  writer.close();
  EXPECT_EQ(read_file(path), kGolden);
}

TEST(Gguf, FilesAreRead) {
  const Scratch scratch;
  const std::string path = scratch.path("model.gguf");
  File::create(path).write(kGolden);
  const auto source = open_tensors(path);  // by its content
  const auto& reader = dynamic_cast<const GgufReader&>(*source);
  const auto json = [&](const char* key) { return reader.values().at(key).json(); };
  EXPECT_EQ(json("general.architecture"), "\"llama\"");
  EXPECT_EQ(json("n"), "7");
  EXPECT_EQ(json("x"), "0.5");
  EXPECT_EQ(json("b"), "true");
  EXPECT_EQ(json("t"), "\"2 elements\"");
  EXPECT_EQ(reader.values().at("n").as_integer(""), 7);
  EXPECT_EQ(test::error_of([&] { reader.values().at("n").as_text("n"); }),
            "n: is of type 4, expected 8, a text");
  float w[6], q[32], some[4];
  reader.read_original("w", {0, 0}, {w, DType::f32, {2, 3}});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(w[i], static_cast<float>(i));
  reader.read_original("q", {0, 0}, {q, DType::f32, {1, 32}});
  for (int i = 0; i < 32; ++i)
    EXPECT_NEAR(q[i], (static_cast<float>(i) - 11.5F) * 0.37F, 0.37 * 19.5 / 127);
  reader.read_original("q", {0, 5}, {some, DType::f32, {1, 4}});
  EXPECT_EQ(std::memcmp(some, q + 5, sizeof some), 0);
  EXPECT_EQ(reader.at("q").dtype_name, "q8_0");
  EXPECT_EQ(reader.at("h").dtype, DType::f16);
  EXPECT_EQ(reader.at("h").chunks[0].place.offset % 32, 0u);
}

TEST(Gguf, ScalesMustBeFinite) {
  const Scratch scratch;
  const std::string path = scratch.path("model.gguf");
  File::create(path).write(kGolden);
  const std::uint64_t at = GgufReader(path).at("q").chunks[0].place.offset;
  for (const char* scale : {"\x00\x7c", "\x00\xfe"}) {  // infinite, not a number
    std::string file = kGolden;
    file.replace(at, 2, std::string(scale, 2));
    File::create(path).write(file);
    float q[32];
    EXPECT_EQ(test::error_of([&] {
                GgufReader(path).read_original("q", {0, 0}, {q, DType::f32, {1, 32}});
              }),
              path + ": q: the scale of a block of q8_0 is not finite");
  }
}

TEST(Gguf, DamagedFilesAreRefused) {
  const auto refused = [](const std::string& file) {
    return test::error_of([&] { parse_gguf(as_bytes(file), "x", "x"); });
  };
  for (std::size_t size = 0; size < kGolden.size() - 32; ++size)
    EXPECT_NE(refused(kGolden.substr(0, size)), "") << size;
  EXPECT_NE(refused(kGolden + std::string(32, '\0')).find("behind the last tensor"),
            std::string::npos);
  const auto with = [](std::size_t at, const std::string& bytes) {
    std::string file = kGolden;
    return file.replace(at, bytes.size(), bytes);
  };
  EXPECT_NE(refused(with(4, "\4")).find("version 4"), std::string::npos);
  EXPECT_NE(refused(with(8, std::string(8, '\xff'))), "");   // tensors
  EXPECT_NE(refused(with(16, std::string(8, '\xff'))), "");  // key-values
  const std::size_t w = kGolden.find("w\2");
  ASSERT_NE(w, std::string::npos);
  EXPECT_NE(refused(with(w + 5, std::string(8, '\x7f'))).find("of more elements"),
            std::string::npos);
  EXPECT_NE(refused(with(w + 21, "\5")).find("of type 5"), std::string::npos);
  EXPECT_NE(refused(with(w + 21, "\xf")).find("of type q8_k are not"), std::string::npos);
  EXPECT_NE(refused(with(w + 21, "\xc")).find("w of q4_k and of shape [2, 3]"), std::string::npos);
  EXPECT_NE(refused(with(w + 25, "\1")).find("a tensor at"), std::string::npos);
  EXPECT_NE(refused(with(w, "q")).find("a second tensor q"), std::string::npos);
}

// A header of so many key-values and tensors, whose names have so many bytes; their numbers are 0.
std::string header(std::uint64_t tensors, std::size_t tensor_name, std::uint64_t values,
                   std::size_t key) {
  std::string file("GGUF\3\0\0\0", 8);
  const auto put = [&](std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) file += static_cast<char>(i < 8 ? number >> 8 * i : 0);
  };
  const auto put_name = [&](std::uint64_t number, std::size_t bytes) {
    std::string name = std::to_string(number);
    name.resize(bytes, ' ');
    put(bytes, 8);
    file += name;
  };
  put(tensors, 8);
  put(values, 8);
  for (std::uint64_t i = 0; i < values; ++i) {
    put_name(i, key);
    put(0, 4 + 1);  // a u8
  }
  for (std::uint64_t i = 0; i < tensors; ++i) {
    put_name(i, tensor_name);
    put(1, 4);      // axis
    put(0, 8 + 4);  // of no elements of f32
    put(0, 8);
  }
  file.resize((file.size() + 31) / 32 * 32);
  return file;
}

TEST(Gguf, ManyThingsTakeLittleMemoryAndTime) {
  const std::string most = header(1 << 15, 256, 1 << 14, 1024), values = header(0, 0, 2'000'000, 7),
                    tensors = header(1'000'000, 7, 0, 0), long_name = header(1, 257, 0, 0),
                    long_key = header(0, 0, 1, 1025);
  const std::size_t before = test::peak_memory();
  const std::clock_t began = std::clock();
  EXPECT_EQ(parse_gguf(as_bytes(most), "x", "x").tensors.size(), 1u << 15);
  const auto refused = [](const std::string& file) {
    return test::error_of([&] { parse_gguf(as_bytes(file), "x", "x"); });
  };
  EXPECT_EQ(refused(values),
            "x: byte 24: 0 tensors and 2000000 key-values, expected at most 32768 and 16384");
  EXPECT_NE(refused(tensors).find("1000000 tensors"), std::string::npos);
  EXPECT_NE(refused(long_name).find("a name of 257 bytes"), std::string::npos);
  EXPECT_NE(refused(long_key).find("a name of 1025 bytes"), std::string::npos);
  EXPECT_LT(std::clock() - began, CLOCKS_PER_SEC);
  EXPECT_LT(test::peak_memory() - before, 64u << 20);
}

// Of scripts/make-gguf-block-goldens.py.
TEST(Gguf, BlocksAreItsOwnPackagesNumbers) {
  const Scratch scratch;
  const SafetensorsReader goldens(std::string(MT_TESTDATA) + "/gguf/blocks.safetensors");
  int types = 0;
  for (const auto& [key, stored] : goldens.tensors()) {
    const auto dot = key.find(".blocks");
    if (dot == std::string::npos) continue;
    const std::string name = key.substr(0, dot);
    const GgufBlocks* const of = gguf_blocks(name);
    ASSERT_NE(of, nullptr) << name;
    ++types;
    ASSERT_EQ(stored.shape[1], 2 * static_cast<std::int64_t>(of->bytes)) << name;
    const auto bytes = static_cast<std::size_t>(stored.shape.numel());
    std::vector<std::byte> blocks(bytes);
    goldens.read_original(key, {0, 0}, {blocks.data(), DType::u8, stored.shape});
    const Shape shape = {2, 2 * of->elements};
    const auto count = static_cast<std::size_t>(shape.numel());
    std::vector<float> expected(count), found(count);
    goldens.read_original(name + ".elements", {0, 0}, {expected.data(), DType::f32, shape});
    EXPECT_TRUE(dequantize(*of, found.data(), blocks));
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(found[i], expected[i]) << name << ", element " << i;
    EXPECT_EQ(gguf_bytes(of->type, shape), bytes) << name;
    EXPECT_EQ(name_of(of->type), name);
  }
  EXPECT_EQ(types, 23);
}

TEST(Gguf, ScalesOfBlocksMustBeFinite) {
  constexpr unsigned char kInfinite[] = {0x00, 0x7c};
  for (const auto& [name, at] : {std::pair("q4_1", 2),
                                 {"q5_0", 0},
                                 {"q2_k", 82},
                                 {"q3_k", 108},
                                 {"q4_k", 2},
                                 {"q6_k", 208},
                                 {"iq2_xxs", 0},
                                 {"iq3_s", 0},
                                 {"iq1_s", 0},
                                 {"iq4_xs", 0},
                                 {"tq1_0", 52}}) {
    const GgufBlocks& of = *gguf_blocks(name);
    std::vector<std::byte> block(of.bytes, std::byte{0x11});
    std::vector<float> elements(static_cast<std::size_t>(of.elements));
    EXPECT_TRUE(dequantize(of, elements.data(), block)) << name;
    std::memcpy(block.data() + at, kInfinite, sizeof kInfinite);
    EXPECT_FALSE(dequantize(of, elements.data(), block)) << name;
  }
  std::vector<std::byte> block(17, std::byte{0xff});
  float elements[32];
  EXPECT_FALSE(dequantize(*gguf_blocks("mxfp4"), elements, block));
}

// The first of sha256 of what ggml's quantize_row_*_ref make of the numbers (ggml d99724f2).
TEST(Gguf, NumbersBecomeTheBlocksThatGgmlMakes) {
  constexpr std::pair<const char*, const char*> kGoldens[] = {
      {"q4_0", "325e6febcccae4dd"}, {"q4_1", "7c1b5f9a488a1c24"}, {"q5_0", "986858afdbe0ac9e"},
      {"q5_1", "0ac5fd142c767d71"}, {"q8_0", "5d08f833b3de6014"}, {"q2_k", "896df5bf68652f46"},
      {"q3_k", "9fa20f28565aa897"}, {"q4_k", "b6e0246d6f38261c"}, {"q5_k", "292bb0aa2e4ed6c4"},
      {"q6_k", "ea0f0ad2a37895f7"}};
  std::vector<float> numbers;
  for (int i = 0; i < 256; ++i)
    numbers.push_back(static_cast<float>((37 * i + 11) % 256 - 128) / 64 *
                      (1 + static_cast<float>(i / 32) / 8));
  for (const auto& [name, expected] : kGoldens) {
    const GgufBlocks& of = *gguf_blocks(name);
    std::string blocks(gguf_bytes(of.type, {256}), '\0');
    quantize(of.type, reinterpret_cast<std::byte*>(blocks.data()), numbers);
    EXPECT_EQ(sha256_hex(blocks).substr(0, 16), expected) << name;
  }
}

// Of xllamacpp 2026.10.11549's ggml_quantize_chunk with an importance matrix.
TEST(Gguf, ImportanceDecidesBlocksAsGgmlsDoes) {
  constexpr std::pair<const char*, const char*> kGoldens[] = {
      {"q4_0", "1c39e30de5f699d8"}, {"q4_1", "ceaf3ac5a72d77cb"}, {"q5_0", "01d06ffcb5d8c688"},
      {"q5_1", "9e316b6282241e89"}, {"q8_0", "5d08f833b3de6014"}, {"q2_k", "20bdec27f30089dc"},
      {"q3_k", "e000ab40868e9194"}, {"q4_k", "770e25d7ea0e88c5"}, {"q5_k", "422598099be67b79"},
      {"q6_k", "3c37cadab8f247b1"}};
  std::vector<float> numbers, importance;
  for (int i = 0; i < 256; ++i) {
    numbers.push_back(static_cast<float>((37 * i + 11) % 256 - 128) / 64 *
                      (1 + static_cast<float>(i / 32) / 8));
    importance.push_back(static_cast<float>((53 * i + 7) % 17) / 8);
  }
  for (const auto& [name, expected] : kGoldens) {
    const GgufBlocks& of = *gguf_blocks(name);
    std::string blocks(gguf_bytes(of.type, {256}), '\0');
    quantize(of.type, reinterpret_cast<std::byte*>(blocks.data()), numbers, importance);
    EXPECT_EQ(sha256_hex(blocks).substr(0, 16), expected) << name;
  }
}

// Parts of zeros beside others, and numbers that rounding alone is left of.
TEST(Gguf, QuantizedNumbersAreAsNearAsBitsAllow) {
  std::mt19937 draw(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(std::size_t{256} * 16), read(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = i % 256 < 64 ? 0 : i < 128 ? 1e-40F : i < 256 ? 1e-20F : normal(draw);
  double before = 0;
  // Of each type what the error of normal numbers is at most, and at least what the next reaches.
  for (const auto& [name, most] : {std::pair("q2_k", .32),
                                   {"q3_k", .16},
                                   {"q4_0", .1},
                                   {"q4_1", .09},
                                   {"q4_k", .075},
                                   {"q5_0", .05},
                                   {"q5_1", .045},
                                   {"q5_k", .038},
                                   {"q6_k", .02},
                                   {"q8_0", .007}}) {
    const GgufBlocks& of = *gguf_blocks(name);
    std::vector<std::byte> blocks(gguf_bytes(of.type, {std::ssize(numbers)}));
    quantize(of.type, blocks.data(), numbers);
    EXPECT_TRUE(dequantize(of, read.data(), blocks)) << name;
    double squares = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i % 256 < 64) {
        EXPECT_EQ(read[i], 0) << name << ", element " << i;
      }
      squares += std::pow(double{read[i]} - double{numbers[i]}, 2);
    }
    const double error = std::sqrt(squares / static_cast<double>(numbers.size()));
    EXPECT_LT(error, most) << name;
    if (before > 0) {
      EXPECT_LT(error, before) << name;
    }
    before = error;
  }
}

TEST(Gguf, BlocksOfZerosAndHalves) {
  std::byte out[2 * 34];
  float values[64] = {};
  values[32] = 127;  // the scale is 1: halves go away from zero
  values[33] = 2.5F;
  values[34] = -2.5F;
  quantize(GgufType::q8_0, out, values);
  for (int i = 0; i < 34; ++i) EXPECT_EQ(out[i], std::byte{0}) << i;
  const unsigned char expected[] = {0x00, 0x3c, 127, 3, 0xfd, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[34 + i], std::byte{expected[i]}) << i;
  for (const float odd : {NAN, INFINITY, 1e-45F}) {
    values[0] = odd;
    quantize(GgufType::q8_0, out, values);
    EXPECT_EQ(out[2], std::byte{0});
  }
}

TEST(Gguf, ATensorOfAnotherShapeOrNameIsOurMistake) {
  const Scratch scratch;
  const float w[] = {0, 1};
  const std::vector<GgufWriter::Entry> one = {{"w", GgufType::f32, {2}}};
  GgufWriter writer(scratch.path("a.gguf"), {}, one);
  EXPECT_THROW(writer.write("w", tensor(w, DType::f32, {1, 2})), Error);
  EXPECT_THROW(GgufWriter(scratch.path("b.gguf"), {}, {one[0], one[0]}), Error);
}

}  // namespace
}  // namespace mt
