#include "ckpt/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "ckpt/torch_file.h"
#include "tests/ckpt/sample.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

using test::error_of;
using test::from_hex;
using test::OwnedTensor;
using test::same_bytes;
using test::sample_content;
using test::TemporaryFolder;

bool says(const std::string& error, const std::string& text) {
  return error.find(text) != std::string::npos;
}

std::string with_size(const std::string& header, const std::string& data) {
  std::string size(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) size[i] = static_cast<char>(header.size() >> 8 * i);
  return size + header + data;
}

// Specification 9.5.
const std::string kGolden = with_size(
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}}    )",
    from_hex("0000803f00000040803f0040"));

std::string parse_error(const std::string& file) {
  return error_of([&] { parse_safetensors(as_bytes(file), "m.safetensors", "m.safetensors"); });
}

OwnedTensor read_all(const TensorSource& source, const std::string& key) {
  const DistTensor& stored = source.at(key);
  OwnedTensor out(*stored.dtype, stored.own_shape());
  source.read_original(key, origin_of(stored.own_shape().rank()), out.view);
  return out;
}

TEST(Safetensors, WritesWhatIsSpecified) {
  EXPECT_EQ(kGolden.size(), 164u);
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path(), {{"w", DType::f32, {2}}, {"b", DType::bf16, {2}}},
                           1 << 30);
  const float w[] = {1, 2};
  const std::uint16_t b[] = {0x3f80, 0x4000};
  writer.write("b", {b, DType::bf16, {2}});
  writer.write("w", {w, DType::f32, {2}});
  writer.close();
  EXPECT_EQ(read_file(folder / "model.safetensors"), kGolden);
}

TEST(Safetensors, ReadsRegionsAndOtherFloats) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path(), {{"w", DType::f32, {2, 3}}}, 1 << 30);
  const float w[] = {1, 2, 3, 4, 5, 6};
  writer.write("w", {w, DType::f32, {2, 3}});
  writer.close();
  const auto source = open_tensors(folder.path());
  OwnedTensor out(DType::f64, {2, 2});
  source->read_original("w", {0, 1}, out.view);
  const double expected[] = {2, 3, 5, 6};
  EXPECT_TRUE(std::equal(expected, expected + 4, out.view.as<double>()));
  OwnedTensor wrong(DType::i32, {2, 2});
  EXPECT_TRUE(says(error_of([&] {
                     source->read_original("w", {0, 1}, wrong.view);
                   }),
                   "w: is float32, expected int32"));
  EXPECT_TRUE(says(error_of([&] {
                     source->read_original("w", {0, 2}, out.view);
                   }),
                   "w: has shape [2, 3], expected one with [2, 2] at [0, 2]"));
  EXPECT_TRUE(says(error_of([&] {
                     source->read_original("v", {0, 2}, out.view);
                   }),
                   "has no tensor v"));
}

TEST(Safetensors, ShardsComeBackWhole) {
  const TemporaryFolder folder;
  const std::vector<test::SampleTensor> samples = {{"a", DType::bf16, {3, 5}},
                                                   {"b", DType::f32, {4}},
                                                   {"c", DType::i64, {}},
                                                   {"d", DType::u8, {0, 7}},
                                                   {"e", DType::f16, {100}}};
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& sample : samples) entries.push_back({sample.key, sample.dtype, sample.shape});
  SafetensorsWriter writer(folder.path(), entries, 50);
  for (const auto& sample : samples) writer.write(sample.key, sample_content(sample, 1).view);
  writer.close();
  EXPECT_EQ(File::open(folder / "model-00003-of-00003.safetensors").size() % 8, 0u);
  const auto source = open_tensors(folder.path());
  EXPECT_EQ(source->tensors().size(), samples.size());
  for (const auto& sample : samples)
    EXPECT_TRUE(same_bytes(read_all(*source, sample.key).view, sample_content(sample, 1).view))
        << sample.key;
}

TEST(Safetensors, EveryTruncationIsRefused) {
  for (std::size_t size = 0; size < kGolden.size(); ++size)
    EXPECT_NE(parse_error(kGolden.substr(0, size)), "") << size;
  EXPECT_EQ(parse_error(kGolden), "");
  EXPECT_TRUE(says(parse_error(kGolden + "x"), "byte 164: belongs to no tensor"));
}

struct Hostile {
  const char *header, *error;
};

