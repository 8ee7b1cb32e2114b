#include "ckpt/dist_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/ckpt/sample.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

using test::error_of;
using test::OwnedTensor;
using test::TemporaryFolder;
using test::testdata;

std::vector<float> read_floats(const DistReader& reader, const std::string& key,
                               const Shape& offset, const Shape& shape) {
  const OwnedTensor out(DType::f32, shape);
  reader.read(key, offset, out.view);
  return {out.view.as<float>(), out.view.as<float>() + shape.numel()};
}

// --- .metadata
// --------------------------------------------------------------------------------------

std::vector<ItemRecord> golden_items() {  // specification 9.4
  return {{"w", true, DType::f32, {4, 2}, {0, 0}, {2, 2}, {"__0_0.distcp", 0, 1577}},
          {"w", true, DType::f32, {4, 2}, {2, 0}, {2, 2}, {"__1_0.distcp", 0, 1577}}};
}

TEST(DistMetadata, MinimalStreamIsAsSpecified) {
  DistMetadataOptions options;
  options.mcore_data = {};
  options.checkpoint_id = "c";
  options.save_id = "s";
  const std::string stream = encode_dist_metadata(golden_items(), options);
  EXPECT_EQ(stream.size(), 1313u);
  const TemporaryFolder folder;
  test::write_whole(folder / "m", stream);
  EXPECT_EQ(test::sha256_of(folder / "m"),
            "83040028a59c112cbd55ed6daba44164e6811ca9705b9e74d54d8c48d26b2c42");
}

TEST(DistMetadata, ComesBack) {
  std::vector<ItemRecord> items = golden_items();
  items.push_back({"o/shard_0_1", false, DType::f32, {}, {}, {}, {"__0_0.distcp", 1577, 900}});
  DistMetadataOptions options;
  set_original_shape(*options.mcore_data, "w", {8});
  const DistMetadata read =
      parse_dist_metadata(as_bytes(encode_dist_metadata(items, options)), "m");
  ASSERT_EQ(read.tensors.size(), 1u);
  const DistTensor& w = read.tensors.at("w");
  EXPECT_EQ(w.dtype, DType::f32);
  EXPECT_EQ(w.shape, (Shape{4, 2}));
  ASSERT_EQ(w.chunks.size(), 2u);
  EXPECT_EQ(w.chunks[1].offset, (Shape{2, 0}));
  EXPECT_EQ(w.chunks[1].place.file, "__1_0.distcp");
  EXPECT_EQ(w.original_shape, Shape{8});
  EXPECT_EQ(read.objects.at("o/shard_0_1").offset, 1577u);
}

TEST(DistMetadata, ItemsThatContradictEachOther) {
  std::vector<ItemRecord> items = golden_items();
  items.pop_back();
  EXPECT_EQ(error_of([&] { encode_dist_metadata(items); }), "w: chunks cover 4 of 8 elements");
  items = golden_items();
  items[1].dtype = DType::f64;
  EXPECT_NE(error_of([&] { encode_dist_metadata(items); }), "");
  items = golden_items();
  items[1].offset = {1, 0};
  EXPECT_NE(error_of([&] { encode_dist_metadata(items); }).find("overlap"), std::string::npos);
}

// A stream in which `change` was made to the items after they were found to be good.
std::string error_after(const std::function<void(std::string&)>& change) {
  std::string stream = encode_dist_metadata(golden_items());
  change(stream);
  return error_of([&] { parse_dist_metadata(as_bytes(stream), "m"); });
}

std::function<void(std::string&)> replacing(const std::string& from, const std::string& to) {
  return [=](std::string& stream) { stream.replace(stream.find(from), from.size(), to); };
}

TEST(DistMetadata, HostileStreams) {
  EXPECT_EQ(error_after([](std::string&) {}), "");
  EXPECT_NE(error_after(replacing("__0_0.distcp", "../../passwd")).find("leads out"),
            std::string::npos);
  EXPECT_NE(error_after(replacing("__0_0.distcp", "/etc//passwd")).find("leads out"),
            std::string::npos);
  EXPECT_NE(error_after(replacing("M\x29\x06", "J\xff\xff\xff\xff")).find("-1 bytes"),
            std::string::npos);
  EXPECT_NE(error_after(replacing("TensorStorageMetadata", "TensorStorageMetadatb")), "");
  EXPECT_NE(error_after(replacing("_StorageInfo", "_StorageImfo")), "");
  EXPECT_NE(error_after(replacing("storage_data", "storage_dada")).find("storage_data"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_dist_metadata(as_bytes("\x80\2N."), "m"); }).find("expected the"),
            std::string::npos);
  const std::string other = write_pickle(PyValue::make(PyValue::global("a", "Metadata")));
  EXPECT_NE(error_of([&] { parse_dist_metadata(as_bytes(other), "m"); }), "");
}

