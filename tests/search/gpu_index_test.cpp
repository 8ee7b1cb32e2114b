// Indexes are trained, filled and searched on a GPU as on the CPU, but for rounding.
#include "search/index_commands.h"
#include "search/index_file.h"
#include "search/kmeans.h"
#include "tensor/device.h"
#include "tests/base/scratch.h"
#include "tests/search/placed_cases.h"

namespace mt {
namespace {

class GpuIndex : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (device::count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(GpuIndex, FindsWhatTheCpuFinds) {
  check::expect_placed_finds_the_same(GetParam(), Device::cuda);
}

TEST(PlacedOnGpu, FindsNumbersThatRepeat) {
  if (device::count() == 0) GTEST_SKIP() << "no GPU";
  for (const char* string : check::kListStrings)
    check::expect_placed_finds_repeated_ids(string, Device::cuda);
}

TEST(PlacedOnGpu, TellsWhatHasNoRoom) {
  if (device::count() == 0) GTEST_SKIP() << "no GPU";
  Products products(
      1, [] {}, Device::cuda);
  products.expect_room(1 << 20, "little");
  try {
    products.expect_room(std::size_t{1} << 50, "training on 7 vectors");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::out_of_memory);
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("training on 7 vectors needs at least 1125899906842624 bytes of a "
                                 "GPU's memory, of which "))
        << error.what();
  }
}

// More than a pinned half, several times, so that halves are filled again while others are read.
TEST(ProductsOnGpu, PutWhatIsNotPinned) {
  if (device::count() == 0) GTEST_SKIP() << "no GPU";
  Products products(
      2, [] {}, Device::cuda);
  for (const std::int64_t count : {(1 << 22) + 1, 3 * (1 << 22), 20000003}) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::int32_t>(i * 2654435761U + static_cast<std::size_t>(count));
    const Products::Copy there = products.copy(all);
    const std::vector<std::int32_t> expected = all;
    std::ranges::fill(all, 0);  // what was put is no longer read
    EXPECT_EQ(products.values<std::int32_t>(there.tensor), expected) << count;
  }
}

TEST(KMeansOnGpu, InPiecesIsAsOnTheCpu) {
  if (device::count() == 0) GTEST_SKIP() << "no GPU";
  Products here(2), there(
                        2, [] {}, Device::cuda);
  const std::vector<float> points = check::made_vectors(0, 3000);
  const KMeans options = {.centres = 20, .columns = check::kPlacedColumns, .iterations = 3};
  const std::vector<float> expected = k_means(options, points, here);
  for (const std::int64_t rows : {700, 3000}) {
    KMeans in_pieces = options;
    in_pieces.piece_numbers = rows * check::kPlacedColumns;
    const std::vector<float> got = k_means(in_pieces, points, there);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << i;
  }
}

// How far codes are from what they stand for, of 500 vectors.
double error_of(VectorIndex& index, Products& products) {
  const std::vector<float> queries = check::made_vectors(0, 500);
  const FoundVectors found = index.search(queries, {.count = 1, .lists = 16}, products);
  double sum = 0;
  for (const float far : found.distances) sum += static_cast<double>(far);
  return sum;
}

TEST_P(GpuIndex, IsTrainedAsWell) {
  Products here(2), there(
                        2, [] {}, Device::cuda);
  const std::string string = GetParam();
  VectorIndex of_cpu = check::made_index(string, here), of_gpu = check::made_index(string, there);
  EXPECT_EQ(of_gpu.size(), of_cpu.size());
  const double expected = error_of(of_cpu, here);
  EXPECT_NEAR(error_of(of_gpu, here), expected, 0.03 * expected + 1e-6);
}

TEST_P(GpuIndex, KeepsTheCodesOfTheCpu) {
  Products here(2), there(
                        2, [] {}, Device::cuda);
  const std::string string = GetParam();
  if (string.find("HNSW") != std::string::npos) GTEST_SKIP() << "a GPU compares all centres";
  const VectorIndex index = check::made_index(string, here);
  const std::vector<float> more = check::made_vectors(20000, 1000);
  const std::vector<std::uint8_t> expected = index.encode(more, here),
                                  got = index.encode(more, there);
  ASSERT_EQ(got.size(), expected.size());
  std::size_t others = 0;
  for (std::size_t i = 0; i < got.size(); ++i) others += got[i] != expected[i];
  EXPECT_LE(others, got.size() / 500);
}

// Read in parts, of several files, while others are coded.
TEST_P(GpuIndex, AddsWhatFilesHave) {
  Products there(
      2, [] {}, Device::cuda);
  VectorIndex index = check::made_index(GetParam(), there);
  const Scratch folder;
  const auto save = [&](const std::string& name) {
    AtomicFile file(folder.path(name), true);
    write_index(index, [&](Bytes bytes) { file.write(bytes); });
    file.commit();
    return read_file(folder.path(name));
  };
  save("index");
  std::int64_t next = index.next_id();
  BuildIndexOptions options;
  options.index = folder.path("index");
  options.output = folder.path("more");
  options.columns = check::kPlacedColumns;
  for (const std::int64_t count : {1001, 1, 2999}) {
    const std::vector<float> more = check::made_vectors(next, count);
    options.inputs.push_back(folder.path(concat(count)));
    write_file_atomically(options.inputs.back(), as_text(std::as_bytes(std::span(more))), false);
    index.add_codes(index.encode(more, there), next);
    next += count;
  }
  options.compute.device_name = "cuda";
  options.threads = 2;
  add_to_index(options, {Log({.level = Log::Level::quiet, .descriptor = -1}), "", {}, [] {}});
  EXPECT_EQ(read_file(options.output), save("expected"));
}

INSTANTIATE_TEST_SUITE_P(, GpuIndex, testing::ValuesIn(check::kPlacedStrings), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace_if(
      name, [](char c) { return c == ',' || c == '_'; }, 'x');
  return name;
});

}  // namespace
}  // namespace mt
