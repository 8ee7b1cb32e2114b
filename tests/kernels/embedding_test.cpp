#include "kernels/embedding.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

std::vector<std::int32_t> some_ids(std::int64_t rows, std::int32_t vocab) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) ids[r] = static_cast<std::int32_t>(r * r % vocab);
  return ids;
}

template <class T>
class EmbeddingTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(EmbeddingTest, Types);

TYPED_TEST(EmbeddingTest, Forward) {
  using T = TypeParam;
  constexpr std::int32_t kVocab = 11;
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t cols : {0, 1, 31, 33, 130})
      for (const bool accumulate : {false, true}) {
        const auto ids = some_ids(rows, kVocab);
        const auto table = random<T>(kVocab * cols, 1);
        auto y = random<T>(rows * cols, 2);
        std::vector<double> expected(y.size());
        for (std::int64_t i = 0; i < rows * cols; ++i)
          expected[i] = (accumulate ? y[i] : 0) + double(table[ids[i / cols] * cols + i % cols]);
        cpu::embedding_forward(y.data(), ids.data(), table.data(), rows, cols, {0, kVocab},
                               accumulate);
        EXPECT_TRUE(check::near(y, expected)) << rows << " x " << cols;
      }
}

TYPED_TEST(EmbeddingTest, BackwardAddsRowsOfTheSameId) {
  using T = TypeParam;
  constexpr std::int32_t kVocab = 11;
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t cols : {0, 1, 31, 33, 130}) {
      const auto ids = some_ids(rows, kVocab);
      const auto dy = random<T>(rows * cols, 1);
      auto dtable = random<T>(kVocab * cols, 2);
      std::vector<double> expected(dtable.begin(), dtable.end());
      for (std::int64_t i = 0; i < rows * cols; ++i)
        expected[ids[i / cols] * cols + i % cols] += dy[i];
      cpu::embedding_backward(dtable.data(), ids.data(), dy.data(), rows, cols, {0, kVocab});
      EXPECT_TRUE(check::near(dtable, expected)) << rows << " x " << cols;
    }
}

TEST(Embedding, SameBitsOnAnyThreads) {
  const auto ids = some_ids(500, 11);
  const auto dy = random<float>(500 * 300, 1);
  check::expect_same_on_any_threads([&] {
    std::vector<float> dtable(11 * 300);
    cpu::embedding_backward(dtable.data(), ids.data(), dy.data(), 500, 300, {0, 11});
    return dtable;
  });
}

}  // namespace
}  // namespace mt