TEST(Safetensors, HostileHeadersAreRefused) {
  const std::string data(16, '\0');
#define MT_W(dtype, shape, offsets) \
  "{\"w\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
  const Hostile hostile[] = {
      {MT_W("F32", "[2]", "[0,8]") "}", "belongs to no tensor"},
      {MT_W("F32", "[2]", "[8,16]") "}", "belongs to no tensor"},
      {MT_W("F32", "[2]", "[0,8]") R"(,"v":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})",
       "tensors overlap"},
      {MT_W("F32", "[2]", "[0,8]") R"(,"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
       "tensor w comes twice"},
      {MT_W("F32", "[9223372036854775807]", "[0,16]") "}", "tensor w: expected a size below"},
      {MT_W("F32", "[4611686018427387904,2]", "[0,16]") "}", "expected a shape of at most 8"},
      {MT_W("F32", "[9223372036854775808]", "[0,16]") "}", "expected a shape of at most 8"},
      {MT_W("F32", "[4294967296,4294967296]", "[0,16]") "}", "expected a shape"},
      {MT_W("F32", "[-4]", "[0,16]") "}", "expected a shape"},
      {MT_W("F32", "[4.0]", "[0,16]") "}", "expected a shape"},
      {MT_W("F32", "[1,1,1,1,1,1,1,1,4]", "[0,16]") "}", "expected a shape"},
      {MT_W("F32", "4", "[0,16]") "}", "expected a shape"},
      {MT_W("F32", "[4]", "[16,0]") "}", "data_offsets inside of the file"},
      {MT_W("F32", "[4]", "[0,17]") "}", "data_offsets inside of the file"},
      {MT_W("F32", "[4]", "[0,18446744073709551615]") "}", "data_offsets inside of the file"},
      {MT_W("F32", "[4]", "[0,16,16]") "}", "data_offsets inside of the file"},
      {MT_W("F32", "[3]", "[0,16]") "}", "16 bytes for float32"},
      {MT_W("F4", "[3]", "[0,16]") "}", "16 bytes for F4"},
      {MT_W("F33", "[4]", "[0,16]") "}", "expected a dtype"},
      {R"({"w":{"dtype":"F32","shape":[4]}})", "expected dtype, shape and data_offsets"},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
       "expected dtype, shape and data_offsets"},
      {R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"x":1}})", "expected dtype"},
      {R"({"w":[]})", "expected dtype"},
      {R"({"__metadata__":{"a":1}})", "expected an object of strings"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "expected an object of strings"},
      {R"({"__metadata__":{},"__metadata__":{}})", "__metadata__ comes twice"},
      {"{} {}", "header: "},
      {"{", "header: "},
      {"{}", "belongs to no tensor"},
  };
#undef MT_W
  for (const Hostile& h : hostile) {
    const std::string error = parse_error(with_size(h.header, data));
    EXPECT_TRUE(says(error, h.error)) << h.header << "\n" << error;
  }
}

TEST(Safetensors, LyingSizesAreRefused) {
  for (const char* size : {"ffffffffffffffff", "0000000000000080", "01e1f50500000000",
                           "0000000000000000", "9000000000000001"})
    EXPECT_TRUE(says(parse_error(from_hex(size) + kGolden.substr(8)), "no safetensors file"))
        << size;
}

TEST(Safetensors, DeepHeadersAreRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(parse_error(with_size("{\"a\":" + std::string(10'000'000, '['), "")), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// --- Indexes ------------------------------------------------------------------------------------

class Index : public testing::Test {
 protected:
  Index() { test::write_whole(folder_ / "m.safetensors", kGolden); }
  std::string error(const std::string& index) {
    test::write_whole(folder_ / "model.safetensors.index.json", index);
    return error_of([&] { open_tensors(folder_.path()); });
  }
  const TemporaryFolder folder_;
};

TEST_F(Index, ListsJustTheTensorsOfItsFiles) {
  EXPECT_EQ(error(R"({"weight_map":{"w":"m.safetensors","b":"m.safetensors"}})"), "");
  EXPECT_TRUE(says(error(R"({"weight_map":{"w":"m.safetensors"}})"),
                   "weight_map: does not list b of m.safetensors"));
  EXPECT_TRUE(says(error(R"({"weight_map":{"w":"m.safetensors","v":"m.safetensors"}})"),
                   "weight_map: v: is not in m.safetensors"));
  EXPECT_TRUE(
      says(error(R"({"weight_map":{"w":"m.safetensors","w":"m.safetensors"}})"), "w comes twice"));
}

TEST_F(Index, NamesOnlyFilesBesideIt) {
  for (const char* name : {"../m.safetensors", "/m.safetensors", ""})
    EXPECT_TRUE(says(error(concat(R"({"weight_map":{"w":")", name, "\"}}")),
                     "w: expected the name of a file beside it"));
  EXPECT_TRUE(
      says(error(R"({"weight_map":{"w":"model.safetensors.index.json"}})"), "no safetensors file"));
  EXPECT_TRUE(says(error(R"({"weight_map":[]})"), "with a weight_map"));
}

// As large models' indexes do, of tens of thousands of experts' weights.
TEST_F(Index, MayTakeAsMuchMemoryAsTheFilesBesideItHave) {
  std::string many = R"({"weight_map":{"w":"m.safetensors")";
  for (int i = 0; i < 200'000; ++i) many += concat(",\"tensor-", i, R"(":"m.safetensors")");
  many += "}}";
  EXPECT_TRUE(says(error(many), "takes more memory than a file of its size may"));
  test::write_whole(folder_ / "other.safetensors", "");
  std::filesystem::resize_file(folder_ / "other.safetensors", 256 << 20);
  EXPECT_TRUE(says(error(many), "is not in m.safetensors"));
}

// --- torch.save ---------------------------------------------------------------------------------

TEST(TorchTensors, AreCalledByTheirKeys) {
  const TemporaryFolder folder;
  TorchWriter writer;
  const OwnedTensor a = sample_content({"a", DType::bf16, {2, 3}}, 1);
  PyValue inner = PyValue::dict({{"a", writer.tensor(a.view)}, {"step", 7}});
  const PyValue state = PyValue::dict({{"model", inner}, {"b", writer.tensor(a.view)}});
  File file = File::create(folder / "pytorch_model.bin");
  writer.write(state, "archive", [&](Bytes bytes) { file.write(bytes); });
  file.close();
  const auto source = open_tensors(folder.path());
  EXPECT_EQ(source->tensors().size(), 2u);
  EXPECT_TRUE(same_bytes(read_all(*source, "model.a").view, a.view));
  EXPECT_TRUE(same_bytes(read_all(*source, "b").view, a.view));
  test::write_whole(folder / "pytorch_model.bin", "PK\3\4");
  EXPECT_NE(error_of([&] { open_tensors(folder.path()); }), "");
}

}  // namespace
}  // namespace mt
