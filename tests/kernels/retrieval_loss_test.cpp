#include "kernels/retrieval_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mt {
namespace {

// Three queries with two contexts each.
TEST(RetrievalLoss, IsOfTheFirstContextThatAQueryBrings) {
  const std::vector<double> scores = {1, 3,  1,  0, 2, -1,  //
                                      5, -2, 5,  0, 1, 4,   //
                                      0, 0,  -9, 7, 8, 8};
  const RetrievalShape shape{.n = 3, .each = 2};
  const RetrievalTops tops{.count = 2, .top = {1, 3}};
  const std::vector<double> weight = {0.5, 0, 2};
  std::vector<double> loss(3), hit(6), s = scores;
  cpu::retrieval_loss<double>(loss.data(), hit.data(), s.data(), nullptr, shape, tops);
  EXPECT_EQ(s, scores);
  // Two are above the first one's; of the second's equal ones one is before; none is before the
  // third's.
  EXPECT_EQ(hit, (std::vector<double>{0, 0, 100, 100, 100, 100}));
  std::vector<double> again(3);
  cpu::retrieval_loss<double>(again.data(), nullptr, s.data(), weight.data(), shape, {});
  EXPECT_EQ(again, loss);
  for (std::size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 6; ++j) sum += std::exp(scores[6 * i + j]);
    EXPECT_NEAR(loss[i], std::log(sum) - scores[6 * i + 2 * i], 1e-12);
    for (std::size_t j = 0; j < 6; ++j)
      EXPECT_NEAR(s[6 * i + j],
                  weight[i] * (std::exp(scores[6 * i + j]) / sum - (j == 2 * i ? 1 : 0)), 1e-12);
  }
}

TEST(RetrievalLoss, NothingIsFoundByWhatIsNoNumber) {
  const double nan = std::nan("");
  std::vector<double> scores = {nan, nan, nan, 2, nan, 1, 3, 2, 1}, loss(3), hit(6);
  cpu::retrieval_loss<double>(loss.data(), hit.data(), scores.data(), nullptr, {.n = 3, .each = 1},
                              {.count = 2, .top = {1, 20}});
  EXPECT_EQ(hit, (std::vector<double>{0, 0, 0, 0, 0, 100}));
  scores = {1, 0, nan, 3, 5, nan, nan, nan, 7};
  cpu::retrieval_loss<double>(loss.data(), hit.data(), scores.data(), nullptr, {.n = 3, .each = 1},
                              {.count = 2, .top = {1, 2}});
  EXPECT_EQ(hit, (std::vector<double>{0, 0, 0, 100, 100, 0}));
}

}  // namespace
}  // namespace mt
