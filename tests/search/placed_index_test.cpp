#include "search/placed_index.h"

#include "tests/search/placed_cases.h"

namespace mt {
namespace {

class Placed : public testing::TestWithParam<const char*> {};

TEST_P(Placed, FindsWhatTheIndexFinds) {
  check::expect_placed_finds_the_same(GetParam(), Device::cpu);
}

INSTANTIATE_TEST_SUITE_P(, Placed, testing::ValuesIn(check::kPlacedStrings), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace_if(
      name, [](char c) { return c == ',' || c == '_'; }, 'x');
  return name;
});

TEST(PlacedIndex, FindsNumbersThatRepeat) {
  for (const char* string : check::kListStrings)
    check::expect_placed_finds_repeated_ids(string, Device::cpu);
}

TEST(PlacedIndex, FindsNothingInAnEmptyOne) {
  Products products(1);
  for (const char* string : {"Flat", "IVF4,Flat", "SQfp16"}) {
    VectorIndex index = make_index("--index-str", string, check::kPlacedColumns);
    index.train(check::made_vectors(0, 100), products);
    PlacedIndex placed(index, products);
    const FoundVectors found = placed.search(check::made_vectors(0, 2), {.count = 3});
    EXPECT_EQ(found.ids, std::vector<std::int64_t>(6, -1)) << string;
  }
}

TEST(PlacedIndex, FindsLargestProducts) {
  Products products(1);
  VectorIndex index;
  index.kind = FlatIndex{.columns = 2, .inner = true, .vectors = {1, 0, 0, 3, 2, 2, 2, 2}};
  PlacedIndex placed(index, products);
  const FoundVectors found = placed.search(std::vector<float>{1, 0, 0, 1}, {.count = 3});
  EXPECT_EQ(found.ids, (std::vector<std::int64_t>{2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(found.distances, (std::vector<float>{2, 2, 1, 3, 2, 2}));
}

}  // namespace
}  // namespace mt