// --- Tiling
// -----------------------------------------------------------------------------------------

std::vector<DistChunk> chunks(std::initializer_list<std::pair<Shape, Shape>> list) {
  std::vector<DistChunk> result;
  for (const auto& [offset, size] : list) result.push_back({offset, size, {}});
  return result;
}

TEST(Tiling, Accepts) {
  EXPECT_FALSE(why_not_tiling({}, chunks({{{}, {}}})));
  EXPECT_FALSE(why_not_tiling({0, 3}, chunks({{{0, 0}, {0, 3}}})));
  EXPECT_FALSE(why_not_tiling({0, 3}, {}));
  EXPECT_FALSE(why_not_tiling({3, 3}, chunks({{{0, 0}, {1, 2}},  // a pinwheel: no axis splits it
                                              {{0, 2}, {2, 1}},
                                              {{2, 1}, {1, 2}},
                                              {{1, 0}, {2, 1}},
                                              {{1, 1}, {1, 1}}})));
  EXPECT_FALSE(why_not_tiling({4}, chunks({{{0}, {2}}, {{2}, {0}}, {{2}, {2}}})));
}

TEST(Tiling, Refuses) {
  EXPECT_TRUE(why_not_tiling({}, {}));
  EXPECT_TRUE(why_not_tiling({}, chunks({{{}, {}}, {{}, {}}})));
  EXPECT_TRUE(why_not_tiling({4}, chunks({{{0}, {2}}})));
  EXPECT_TRUE(why_not_tiling({4}, chunks({{{0}, {2}}, {{3}, {2}}})));
  EXPECT_TRUE(why_not_tiling({4}, chunks({{{0}, {2}}, {{0}, {2}}})));
  EXPECT_TRUE(why_not_tiling({4}, chunks({{{0, 0}, {2, 2}}})));
  EXPECT_TRUE(why_not_tiling(
      {4, 4}, chunks({{{0, 0}, {3, 3}}, {{2, 2}, {2, 2}}, {{0, 3}, {1, 1}}, {{3, 0}, {1, 2}}})));
}

TEST(Tiling, LargeGridIsFast) {
  std::vector<DistChunk> grid;
  for (std::int64_t i = 0; i < 300; ++i)
    for (std::int64_t j = 0; j < 300; ++j) grid.push_back({{i * 2, j * 3}, {2, 3}, {}});
  std::shuffle(grid.begin(), grid.end(), std::mt19937(1));
  EXPECT_FALSE(why_not_tiling({600, 900}, grid));
  grid[5] = grid[6];
  EXPECT_TRUE(why_not_tiling({600, 900}, grid));
}

TEST(Tiling, HostileSpiralIsRefusedInTime) {  // each chunk spans what the ones before have left
  std::vector<DistChunk> spiral;
  const std::int64_t n = 50'000;
  for (std::int64_t i = 0; i < n; ++i) {
    spiral.push_back({{i, i}, {1, n - i}, {}});
    if (i + 1 < n) spiral.push_back({{i + 1, i}, {n - i - 1, 1}, {}});
  }
  EXPECT_NE(why_not_tiling({n, n}, spiral).value().find("no regular order"), std::string::npos);
}

// --- Checkpoints of PyTorch and Megatron
// ------------------------------------------------------------

TEST(DistReader, CheckpointOfPyTorch) {
  const DistReader reader(testdata("dcp"));
  ASSERT_EQ(reader.tensors().size(), 5u);
  EXPECT_EQ(reader.find("rows")->chunks.size(), 2u);
  std::vector<float> rows(15);
  for (int i = 0; i < 15; ++i) rows[static_cast<std::size_t>(i)] = static_cast<float>(3 * i + 1);
  EXPECT_EQ(read_floats(reader, "rows", {0, 0}, {5, 3}), rows);
  EXPECT_EQ(read_floats(reader, "rows", {2, 1}, {2, 2}), (std::vector<float>{22, 25, 31, 34}));
  EXPECT_EQ(read_floats(reader, "transposed", {0, 0}, {3, 2}),
            (std::vector<float>{4, 13, 7, 16, 10, 19}));
  const OwnedTensor columns(DType::bf16, {2, 4});
  reader.read("columns", {0, 0}, columns.view);
  const std::uint16_t expected[] = {0x4000, 0x40a0, 0x4100, 0x4130, 0x4160, 0x4188, 0x41a0, 0x41b8};
  EXPECT_EQ(std::memcmp(columns.view.data(), expected, sizeof expected), 0);
  const OwnedTensor scalar(DType::f64, {});
  reader.read("scalar", {}, scalar.view);
  EXPECT_EQ(scalar.view.as<double>()[0], 7.5);
  EXPECT_EQ(reader.read_object("nested.name"), PyValue("text"));
}

