#include "serve/bench.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

TEST(Bench, Percentiles) {
  const double values[] = {1, 2, 4, 8};
  EXPECT_EQ(percentile(values, 0), 1);
  EXPECT_EQ(percentile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(percentile(values, 0.9), 6.8);  // as numpy.percentile(values, 90)
  EXPECT_EQ(percentile(values, 1), 8);
  EXPECT_EQ(percentile(std::span(values).first(1), 0.99), 1);
}

TEST(Bench, Report) {
  std::vector<BenchResult> results;
  for (int i = 1; i <= 4; ++i)
    results.push_back({.number = i,
                       .status = 200,
                       .times = {0.001 * i, 0.002 * i},
                       .prompt_tokens = 10,
                       .tokens = 2,
                       .seconds = 0.01 * i});
  results.push_back({.number = 5, .status = 429, .wrong = "status 429", .times = {}});
  EXPECT_EQ(bench_report(results, 2),
            "requests 5  answered 4  seconds 2.00  requests/s 2.00  prompt tokens/s 20.0  "
            "tokens/s 4.0\n"
            "milliseconds          mean       p50       p90       p95       p99       max\n"
            "first token           2.50      2.50      3.70      3.85      3.97      4.00\n"
            "between tokens        2.50      2.50      3.70      3.85      3.97      4.00\n"
            "whole answer         25.00     25.00     37.00     38.50     39.70     40.00\n"
            "requests by their milliseconds\n"
            "     10.00 ████████████████████████████████████████ 1\n"
            "     13.00  0\n"
            "     16.00  0\n"
            "     19.00 ████████████████████████████████████████ 1\n"
            "     22.00  0\n"
            "     25.00  0\n"
            "     28.00 ████████████████████████████████████████ 1\n"
            "     31.00  0\n"
            "     34.00  0\n"
            "     37.00 ████████████████████████████████████████ 1\n");
}

}  // namespace
}  // namespace mt
