#include "post/labels/label_scores.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

LabelledSet labelled(LabelKind kind, std::vector<std::int32_t> labels, std::vector<float> numbers,
                     std::int64_t samples) {
  LabelledSet set{.name = "set"};
  set.kind = kind;
  set.labels = std::move(labels);
  set.numbers = std::move(numbers);
  for (std::int64_t i = 0; i < samples; ++i) set.uids.push_back(10 + i);
  return set;
}

TEST(LabelScores, AreTallied) {
  const LabelledSet set = labelled(LabelKind::one, {0, 1, 1, 1}, {}, 4);
  const LabelScores scores(set, {2, 1, 0, 1, 0, 1, 3, 1}, {"no", "yes"});
  Tally tally = scores.tally();
  EXPECT_EQ(tally.correct, 3);
  EXPECT_EQ(tally.total, 4);
  EXPECT_EQ(tally.confusion, (std::vector<std::vector<std::int64_t>>{{1, 0}, {1, 2}}));
  EXPECT_NEAR(tally.macro_f1(), (2.0 / 3 + 4.0 / 5) / 2, 1e-12);  // sklearn's f1_score, macro
  const EpochReport report = epoch_report(2, "dev", tally, LabelKind::one, 1.5);
  EXPECT_EQ(report.line,
            " > |epoch: 2| metrics for dev: correct / total = 3 / 4 = 75.0000 %, elapsed time "
            "(sec): 1.500");
  tally.add(scores.tally());
  EXPECT_EQ(overall_report(2, tally, LabelKind::one).line,
            " >> |epoch: 2| overall: correct / total = 6 / 8 = 75.0000 %");
}

TEST(LabelScores, AreProbabilitiesInTheirLines) {
  const LabelledSet set = labelled(LabelKind::one, {1}, {}, 1);
  std::string lines;
  LabelScores(set, {0, 0}, {"no", "yes"}).write_lines("dev", lines);
  EXPECT_EQ(
      lines,
      "{\"set\":\"dev\",\"uid\":10,\"label\":\"yes\",\"prediction\":\"no\",\"scores\":[0.5,0.5]}"
      "\n");
}

TEST(LabelScores, OfNumbersAreTheirOwn) {
  const LabelledSet set = labelled(LabelKind::numbers, {}, {1, 0.5}, 2);
  const LabelScores scores(set, {2, 0.5}, {"0"});
  EXPECT_NEAR(scores.tally().squared, 1, 1e-12);
  EXPECT_EQ(epoch_report(0, "dev", scores.tally(), LabelKind::numbers, 0).line,
            " > |epoch: 0| metrics for dev: mean squared error = 5.000000E-01, elapsed time (sec): "
            "0.000");
  std::string lines;
  scores.write_lines("dev", lines);
  EXPECT_EQ(lines,
            "{\"set\":\"dev\",\"uid\":10,\"label\":[1],\"scores\":[2]}\n"
            "{\"set\":\"dev\",\"uid\":11,\"label\":[0.5],\"scores\":[0.5]}\n");
}

TEST(LabelScores, OfListsAreRightWhereAllAre) {
  const LabelledSet set = labelled(LabelKind::many, {}, {1, 0, 1, 1}, 2);
  const LabelScores scores(set, {3, -1, 2, -2}, {"a", "b"});
  EXPECT_EQ(scores.tally().correct, 1);
  std::string lines;
  scores.write_lines("dev", lines);
  EXPECT_TRUE(lines.starts_with(
      "{\"set\":\"dev\",\"uid\":10,\"label\":[\"a\"],\"prediction\":[\"a\"],\"scores\":[0.95"))
      << lines;
}

TEST(LabelScores, OfChoicesAreOfTheirSequences) {
  LabelledSet set = labelled(LabelKind::one, {2}, {}, 1);
  set.choices = 4;
  const Tally tally = LabelScores(set, {0, 1, 5, 2}, {"A", "B", "C", "D"}).tally();
  EXPECT_EQ(tally.correct, 1);
}

}  // namespace
}  // namespace mt
