// What one rank of several is asked for goes to all of them with a step.
#include "train/run/interruption.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <future>
#include <string_view>
#include <thread>

#include "ops/ops.h"
#include "optim/optimizer.h"
#include "train/run/batch_loader.h"

namespace mt {
namespace {

using Requests = Interruption::Requests;

// A step of this rank, with its requests.
Requests go_with_a_step(Optimizer& optimizer, const World& world, const Requests& own,
                        Stream& stream) {
  const Tensor sums = optimizer.sums(1);
  set_zero(sums, stream);
  transfer(sums.rows(0, kRequests), ConstTensor(own.data(), DType::f64, {kRequests}), stream);
  sum_losses(world, sums, 1);
  return optimizer.step({.learning_rate = 1e-3}, 1, stream).requests;
}

TEST(Interruption, RequestsOfEachRankGoToAll) {
  constexpr int kRanks = 8;
  OptimizerOptions whole, sharded, copies;
  sharded.use_distributed_optimizer = copies.use_distributed_optimizer = true;
  copies.distributed_optimizer_instances = 2;
  for (const ParallelSizes& sizes : {ParallelSizes{.dp = 8},
                                     {.tp = 2, .dp = 2, .pp = 2},
                                     {.tp = 2, .cp = 2, .dp = 2},
                                     {.tp = 4, .pp = 2},
                                     {.dp = 4, .pp = 2}})
    for (const OptimizerOptions* options : {&whole, &sharded, &copies})
      run_ranks(kRanks, [&](Group& ranks) {
        if (options == &copies && sizes.dp * sizes.cp < 4) return;
        const World world(ranks, sizes);
        Stream stream(Device::cpu);
        ParamTable table;
        table.add({.place = {.module = "row"}, .shape = {64}});
        Optimizer optimizer(table, Device::cpu, DType::f32, *options, world);
        for (int who = 0; who < kRanks; ++who) {
          Requests own = {}, expected = {};
          own[static_cast<std::size_t>(who % kRequests)] = ranks.rank() == who ? 1 : 0;
          expected[static_cast<std::size_t>(who % kRequests)] = 1;
          EXPECT_EQ(go_with_a_step(optimizer, world, own, stream), expected) << "of rank " << who;
        }
      });
}

TEST(Interruption, TakesWhatIsAskedFor) {
  const auto group = make_single_group();
  Interruption asked(*group, {});
  asked.take({});
  EXPECT_FALSE(asked.signal() || asked.time_is_over());
  asked.take({0, 3, 1, 0});
  EXPECT_EQ(asked.signal(), Signal::user1);
  asked.take({1, 3, 1, 0, 1});
  EXPECT_EQ(asked.signal(), Signal::user1);
  EXPECT_TRUE(asked.time_is_over());
}

TEST(Interruption, CountsWhatComes) {
  const auto group = make_single_group();
  Signals signals;
  Interruption asked(*group, {.signals = &signals, .minutes = {}});
  EXPECT_EQ(asked.requests(), Requests{});
  std::raise(SIGUSR1);
  EXPECT_EQ(asked.requests(), (Requests{0, 1}));
  std::raise(SIGUSR1);
  std::raise(SIGTERM);
  std::raise(SIGHUP);
  for (int others = 0; others < 2; ++others) asked.requests();  // one at a time
  Requests put = {};
  Stream stream(Device::cpu);
  asked.put_requests({put.data(), DType::f64, {kRequests}}, stream);
  EXPECT_EQ(put, (Requests{1, 2, 0, 1}));
  EXPECT_TRUE(asked.poll());
  EXPECT_EQ(asked.signal(), Signal::terminate);
}

// Where one comes in a step, it is told of at once, with the time until the step ends.
TEST(Interruption, TellsOfWhatComesAtOnce) {
  const auto group = make_single_group();
  Signals signals;
  std::promise<std::pair<Signal, double>> told;
  Interruption asked(*group, {.signals = &signals, .minutes = {}, .came = [&](auto... what) {
                                told.set_value({what...});
                              }});
  asked.step_ended(40);
  ::kill(::getpid(), SIGTERM);
  const auto [signal, seconds] = told.get_future().get();
  EXPECT_EQ(signal, Signal::terminate);
  EXPECT_GT(seconds, 30);
  EXPECT_LE(seconds, 40);
  while (asked.requests() == Requests{}) std::this_thread::yield();
  EXPECT_EQ(asked.requests(), Requests{1});
}

// By every rank, of each checkpoint.
TEST(Interruption, AllHaveWritten) {
  run_ranks(3, [](Group& ranks) {
    Interruption asked(ranks, {});
    for (int checkpoint = 1; checkpoint <= 2; ++checkpoint)
      for (int rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_FALSE(asked.all_written(checkpoint));
        if (rank == ranks.rank()) std::thread([&] { asked.count_written(); }).join();
        EXPECT_FALSE(asked.poll());
        EXPECT_EQ(asked.all_written(checkpoint), rank == ranks.size() - 1);
      }
  });
}

TEST(Interruption, OnlyTheFirstRankLooksAtTheTime) {
  run_ranks(2, [](Group& ranks) {
    Interruption over(
        ranks, {.start = Interruption::Clock::now() - std::chrono::minutes(2), .minutes = 1});
    EXPECT_EQ(over.requests()[4], ranks.rank() == 0 ? 1 : 0);
    EXPECT_TRUE(over.poll());
    EXPECT_TRUE(over.time_is_over());
  });
}

// A signal that finds no step ending is told of once, with what is saved; where steps end, where
// the host is in none, and where longer steps are known, it is waited for.
TEST(Interruption, ASignalThatFindsNoStepEndingIsToldOf) {
  using Clock = Interruption::Clock;
  const auto group = make_single_group();
  Signals signals;
  for (const std::string_view how : {"held", "saved", "steps end", "in no step", "long steps"}) {
    SCOPED_TRACE(how);
    const Clock::time_point start = Clock::now();
    std::promise<bool> told;
    Interruption asked(*group, {.signals = &signals,
                                .minutes = {},
                                .is_in_step = [&] { return how != "in no step"; },
                                .held =
                                    [&](Signal signal, std::chrono::seconds, bool saved) {
                                      EXPECT_EQ(signal, Signal::terminate);
                                      told.set_value(saved);
                                    },
                                .patience = std::chrono::milliseconds(500)});
    asked.step_ended(how == "long steps" ? 3600 : 0.001);
    if (how == "saved") asked.all_saved();
    ::kill(::getpid(), SIGTERM);
    auto saved = told.get_future();
    const bool is_told = how == "held" || how == "saved";
    while (!is_told && Clock::now() - start < std::chrono::milliseconds(1200)) {
      EXPECT_EQ(saved.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
      if (how == "steps end") asked.step_ended(0.001);
    }
    if (is_told) {
      EXPECT_EQ(saved.get(), how == "saved");
      EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(500));
    }
    EXPECT_EQ(asked.requests(), Requests{1});
  }
}

}  // namespace
}  // namespace mt
