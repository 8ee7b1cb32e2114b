// Histograms, as Prometheus reads them.
#include "serve/histogram.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

TEST(Histogram, CountsUpToEachBoundAndSumsToTheLastDigit) {
  Histogram times;
  EXPECT_TRUE(times.text("t").ends_with("t_sum 0\nt_count 0\n"));
  times.add(0.0025);
  times.add(1234567.25);
  const std::string text = times.text("t");
  EXPECT_TRUE(text.starts_with("t_bucket{le=\"0.001\"} 0\nt_bucket{le=\"0.0025\"} 1\n")) << text;
  EXPECT_TRUE(
      text.ends_with("t_bucket{le=\"60\"} 1\nt_bucket{le=\"+Inf\"} 2\n"
                     "t_sum 1234567.2525\nt_count 2\n"))
      << text;
}

}  // namespace
}  // namespace mt
