#include "train/report/progress_log.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/base/scratch.h"
#include "tests/support/matches.h"

namespace mt {
namespace {

// The lines of Megatron-LM's append_to_progress_log.
TEST(ProgressLog, Lines) {
  const Scratch scratch;
  ProgressLog progress(scratch.path("."), 4, 0);
  progress.saved("Saved checkpoint", 500, 1.86e16, 524288000);
  const std::string text = read_file(scratch.path("progress.txt"));
  const std::string begin =
      "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\tJob ID: [0-9]*\t# GPUs: 4\t";
  const std::string throughput = "throughput: [0-9]+[.][0-9] TFLOP/s/GPU\t";
  EXPECT_TRUE(matches(text, begin + "Starting job\n" + begin +
                                "Saved checkpoint\tIteration: 500\tJob " + throughput +
                                "Cumulative " + throughput +
                                "Floating-point operations: 1[.]86e[+]16\t"
                                "Tokens [(]in billions[)]: 0[.]52\n"))
      << text;
}

// Two jobs of 8 ranks count together from the first, unless one of another number came between.
TEST(ProgressLog, StartOfTheJobsOfSoManyRanks) {
  const std::string eight = "2026-08-22 10:00:00\tJob ID: \t# GPUs: 8\t";
  const std::string saved =
      "Saved checkpoint\tIteration: 5\tJob throughput: 1.0 TFLOP/s/GPU\t"
      "Cumulative throughput: 1.0 TFLOP/s/GPU\tFloating-point operations: 2.50e+03\t"
      "Tokens (in billions): 0.00\n";
  const std::string later = "2026-08-22 10:30:00\tJob ID: \t# GPUs: 8\tStarting job\n";
  const std::string two = eight + "Starting job\n" + eight + saved + later;
  const ProgressStart first = progress_start(two, 8);
  EXPECT_GT(first.seconds, 1.7e9);
  EXPECT_EQ(first.flops, 0);
  const std::string other = "2026-08-22 10:15:00\tJob ID: \t# GPUs: 2\tStarting job\n";
  const ProgressStart restarted =
      progress_start(eight + "Starting job\n" + eight + saved + other + later, 8);
  EXPECT_EQ(restarted.seconds, first.seconds + 1800);
  EXPECT_EQ(restarted.flops, 2500);
  EXPECT_EQ(progress_start("not\tsuch\ta\tline\n\nx\n", 8).seconds, 0);
}

}  // namespace
}  // namespace mt
