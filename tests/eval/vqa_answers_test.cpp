#include "eval/tasks/vqa_answers.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/input/line_reader.h"
#include "text/chat/chat_value.h"

namespace mt {
namespace {

// What the VQA evaluation makes of answers (testdata/README.md).
TEST(VqaAnswers, AreJudgedAsByTheEvaluation) {
  LineReader reader({.inputs = {std::string(MT_TESTDATA) + "/eval/vqa.jsonl"}});
  LineBlock block;
  std::int64_t cases = 0;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      if (number == 1) return;
      const ChatValue one = chat_value_of_json(line, "golden");
      const std::string& answer = *one.find("answer")->text();
      std::vector<std::string> people;
      for (const ChatValue& text : *one.find("people")->items()) people.push_back(*text.text());
      EXPECT_EQ(vqa_answer(answer), *one.find("form")->text()) << number;
      EXPECT_NEAR(vqa_accuracy(answer, people), *one.find("accuracy")->real(), 1e-12) << number;
      ++cases;
    });
  EXPECT_GT(cases, 500);
}

// By the formulas of arXiv:2203.10244 and arXiv:1907.00490.
TEST(VqaAnswers, NumbersMayBeATwentiethApart) {
  EXPECT_EQ(relaxed_accuracy("105", "100"), 1);
  EXPECT_EQ(relaxed_accuracy("95%", "100"), 1);
  EXPECT_EQ(relaxed_accuracy("94.9", "100"), 0);
  EXPECT_EQ(relaxed_accuracy("1e2", "100%"), 1);
  EXPECT_EQ(relaxed_accuracy("yes", "yes"), 1);
  EXPECT_EQ(relaxed_accuracy(" yes", "Yes"), 1);
  EXPECT_EQ(relaxed_accuracy("yes", "yes sir"), 0);
  EXPECT_EQ(relaxed_accuracy("1.05", "1"), 1);
  EXPECT_EQ(relaxed_accuracy("-104", "-100"), 1);
  EXPECT_EQ(relaxed_accuracy("104", "-100"), 0);
  EXPECT_EQ(relaxed_accuracy("$1,050", "1000"), 1);
  EXPECT_EQ(relaxed_accuracy("nan", "NaN"), 1);
  EXPECT_EQ(relaxed_accuracy("0.01", "0"), 0);
  EXPECT_EQ(relaxed_accuracy("0", "0"), 1);
  EXPECT_EQ(relaxed_accuracy("", ""), 1);
}

TEST(VqaAnswers, EditsCountUpToAHalf) {
  const auto of = [](std::string_view answer, const std::vector<std::string>& right) {
    return anls(answer, right);
  };
  EXPECT_EQ(of(" The  Cat ", {"the cat"}), 1);
  EXPECT_DOUBLE_EQ(of("kitten", {"sitting", "x"}), 1 - 3.0 / 7);
  EXPECT_EQ(of("abcd", {"abxy"}), 0);                  // a half is too far
  EXPECT_DOUBLE_EQ(of("été", {"ete", "étés"}), 0.75);  // of characters, not bytes
  EXPECT_EQ(of("", {""}), 1);
  EXPECT_EQ(of("x", {}), 0);
}

}  // namespace
}  // namespace mt
