#include "ckpt/torch_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ckpt/strided_copy.h"
#include "ckpt/torch_types.h"
#include "tests/ckpt/sample.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

using namespace std::string_literals;
using test::error_of;
using test::OwnedTensor;

template <class T>
std::vector<T> elements(const TorchReader& file, std::string_view key) {
  const StoredTensor stored = file.tensor(file.value().at(key, "file"));
  const OwnedTensor out(stored.dtype, stored.shape);
  stored.copy_to(out.view);
  const auto* const begin = static_cast<const T*>(static_cast<const void*>(out.view.data()));
  return {begin, begin + stored.shape.numel()};
}

// --- Files of PyTorch
// -----------------------------------------------------------------------------

TEST(TorchReader, TensorOfPyTorch113) {
  const std::string archive = read_file(test::testdata("torch-1.13-tensor.pt"));
  const TorchReader file(as_bytes(archive), "t.pt");
  ASSERT_TRUE(TorchReader::is_tensor(file.value()));
  const StoredTensor tensor = file.tensor(file.value());
  EXPECT_EQ(tensor.dtype, DType::f32);
  EXPECT_EQ(tensor.shape, Shape{4});
  EXPECT_TRUE(tensor.contiguous());
  const float expected[] = {1, 2, 3, 4};
  EXPECT_EQ(std::memcmp(tensor.bytes.data(), expected, sizeof expected), 0);
}

class ObjectFile : public testing::TestWithParam<const char*> {};

TEST_P(ObjectFile, EveryEntry) {
  const std::string archive = read_file(test::testdata(GetParam()));
  const TorchReader file(as_bytes(archive), GetParam());
  const PyValue& value = file.value();
  EXPECT_EQ(elements<float>(file, "view"), (std::vector<float>{6, 9, 12, 15, 18, 21}));
  EXPECT_EQ(elements<float>(file, "columns"), (std::vector<float>{3, 6, 15, 18, 27, 30}));
  EXPECT_FALSE(file.tensor(value.at("columns", "")).contiguous());
  EXPECT_EQ(elements<float>(file, "whole").size(), 12u);
  EXPECT_EQ(elements<float>(file, "parameter"), (std::vector<float>{5, 8}));
  EXPECT_TRUE(TorchReader::is_tensor(*value.at("state", "").find("a")));
  EXPECT_NE(error_of([&] { file.tensor(value.at("unsigned", "")); }).find("uint16"),
            std::string::npos);
  EXPECT_EQ(value.at("plain", ""),
            PyValue::list({true, PyValue(), -1, std::int64_t{1} << 40,
                           PyValue::big_integer(test::from_hex("0000000000000000000001")), 2.5,
                           "\u00e9\u4e2d", PyValue::bytes("\0\xff"s), PyValue::tuple({1, 2, 3, 4}),
                           PyValue::set({1, 2})}));
  EXPECT_EQ(dtype_of_torch(value.at("dtype", "")), DType::bf16);
  EXPECT_EQ(shape_of_torch(value.at("size", ""), ""), (Shape{2, 3}));
  EXPECT_TRUE(value.at("device", "").is_object("torch", "device"));
  EXPECT_EQ(value.at("args", "").at("num_layers", "").as_integer(""), 2);
}

INSTANTIATE_TEST_SUITE_P(All, ObjectFile,
                         testing::Values("object.pt", "deflated.pt", "pickles.pt"));

// --- Our own
// --------------------------------------------------------------------------------------

TEST(TorchWriter, MinimalPickleIsAsSpecified) {  // specification 9.2
  const std::string golden = test::from_hex(
      "800263746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a2828580700000073746f72"
      "61676563746f7263680a466c6f617453746f726167650a58010000003058030000006370754b0474514b004b024b"
      "02864b024b01868963636f6c6c656374696f6e730a4f726465726564446963740a295274522e");
  ASSERT_EQ(golden.size(), 130u);
  const float zeros[4] = {};
  std::string archive;
  write_torch_tensor({zeros, DType::f32, {2, 2}}, [&](Bytes b) { archive += as_text(b); });
  EXPECT_EQ(archive.substr(64, 130), golden);
}

TEST(TorchWriter, RoundTrip) {
  TorchWriter writer;
  std::vector<OwnedTensor> tensors;
  PyValue list = PyValue::list();
  for (const test::SampleTensor& sample : test::sample_tensors()) {
    tensors.push_back(test::sample_content(sample, 7));
    list.append(writer.tensor(tensors.back().view));
  }
  std::string archive;
  writer.write(list, "root", [&](Bytes b) { archive += as_text(b); });
  const TorchReader file(as_bytes(archive), "x.pt");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& expected = tensors[i].view;
    const StoredTensor stored = file.tensor(file.value().as_items("")[i]);
    ASSERT_EQ(stored.dtype, expected.dtype());
    ASSERT_EQ(stored.shape, expected.shape());
    const OwnedTensor out(stored.dtype, stored.shape);
    stored.copy_to(out.view);
    EXPECT_TRUE(test::same_bytes(out.view, expected));
  }
}

