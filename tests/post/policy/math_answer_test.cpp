// Which texts end with the answer that was wanted, beside Math-Verify's verdicts
// (scripts/compare-math.py).
#include "post/policy/math_answer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

namespace mt {
namespace {

TEST(MathAnswers, AreJudgedAsByMathVerify) {
  std::ifstream file(MT_TESTDATA "/post/math-verdicts.tsv");
  std::string line;
  int right = 0, wrong = 0;
  while (std::getline(file, line)) {
    const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
    ASSERT_NE(second, line.npos) << line;
    const bool expected = line.substr(0, first) == "true";
    const std::string wanted = line.substr(first + 1, second - first - 1),
                      text = line.substr(second + 1);
    EXPECT_EQ(verify_math(text, wanted) == MathVerdict::same, expected) << line;
    ++(expected ? right : wrong);
  }
  EXPECT_GT(right, 200);
  EXPECT_GT(wrong, 100);
}

TEST(MathAnswers, AreUnknownWhereNothingIsSaid) {
  EXPECT_EQ(verify_math("I do not know.", "5"), MathVerdict::unknown);
  EXPECT_EQ(verify_math("\\boxed{5", "5"), MathVerdict::unknown);
  EXPECT_EQ(verify_math("$5$", "\\frac{1"), MathVerdict::unknown);
  EXPECT_EQ(verify_math("$\\int_0^1 x dx$", "5"), MathVerdict::unknown);
  EXPECT_EQ(verify_math("\\boxed{4}", "5"), MathVerdict::different);
}

TEST(MathAnswers, HaveBounds) {
  const auto repeated = [](const std::string& piece, int times) {
    std::string made;
    for (int i = 0; i < times; ++i) made += piece;
    return made;
  };
  const std::string texts[] = {"$" + repeated("(", 100'000) + "1" + repeated(")", 100'000) + "$",
                               "$" + repeated("{", 100'000) + "$",
                               "$2^{9^{9^{9^9}}}$",
                               "$" + repeated("9", 100'000) + "$",
                               "$(10^{4000})^{4000}!$",
                               "$3000!!!!!$",
                               "$" + repeated("x,", 200) + "$",
                               "$" + repeated("\\frac", 400) + "$",
                               repeated("\\boxed{", 20'000),
                               repeated("$", 20'000),
                               repeated("answer ", 20'000),
                               "$x" + repeated("^2", 200) + "$",
                               "$" + repeated("\\sin ", 300) + "x$",
                               repeated("1 + ", 20'000),
                               "$" + repeated("-", 300) + "1$"};
  const auto begun = std::chrono::steady_clock::now();
  for (const std::string& text : texts) EXPECT_NE(verify_math(text, "77"), MathVerdict::same);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
}

}  // namespace
}  // namespace mt
