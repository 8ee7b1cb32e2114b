#include "post/policy/rewards.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace mt {
namespace {

double judged(const char* rule, const char* text, const char* answer) {
  return reward_of(reward_rules({rule}), text, answer);
}

TEST(Rewards, Exact) {
  EXPECT_EQ(judged("exact", " Mia.\n", "Mia."), 1);
  EXPECT_EQ(judged("exact", "Mia", "Mia."), 0);
  EXPECT_EQ(judged("exact", "", " "), 1);
}

TEST(Rewards, Regex) {
  EXPECT_EQ(judged(R"(regex:^\d+=\d+$)", "2=3", ""), 1);
  EXPECT_EQ(judged(R"(regex:^\d+=\d+$)", "2=", ""), 0);
  EXPECT_EQ(judged("regex=-0.5:a:b", "xa:b", ""), -0.5);
  EXPECT_EQ(judged("regex:\xEF\xBF\xBD", "\xFF", ""), 1);  // what is no UTF-8 is U+FFFD
  const std::string hostile(60, 'a');
  EXPECT_TRUE(std::isnan(judged("regex:(a+)+$", (hostile + "!").c_str(), "")));
}

TEST(Rewards, Length) {
  EXPECT_EQ(judged("length:3", "abc", ""), 0);
  EXPECT_EQ(judged("length:3", "a", ""), -2);
  EXPECT_EQ(judged("length=0.5:3", "\u6c34\u6c34\u6c34\u6c34\u6c34", ""), -1);  // not bytes
  EXPECT_EQ(judged("length:0", "", ""), 0);
  for (const char* wrong : {"length", "length:", "length:-1", "length:1.5", "length:99999999999"})
    EXPECT_THROW(reward_rules({wrong}), Error) << wrong;
}

TEST(Rewards, LabelsTellThemApart) {
  const auto rules = reward_rules({"regex:a", "exact", "regex=2:b"});
  EXPECT_EQ(rules[0].label, "regex");
  EXPECT_EQ(rules[1].label, "exact");
  EXPECT_EQ(rules[2].label, "regex_2");
}

TEST(Rewards, Programs) {
  const auto rules = reward_rules({"cmd:jq -c '{id, reward: 1}'", "cmd=0.25:a=b:c", "exact"});
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0].argument, "jq -c '{id, reward: 1}'");
  EXPECT_EQ(rules[0].weight, 1);
  EXPECT_EQ(rules[1].argument, "a=b:c");
  EXPECT_EQ(rules[1].weight, 0.25);
  EXPECT_FALSE(rules[2].is_program());
  EXPECT_EQ(reward_of(rules, "5", "5"), 1);  // by what is none
}

TEST(Rewards, Math) {
  EXPECT_EQ(judged("math", "so it is \\boxed{2\\sqrt{3}}.", "$\\sqrt{12}$"), 1);
  EXPECT_EQ(judged("math", "so it is \\boxed{3}.", "\\sqrt{12}"), 0);
  EXPECT_EQ(judged("math", "I do not know", "12"), 0);
  EXPECT_TRUE(std::isnan(judged("math", "12", "\\int_0^1 x dx")));
}

TEST(Rewards, Number) {
  struct Case {
    const char *text, *answer;
    double expected;
  };
  for (const Case& c : {Case{"The answer is 5.", "5", 1},
                        {"1,000", "1000", 1},
                        {"so 2/4", "1/2", 1},
                        {"0.5", "1/2", 1},
                        {"first 3 then 4", "3", 0},
                        {"12 apples and 13 pears", "12", 0},
                        {"0.1234568", "0.1234567", 1},
                        {"0.333", "1/3", 0},
                        {"0.33333333", "1/3", 1},
                        {"It is -7", "-7", 1},
                        {"9-7", "-7", 0},
                        {"7", "-7", 0},
                        {"1,23", "23", 1},
                        {"nothing", "5", 0},
                        {"", "5", 0},
                        {"5/0", "0", 1},
                        {"5", "no number", 0}})
    EXPECT_EQ(judged("number", c.text, c.answer), c.expected) << c.text << " for " << c.answer;
}

// As the rules in Python say it.
TEST(Rewards, StatedAnswers) {
  struct Case {
    const char *text, *answer;
    double expected;
  };
  const std::string late = "Answer: 5\n" + std::string(300, '.');
  for (const Case& c : {Case{"So.\nAnswer: 34", "34", 1},
                        {"answer : 1,234 dollars", "1234", 1},
                        {"Answer: 3\nAnswer: $4$.", "4", 1},
                        {"Answer: $x = \\frac12$", "\\frac{1}{2}", 1},
                        {"Answer: \\boxed{\\sqrt3}", "\\sqrt{3}", 1},
                        {"Answer: \\text{yes}", "yes", 1},
                        {"Answer: 90^\\circ", "90", 1},
                        {"Answer: 5 ft", "5", 0},
                        {"Answer: 5\r\nso", "5", 1},
                        {"Answer: 5\t", "5", 1},
                        {"Answer: 5\u00A0", "5", 1},
                        {"Answer: 1,234\r\n", "1234", 0},
                        {"The answer is 34", "34", 0},
                        {"no", "[INVALID]", 1},
                        {late.c_str(), "5", 0}})
    EXPECT_EQ(judged("dapo-math", c.text, c.answer), c.expected) << c.text << " for " << c.answer;
  for (const Case& c : {Case{"Answer: B", "B", 1},
                        {"**Answer:** $\\boxed{C}$", "C", 1},
                        {"ANSWER :\tA, not Answer: B", "A", 1},
                        {"Answer: b", "B", 0},
                        {"Answer: B", " B\n", 1},
                        {"It is B", "B", 0}})
    EXPECT_EQ(judged("mc", c.text, c.answer), c.expected) << c.text << " for " << c.answer;
}

TEST(Rewards, Format) {
  EXPECT_EQ(judged("format", "<think>a\nb</think>\n<answer>5</answer>", ""), 1);
  EXPECT_EQ(judged("format", "<think></think>\n<answer></answer>", ""), 1);
  EXPECT_EQ(judged("format", "<think>a</think><answer>5</answer>", ""), 0);
  EXPECT_EQ(judged("format", "<think>a</think>\n<answer>5</answer>.", ""), 0);
  EXPECT_EQ(judged("format", "<think>a</think>\n<answer>5</answer><answer>6</answer>", ""), 0);
  EXPECT_EQ(judged("format", "5", ""), 0);
}

TEST(Rewards, AreWeighedAndAddedUp) {
  const auto rules = reward_rules({"number", "format=0.25", "exact=-1"});
  EXPECT_EQ(reward_of(rules, "<think>1</think>\n<answer>5</answer>", "5"), 1.25);
  EXPECT_EQ(reward_of(rules, "5", "5"), 0);
  EXPECT_TRUE(needs_answer(rules));
  EXPECT_FALSE(needs_answer(reward_rules({"format"})));
  for (const char* const wrong : {"maths", "exact=", "exact=x", "exact=1x", ""})
    EXPECT_THROW(reward_rules({wrong}), Error) << wrong;
}

}  // namespace
}  // namespace mt