TEST(DistReader, CheckpointOfMegatron) {
  const std::string key = "decoder.layers.mlp.linear_fc2.weight";
  const std::string moment = "optimizer.state.exp_avg." + key;
  const DistReader reader(testdata("mcore"));
  std::vector<float> weights(24), moments(24);
  for (int i = 0; i < 24; ++i)
    weights[static_cast<std::size_t>(i)] = static_cast<float>(3 * (i % 12) + 100 * (i / 12));
  std::transform(weights.begin(), weights.end(), moments.begin(), [](float w) { return -w; });
  EXPECT_EQ(read_floats(reader, key, {0, 0, 0}, {2, 3, 4}), weights);
  EXPECT_EQ(reader.find(moment)->shape, (Shape{2, 1, 2, 6}));
  ASSERT_EQ(reader.find(moment)->original_shape, (Shape{2, 3, 4}));
  const OwnedTensor out(DType::f32, {2, 3, 4});
  reader.read_original(moment, {0, 0, 0}, out.view);
  EXPECT_EQ(std::memcmp(out.view.data(), moments.data(), out.view.bytes()), 0);
  const OwnedTensor part(DType::f32, {1, 2, 2});  // across the two columns' ranks
  reader.read_original(moment, {1, 1, 1}, part.view);
  EXPECT_EQ(std::vector<float>(part.view.as<float>(), part.view.as<float>() + 4),
            (std::vector<float>{-115, -118, -127, -130}));
  EXPECT_EQ(reader.read_object("decoder.layers.mlp.linear_fc2._extra_state/shard_1_2"),
            PyValue::list({PyValue()}));
}

// --- Our own
// ----------------------------------------------------------------------------------------

TEST(DistCheckpoint, AnyRegionOfAnyCut) {
  const TemporaryFolder folder;
  std::vector<float> whole(5 * 7 * 3);
  std::iota(whole.begin(), whole.end(), 0.0f);
  const auto at = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    return whole[static_cast<std::size_t>((i * 7 + j) * 3 + k)];
  };
  const std::vector<std::pair<Shape, Shape>> cut = {{{0, 0, 0}, {2, 7, 1}},
                                                    {{0, 0, 1}, {2, 4, 2}},
                                                    {{0, 4, 1}, {2, 3, 2}},
                                                    {{2, 0, 0}, {3, 7, 3}}};
  std::vector<WrittenFile> files;
  for (int rank = 0; rank < 2; ++rank) {
    DistWriter writer(folder.path(), rank);
    for (std::size_t c = static_cast<std::size_t>(rank); c < cut.size(); c += 2) {
      const auto& [offset, size] = cut[c];
      std::vector<float> part;
      for (std::int64_t i = 0; i < size[0]; ++i)
        for (std::int64_t j = 0; j < size[1]; ++j)
          for (std::int64_t k = 0; k < size[2]; ++k)
            part.push_back(at(offset[0] + i, offset[1] + j, offset[2] + k));
      writer.add("w", {5, 7, 3}, offset, {part.data(), DType::f32, size});
    }
    files.push_back(writer.close());
  }
  write_dist_metadata(folder.path(), files);
  const DistReader reader(folder.path());
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::int64_t from[3], size[3];
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t extent = Shape{5, 7, 3}[axis];
      from[axis] = static_cast<std::int64_t>(random() % static_cast<unsigned>(extent + 1));
      size[axis] =
          static_cast<std::int64_t>(random() % static_cast<unsigned>(extent - from[axis] + 1));
    }
    const OwnedTensor out(DType::f64, Shape(size));
    reader.read_as("w", Shape(from), out.view);
    for (std::int64_t i = 0, n = 0; i < size[0]; ++i)
      for (std::int64_t j = 0; j < size[1]; ++j)
        for (std::int64_t k = 0; k < size[2]; ++k)
          ASSERT_EQ(out.view.as<double>()[n++], at(from[0] + i, from[1] + j, from[2] + k));
  }
}