// --- Archives made by hand
// ------------------------------------------------------------------------

struct Crafted {
  std::string version = "3\n", byteorder = "little", storage = std::string(16, '\0');
  PyValue numel = 4, offset = 0, size = PyValue::tuple({2, 2}), stride = PyValue::tuple({2, 1});
  std::string key = "0";
};

std::string archive_of(const Crafted& c) {
  const PyValue storage = PyValue::persistent(PyValue::tuple(
      {"storage", PyValue::global("torch", "FloatStorage"), c.key, "cuda:0", c.numel}));
  const PyValue tensor = PyValue::call(PyValue::global("torch._utils", "_rebuild_tensor_v2"),
                                       {storage, c.offset, c.size, c.stride, false, PyValue()});
  std::string out;
  ZipWriter zip("archive", [&](Bytes b) { out += as_text(b); });
  zip.add("data.pkl", write_pickle(tensor));
  zip.add("byteorder", c.byteorder);
  zip.add("data/0", c.storage);
  zip.add("version", c.version);
  zip.finish();
  return out;
}

std::string error_for(const Crafted& crafted) {
  return error_of([&] {
    const std::string archive = archive_of(crafted);
    const TorchReader file(as_bytes(archive), "x.pt");
    file.tensor(file.value());
  });
}

TEST(TorchReader, TensorsThatDoNotFitTheirStorage) {
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_EQ(error_for({}), "");
  EXPECT_EQ(error_for({.offset = 4, .size = PyValue::tuple({0, 3})}), "");  // no element
  EXPECT_NE(error_for({.numel = 5}).find("5 elements in a record of 16"), std::string::npos);
  for (const Crafted& crafted : std::vector<Crafted>{
           {.numel = -1},
           {.offset = 1},
           {.offset = -1},
           {.offset = huge},
           {.size = PyValue::tuple({3, 2})},
           {.size = PyValue::tuple({huge, huge})},
           {.size = PyValue::tuple({-2, 2})},
           {.size = PyValue::tuple({2})},
           {.stride = PyValue::tuple({huge, huge})},
           {.stride = PyValue::tuple({-1, 1})},
           {.stride = PyValue::tuple({2, 2})},
           {.size = PyValue::tuple({1 << 20, 1 << 20}), .stride = PyValue::tuple({0, 0})},
           {.size = PyValue::list(std::vector<PyValue>(9, 1))},
           {.size = 4},
           {.key = "1"},
           {.key = "../0"},
           {.version = "11\n"},
           {.version = "x"},
           {.version = ""},
           {.byteorder = "middle"},
           {.storage = std::string(15, '\0')}})
    EXPECT_NE(error_for(crafted), "");
}

TEST(TorchReader, StrideOfAnAxisOfOneDoesNotMatter) {
  const std::string archive = archive_of(
      {.size = PyValue::tuple({1, 4}), .stride = PyValue::tuple({std::int64_t{1} << 60, 1})});
  const TorchReader file(as_bytes(archive), "x.pt");
  EXPECT_TRUE(file.tensor(file.value()).contiguous());
}

TEST(TorchReader, RowsOfATensorWithoutElements) {
  const StoredTensor stored{DType::f32, {2, 0}, {1, 1}, {}};
  const OwnedTensor out(DType::f32, {1, 0});
  stored.copy_to({1, 0}, out.view);  // a step from a null pointer would be undefined
}

TEST(TorchReader, BigEndian) {
  const std::string archive = archive_of({.byteorder = "big",
                                          .storage = "\x3f\x80\0\0"
                                                     "\x40\0\0\0"
                                                     "\x40\x40\0\0"
                                                     "\x40\x80\0\0"s});
  const TorchReader file(as_bytes(archive), "x.pt");
  const OwnedTensor out(DType::f32, {2, 2});
  file.tensor(file.value()).copy_to(out.view);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out.view.as<float>()[i], static_cast<float>(i + 1));
}

