#include "train/run/nearest_images.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

// Of three numbers the first two count: directions of three images of classes 0, 1 and 1.
TEST(NearestImages, VoteByTheirCosines) {
  const std::vector<double> known = {2, 0, 9, 0.8, 0.6, -7, 0.6, 0.8, 0},
                            asked = {1, 0.1, 5, 0, 3, 5};
  const KnownImages bank{.features = known, .width = 2, .stride = 3, .labels = {0, 1, 1}},
      queries{.features = asked, .width = 2, .stride = 3, .labels = {0, 1}};
  const std::int64_t k[] = {1, 3, 200};
  // At a temperature of 10 two votes are more than a nearer one's; at 0.01 they are not.
  EXPECT_EQ(nearest_accuracy(bank, queries, 2, k, 10), (std::vector<double>{100, 50, 50}));
  EXPECT_EQ(nearest_accuracy(bank, queries, 2, k, 0.01), (std::vector<double>{100, 100, 100}));
}

}  // namespace
}  // namespace mt
