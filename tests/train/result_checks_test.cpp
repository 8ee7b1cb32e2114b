#include "train/check/result_checks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/base/scratch.h"
#include "train/check/replica_check.h"

namespace mt {
namespace {

// Megatron-LM's is_unexpectedly_large: the first 100 values only feed the maximum.
TEST(SpikeDetector, LearnsFromTheFirstHundred) {
  SpikeDetector detector;
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(detector.is_spike(i % 2 == 0 ? -2.0 : 1.0));
  EXPECT_FALSE(detector.is_spike(NAN));
  EXPECT_FALSE(detector.is_spike(INFINITY));  // neither counts
  EXPECT_FALSE(detector.is_spike(1));         // the hundredth
  EXPECT_FALSE(detector.is_spike(19.9));
  EXPECT_TRUE(detector.is_spike(20));
  EXPECT_TRUE(detector.is_spike(-20));
  EXPECT_FALSE(detector.is_spike(NAN));
  EXPECT_FALSE(detector.is_spike(19.9));  // later values change nothing
}

// Three ranks with these losses of two micro-batches each.
std::string outcome(const CheckOptions& options, const double (&losses)[3][2]) {
  return error_of([&] {
    run_ranks(3, [&](Group& ranks) {
      ResultChecks checks(options, ranks);
      checks.check_losses(7, losses[ranks.rank()], " here");
    });
  });
}

TEST(ResultChecks, NameTheFirstRankAndMicroBatch) {
  EXPECT_EQ(outcome({}, {{1, 2}, {1, 2}, {1, 2}}), "");
  EXPECT_EQ(
      outcome({}, {{1, 2}, {1, INFINITY}, {NAN, 2}}),
      "1 iteration 7, rank 1: the loss of micro-batch 1 is infinite here; nothing was updated");
  EXPECT_EQ(outcome({.finite = false}, {{1, 2}, {1, INFINITY}, {NAN, 2}}), "");
}

TEST(ResultChecks, WhatIsComputedAgainIsComparedByItsBits) {
  const std::vector<double> first{1, NAN, -0.0};
  EXPECT_EQ(said_of_both(first, first), "; computed again it is the same");
  EXPECT_EQ(said_of_both(first, std::vector<double>{1, NAN, 0.0}),
            "; computed again it is not the same, as where hardware fails");
}

TEST(ResultChecks, SpikesAndLargeGradients) {
  const auto error = error_of([&] {
    run_ranks(2, [&](Group& ranks) {
      ResultChecks checks({.spiky_loss = true}, ranks);
      for (int i = 0; i < 50; ++i) checks.check_losses(i, std::vector<double>{1, 2});
      checks.check_losses(50, std::vector<double>{19, ranks.rank() == 1 ? 20.0 : 1});
    });
  });
  EXPECT_EQ(error,
            "1 iteration 50, rank 1: the loss of micro-batch 1, 20, is 10 times the largest of the "
            "first 100 or more; nothing was updated");
  const auto gradient = error_of([&] {
    run_ranks(1, [&](Group& ranks) {
      ResultChecks checks({.large_grads = true}, ranks);
      for (int i = 0; i <= 100; ++i) checks.check_gradient(i, i < 100 ? 0.5 : 5);
    });
  });
  EXPECT_EQ(gradient,
            "1 iteration 100, rank 0: the norm of the gradient, 5, is 10 times the largest of the "
            "first 100 or more; nothing was updated");
}

TEST(ResultChecks, SayWhatComesOfASecondTime) {
  int calls = 0;
  const auto error = error_of([&] {
    run_ranks(1, [&](Group& ranks) {
      ResultChecks checks({.spiky_loss = true, .rerun_mode = "validate_results"}, ranks);
      const auto again = [&] { return concat("; time ", ++calls); };
      for (int i = 0; i <= 100; ++i)
        checks.check_losses(i, std::vector<double>{i < 100 ? 1.0 : 10}, {}, again);
    });
  });
  EXPECT_EQ(error,
            "1 iteration 100, rank 0: the loss of micro-batch 0, 10, is 10 times the largest of "
            "the first 100 or more; time 1; nothing was updated");
}

// Four ranks, two of which share the matrix, and a change of one element on rank 3.
std::string replicas(const char* changed) {
  return error_of([&] {
    run_ranks(4, [&](Group& ranks) {
      const World world(ranks, {.tp = 2, .dp = 2});
      Stream stream(Device::cpu);
      ParamTable table;
      table.divide(world.position().tp, 2);
      table.add({.place = {.module = "vector"}, .shape = {5}});
      table.add({.place = {.module = "matrix"},
                 .shape = {4, 3},
                 .segments = {{"rows", 4, 0, ShardAxis::tp}}});
      table.allocate(Device::cpu, DType::f32, false);
      for (Param& row : table.rows())
        for (float& x : row.value.span<float>()) x = row.is_cut() ? world.position().tp : 1;
      if (ranks.rank() == 3 && changed != nullptr) table.at(changed).value.span<float>()[2] = 2;
      ReplicaCheck(table, world, stream).check(7);
    });
  });
}

TEST(ReplicaCheck, NamesWhatDiffers) {
  EXPECT_EQ(replicas(nullptr), "");
  EXPECT_EQ(replicas("matrix"),
            "1 weights after iteration 7, seen by rank 1: matrix is not the same on ranks 0 and 1 "
            "of the 2 that have copies of it");
  EXPECT_EQ(replicas("vector"),
            "1 weights after iteration 7, seen by rank 1: vector is not the same on ranks 0 and 1 "
            "of the 2 that have copies of it");
}

}  // namespace
}  // namespace mt
