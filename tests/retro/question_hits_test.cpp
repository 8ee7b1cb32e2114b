// Shares of questions, as Python prints them.
#include "retro/question_hits.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

TEST(QuestionHits, SharesAreAsPythonPrintsThem) {
  for (const auto& [share, text] : {std::pair{0.0, "0.0"},
                                    {1.0, "1.0"},
                                    {0.5, "0.5"},
                                    {1.0 / 3, "0.3333333333333333"},
                                    {0.0001, "0.0001"},
                                    {0.0009, "0.0009"},
                                    {0.001, "0.001"},
                                    {1.0 / 8757, "0.00011419435879867534"},
                                    {0.00009, "9e-05"},
                                    {0.000015, "1.5e-05"}})
    EXPECT_EQ(python_share(share), text);
}

}  // namespace
}  // namespace mt