TEST(DistCheckpoint, ReformulatedTensor) {  // specification 9.6
  const TemporaryFolder folder;
  std::vector<float> flat(24);  // block c holds rows 2c and 2c+1 of the original [4, 6]
  std::iota(flat.begin(), flat.end(), 0.0f);
  DistWriter writer(folder.path(), 0);
  for (std::int64_t block = 0; block < 2; ++block) {
    writer.add("m", {2, 1, 12}, {block, 0, 0},
               {&flat[static_cast<std::size_t>(12 * block)], DType::f32, {1, 1, 7}});
    writer.add("m", {2, 1, 12}, {block, 0, 7},
               {&flat[static_cast<std::size_t>(12 * block + 7)], DType::f32, {1, 1, 5}});
  }
  DistMetadataOptions options;
  set_original_shape(*options.mcore_data, "m", {4, 6});
  write_dist_metadata(folder.path(), {writer.close()}, options);
  const DistReader reader(folder.path());
  EXPECT_EQ(read_floats(reader, "m", {1, 0, 8}, {1, 1, 1}), std::vector<float>{20});
  const OwnedTensor one(DType::f32, {1, 1});
  reader.read_original("m", {3, 2}, one.view);
  EXPECT_EQ(one.view.as<float>()[0], 20);
}

TEST(DistCheckpoint, ErrorsNameKeyAndExpectation) {
  const TemporaryFolder folder;
  const float elements[4] = {};
  DistWriter writer(folder.path(), 0);
  writer.add("w", {elements, DType::f32, {2, 2}});
  write_dist_metadata(folder.path(), {writer.close()});
  const DistReader reader(folder.path());
  const OwnedTensor f32(DType::f32, {2, 3}), f64(DType::f64, {2, 2}), i64(DType::i64, {2, 2});
  const std::string& f = folder.path();
  EXPECT_EQ(error_of([&] {
              reader.read("w", {0, 0}, f32.view);
            }),
            f + ": w: has shape [2, 2], expected one with [2, 3] at [0, 0]");
  EXPECT_EQ(error_of([&] {
              reader.read("w", {0, 0}, f64.view);
            }),
            f + ": w: is float32, expected float64");
  EXPECT_NE(error_of([&] { reader.read_as("w", {0, 0}, i64.view); }), "");
  EXPECT_EQ(error_of([&] { reader.read("v", {0, 0}, f32.view); }), f + ": has no tensor v");
  EXPECT_EQ(error_of([&] { reader.read_object("o"); }), f + ": has no object o");
  EXPECT_NE(error_of([&] { DistReader(folder / "none"); }, Exit::no_input), "");
}

TEST(DistWriter, LeavesNothingUnlessClosed) {
  const TemporaryFolder folder;
  { DistWriter writer(folder.path(), 3, 1); }
  EXPECT_NE(error_of([&] { File::open(folder / "__3_1.distcp"); }, Exit::no_input), "");
}

TEST(DistCheckpoint, EveryTruncationOfAFileIsAnError) {
  for (const std::string name : {"__0_0.distcp", "__1_0.distcp", ".metadata"}) {
    const TemporaryFolder folder;
    for (const std::string other : {"__0_0.distcp", "__1_0.distcp", ".metadata"})
      test::write_whole(folder / other, read_file(testdata("dcp/" + other)));
    const std::string whole = read_file(folder / name);
    const DistReader good(folder.path());
    for (std::size_t length = 0; length < whole.size(); length += 7) {
      test::write_whole(folder / name, std::string_view(whole).substr(0, length));
      EXPECT_NE(error_of([&] { DistReader(folder.path()); }), "") << name << " " << length;
    }
  }
}

TEST(DistCheckpoint, FlippedBitsAreErrorsOrValues) {
  const TemporaryFolder folder;
  for (const std::string other : {"__0_0.distcp", "__1_0.distcp"})
    test::write_whole(folder / other, read_file(testdata("dcp/" + other)));
  const std::string whole = read_file(testdata("dcp/.metadata"));
  const std::size_t before = test::peak_memory();
  int errors = 0;
  for (std::size_t bit = 0; bit < whole.size() * 8; bit += 3) {
    std::string flipped = whole;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    test::write_whole(folder / ".metadata", flipped);
    try {
      const DistReader reader(folder.path());
      for (const auto& [key, tensor] : reader.tensors())
        for (const DistChunk& chunk : tensor.chunks) {
          const OwnedTensor out(tensor.dtype.value_or(DType::u8), chunk.size);
          reader.read(key, chunk.offset, out.view);
        }
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      EXPECT_TRUE(error.code() == Exit::bad_data || error.code() == Exit::no_input ||
                  error.code() == Exit::io_error)
          << error.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, 2000);
  EXPECT_LT(test::peak_memory() - before, 64u << 20);
}

}  // namespace
}  // namespace mt
