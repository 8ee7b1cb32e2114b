// The self-test itself, on the CPU: it passes there, and finds what is spoiled.
#include "train/check/self_test.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tensor/device.h"
#include "tests/support/matches.h"

namespace mt {
namespace {

TEST(SelfTest, Fp32OnTheCpuAgreesWithFp64) {
  const std::vector<Comparison> comparisons = self_test(Device::cpu);
  ASSERT_EQ(comparisons.size(), 8);
  EXPECT_NO_THROW(check_self_test(comparisons));
  // What is compared is not the same numbers, and all of it is compared.
  for (const Comparison& c : comparisons) EXPECT_EQ(c.worst_error > 0, c.allowed > 0) << c.what;
  EXPECT_EQ(comparisons[1].tensors, 28);  // gradients of a GPT-2 of two layers
  EXPECT_EQ(comparisons[5].tensors, 15);  // of a Llama
  EXPECT_EQ(self_test_text(comparisons).find("DIFFERS"), std::string::npos);
}

TEST(SelfTest, NeedsAGpuToTestOne) {
  if (device::count() > 0) GTEST_SKIP() << "there is one";
  try {
    self_test(Device::cuda);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::unavailable);
  }
}

SmallRunResult sample() {
  return {.logits = {1, -2},
          .losses = {4, 3},
          .gradients = {{"a", {0.5, 8}}, {"b", {0, 0}}},
          .weights = {},
          .planned = {},
          .used = {}};
}

std::string difference(const SmallRunResult& got) {
  try {
    check_self_test(compare("tiny", "fp32", got, sample(), {1e-3, 1e-4}));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::difference);
    return error.what();
  }
  return "none";
}

TEST(SelfTest, NamesWhatDiffers) {
  SmallRunResult got = sample();
  EXPECT_EQ(difference(got), "none");
  got.gradients["a"][0] += 0.007;  // of 8.02
  EXPECT_EQ(difference(got), "none");
  got.gradients["a"][0] += 0.002;
  EXPECT_TRUE(matches(difference(got),
                      "--selftest: tiny in fp32: gradients: a differs by 0.0011[0-9]* of its norm, "
                      "allowed 0.001"));
  got = sample();
  got.gradients["b"][1] = 1e-30;  // where all is 0
  EXPECT_TRUE(matches(difference(got), ".*gradients: b differs by inf .*"));
  got = sample();
  got.losses[1] = NAN;
  EXPECT_TRUE(matches(difference(got), ".*losses differs by inf .*"));
  got = sample();
  got.losses[1] += 0.002;  // of 5
  EXPECT_TRUE(matches(difference(got), ".*losses of 5 steps: losses differs by 0.0004.*"));
  got = sample();
  got.logits[0] = 1.01;
  EXPECT_TRUE(matches(difference(got), ".*logits: logits differs by 0.0044[0-9]* .*"));
}

TEST(SelfTest, PrintsATable) {
  SmallRunResult got = sample();
  got.logits[0] = 1.01;
  const std::vector<Comparison> comparisons = compare("tiny", "fp32", got, sample(), {1e-3, 1e-4});
  EXPECT_EQ(self_test_text(comparisons),
            "model  type  what                 tensors  worst error  allowed  the worst of them\n"
            "tiny   fp32  logits                     1       0.0045    0.001  logits  DIFFERS\n"
            "tiny   fp32  gradients                  2            0    0.001  a\n"
            "tiny   fp32  losses of 5 steps          1            0   0.0001  losses\n");
  const std::string json = self_test_json(comparisons);
  EXPECT_EQ(
      json.substr(0, json.find('\n')),
      R"({"schema":"mt-selftest/1","model":"tiny","dtype":"fp32","what":"logits","tensors":1,)"
      R"("worst_error":0.004472135954999583,"allowed":0.001,"worst":"logits","passed":false})");
}

}  // namespace
}  // namespace mt