TEST(TorchReader, DamagedFilesOfPyTorchBefore16) {
  const std::string whole = read_file(test::testdata("pickles.pt"));
  const auto refused = [](const std::string& file) {
    return error_of([&] { TorchReader(as_bytes(file), "old.pt"); });
  };
  for (std::size_t size = 8; size < whole.size(); ++size)
    EXPECT_TRUE(refused(whole.substr(0, size)).starts_with("old.pt: ")) << size;
  EXPECT_EQ(refused(whole + "x"), "old.pt: 1 bytes behind the last storage");
  std::string other = whole;
  other[8] ^= 1;
  EXPECT_EQ(refused(other), "old.pt: begins like a file of PyTorch before 1.6, but is none");
  // The first storage claims more elements than any file has.
  const std::size_t keys = whole.rfind("e.");
  ASSERT_NE(keys, std::string::npos);
  other = whole;
  std::fill_n(other.begin() + static_cast<std::ptrdiff_t>(keys) + 2, 8, '\x7f');
  EXPECT_NE(refused(other).find("elements of "), std::string::npos) << refused(other);
}

TEST(TorchReader, OtherFilesAreNamed) {
  EXPECT_NE(error_of([] { TorchReader(as_bytes("text"), "x.pt"); }), "");
  std::string archive;
  ZipWriter zip("a", [&](Bytes b) { archive += as_text(b); });
  zip.add("version", "3\n");
  zip.finish();
  EXPECT_NE(error_of([&] { TorchReader(as_bytes(archive), "x.pt"); }).find("data.pkl"),
            std::string::npos);
}

// --- Copies
// ---------------------------------------------------------------------------------------

TEST(StridedCopy, ConvertsAndTransposes) {
  const float from[6] = {1, 2, 3, 4, 5, 6};
  double to[6] = {};
  run({.extents = {3, 2},
       .to = reinterpret_cast<std::byte*>(to),
       .to_strides = {2, 1},
       .from = reinterpret_cast<const std::byte*>(from),
       .from_strides = {1, 3},
       .to_dtype = DType::f64,
       .from_dtype = DType::f32});
  EXPECT_EQ(std::vector<double>(to, to + 6), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  float back[6] = {};
  run({.extents = {3, 2},
       .to = reinterpret_cast<std::byte*>(back),
       .to_strides = {1, 3},
       .from = reinterpret_cast<const std::byte*>(to),
       .from_strides = {2, 1},
       .to_dtype = DType::f32,
       .from_dtype = DType::f64});
  EXPECT_EQ(std::memcmp(back, from, sizeof from), 0);
}

TEST(TorchStream, PiecesAreTheBytesOfTheWhole) {
  const OwnedTensor a(DType::f32, {5}), b(DType::bf16, {3, 2});
  for (const OwnedTensor* tensor : {&a, &b})
    for (std::size_t i = 0; i < tensor->view.bytes(); ++i)
      static_cast<unsigned char*>(tensor->view.data())[i] = static_cast<unsigned char>(i);
  const auto written = [&](bool in_pieces) {
    std::string archive;
    TorchStream stream;
    const PyValue first = stream.declare(DType::f32, {5});
    const PyValue second = stream.declare(DType::bf16, {3, 2});
    stream.begin(PyValue::list({first, second}), "archive",
                 [&](Bytes bytes) { archive += as_text(bytes); });
    for (const OwnedTensor* tensor : {&a, &b}) {
      const Bytes bytes = {static_cast<const std::byte*>(tensor->view.data()),
                           tensor->view.bytes()};
      if (!in_pieces) stream.add(tensor->view);
      for (std::size_t at = 0; in_pieces && at < bytes.size(); at += 8) {
        stream.append({});
        stream.append(bytes.subspan(at, std::min<std::size_t>(8, bytes.size() - at)));
      }
    }
    stream.finish();
    return archive;
  };
  EXPECT_EQ(written(true), written(false));
}

// As of Megatron's flattened parts of what it splits, a Mamba layer's in_proj.
TEST(TorchTypes, ShapesMayHaveNumbersOfNumpy) {
  const auto scalar = [](const char* type, std::size_t size) {
    const PyValue dtype = PyValue::call(PyValue::global("numpy", "dtype"), {type, false, true});
    return PyValue::call(PyValue::global("numpy._core.multiarray", "scalar"),
                         {dtype, PyValue::bytes("\5\0\0\0\0\0\0\0"s.substr(0, size))});
  };
  EXPECT_EQ(shape_of_torch(PyValue::tuple({2, scalar("i8", 8)}), "here"), Shape({2, 5}));
  for (const PyValue& other : {scalar("i4", 4), scalar("i8", 4)})
    EXPECT_EQ(error_of([&] { shape_of_torch(PyValue::tuple({other}), "here"); }),
              "here: is a number of numpy's, expected an int64");
}

}  // namespace
}  // namespace mt
