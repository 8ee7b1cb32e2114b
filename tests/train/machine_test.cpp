// How long work and messages take, and what of one hides the other.
#include "train/plan/machine.h"

#include <gtest/gtest.h>

#include "train/plan/rank_clock.h"

namespace mt {
namespace {

Machine simple_machine() {
  return {.name = "simple",
          .peak = 1000,
          .products = 100,
          .bytes = 10,
          .memory = 1 << 20,
          .gpus_per_node = 4,
          .node = {.bytes = 8, .latency = 1},
          .network = {.bytes = 2, .latency = 3}};
}

// --- Machines -----------------------------------------------------------------------------------

TEST(Machine, WorkTakesTheLongerOfFlopsAndBytes) {
  const Machine machine = simple_machine();
  PerFamily<Cost> work = {};
  work[Family::product] = {.flops = 400, .bytes = 20};
  work[Family::norm] = {.bytes = 30};
  work[Family::communication] = {.message_bytes = 1000, .messages = 1};
  const PerFamily<double> seconds = machine.seconds(work, {}, false);
  EXPECT_DOUBLE_EQ(seconds[Family::product], 4 + 0.25 * 2);
  EXPECT_DOUBLE_EQ(seconds[Family::norm], 3);
  EXPECT_EQ(seconds[Family::communication], 0);
  work[Family::product].bytes = 100;
  EXPECT_DOUBLE_EQ(machine.seconds(work, {}, false)[Family::product], 10);
  work[Family::product] = {.flops = 400, .bytes = 20, .code_flops = 300};
  EXPECT_DOUBLE_EQ(machine.seconds(work, {}, false)[Family::product], 2.5 + 0.25 * 2);
}

TEST(Machine, AttentionIsSlowerBackwardWithSmallHeadsAndForShortSequences) {
  const Machine machine = MachineOptions{}.machine();
  PerFamily<Cost> work = {};
  work[Family::attention] = {.flops = 1e12, .bytes = 1};
  const auto seconds = [&](std::int64_t head_dim, std::int64_t tokens, bool backward) {
    return machine.seconds(work, {head_dim, tokens}, backward)[Family::attention];
  };
  EXPECT_GT(seconds(128, 4096, true), seconds(128, 4096, false));
  EXPECT_GT(seconds(64, 4096, false), seconds(128, 4096, false));
  EXPECT_GT(seconds(128, 1024, false), seconds(128, 4096, false));
  EXPECT_NEAR(1 / seconds(128, 4096, false), 0.9 * 591, 0.005 * 591);  // cuDNN's at 4k
  EXPECT_NEAR(1 / seconds(128, 8192, true), 0.9 * 541, 0.01 * 541);
}

TEST(Machine, MessagesPassTheSlowestLink) {
  const Machine machine = simple_machine();
  const auto seconds = [&](const std::vector<int>& ranks) {
    return machine.seconds({.group = "",
                            .collective = "",
                            .ranks = static_cast<int>(ranks.size()),
                            .hosts = machine.nodes(ranks),
                            .bytes = 16});
  };
  EXPECT_DOUBLE_EQ(seconds({4, 5, 6, 7}), 1 + 16 / 8.0);
  EXPECT_DOUBLE_EQ(seconds({0, 4}), 1 + 3 + 16 / 2.0);             // a card of each node
  EXPECT_DOUBLE_EQ(seconds({0, 4, 8, 12}), 1 + 2 * 3 + 16 / 2.0);  // a tree over four nodes
  EXPECT_DOUBLE_EQ(seconds({0, 1, 4, 5}), 1 + 3 + 16 / 4.0);
  EXPECT_DOUBLE_EQ(seconds({0, 1, 2, 3, 4, 5, 6, 7}), 1 + 3 + 16 / 8.0);
  EXPECT_EQ(machine.nodes({0, 3}), 1);
  EXPECT_EQ(machine.nodes({3, 4}), 2);
}

TEST(Machine, PairsAreSlowerAndMessagesBeginSlowly) {
  Machine machine = simple_machine();
  machine.node.pair = 0.5;
  machine.node.slow_start = 6;
  const auto seconds = [&](int ranks, double bytes) {
    return machine.seconds(
        {.group = "", .collective = "", .ranks = ranks, .hosts = 1, .bytes = bytes});
  };
  EXPECT_DOUBLE_EQ(seconds(4, 16), 1 + (6 + 16) / 8.0);
  EXPECT_DOUBLE_EQ(seconds(4, 2), 1 + (2 + 2) / 8.0);
  EXPECT_DOUBLE_EQ(seconds(2, 16), 1 + (6 + 16) / 4.0);
}

TEST(Machine, OptionsReplaceWhatIsKnown) {
  MachineOptions options;
  EXPECT_EQ(options.machine().name, "h200");
  EXPECT_FALSE(options.is_named());
  options = {.name = "a100",
             .tflops = 200,
             .memory_bandwidth = 1500,
             .launch = 5,
             .link_bandwidth = 100,
             .link_latency = 2,
             .network_bandwidth = 10,
             .network_latency = 4,
             .memory = 40,
             .gpus_per_node = 16};
  const Machine machine = options.machine();
  EXPECT_EQ(machine.products, 200e12);
  EXPECT_EQ(machine.bytes, 1500e9);
  EXPECT_DOUBLE_EQ(machine.launch, 5e-6);
  EXPECT_EQ(machine.node.bytes, 100e9);
  EXPECT_DOUBLE_EQ(machine.node.latency, 2e-6);
  EXPECT_EQ(machine.network.bytes, 10e9);
  EXPECT_DOUBLE_EQ(machine.network.latency, 4e-6);
  EXPECT_EQ(machine.memory, std::size_t{40} << 30);
  EXPECT_EQ(machine.gpus_per_node, 16);
}

// --- Clocks -------------------------------------------------------------------------------------

// A group of two on meta, whose messages of 16 bytes leave 8 of them, and take 1 + 8 / 8 seconds.
class Clock : public testing::Test {
 protected:
  Clock() {
    group_.call("tensor");
    clock_.begin_part(false);
  }
  void work(double seconds) { stream_.count({.bytes = 10 * seconds}, Family::norm); }
  Pending gather() { return group_.all_gather(all_, half_); }
  RankClock::Part last() { return clock_.end().back(); }

  Machine machine_ = simple_machine();
  Stream stream_{Device::meta};
  RankClock clock_{machine_, {}, stream_};
  MetaGroup group_{0, {2, 3}, stream_, &clock_};
  Buffer storage_{Device::meta, 64};
  Tensor all_ = storage_.tensor(DType::u8, {16}), half_ = storage_.tensor(DType::u8, {8});
};

TEST_F(Clock, WorkHidesMessages) {
  Pending message = gather();
  work(0.5);
  message.wait();  // 1.5 seconds early
  work(1);
  EXPECT_DOUBLE_EQ(last().families[Family::norm], 1.5);
  EXPECT_DOUBLE_EQ(last().families[Family::communication], 1.5);
  Pending hidden = gather();
  work(5);
  hidden.wait();
  EXPECT_DOUBLE_EQ(last().families[Family::communication], 1.5);
  EXPECT_DOUBLE_EQ(last().seconds(), 8);
  ASSERT_EQ(clock_.messages().size(), 1U);
  const GroupMessages& m = clock_.messages().front();
  EXPECT_EQ(m.group, "tensor");
  EXPECT_EQ(m.collective, "all_gather");
  EXPECT_EQ(m.ranks, 2);
  EXPECT_TRUE(m.within_node);
  EXPECT_EQ(m.count, 2);
  EXPECT_EQ(m.bytes, 16);
  EXPECT_DOUBLE_EQ(m.seconds, 4);
  EXPECT_DOUBLE_EQ(m.waited, 1.5);
}

TEST_F(Clock, MessagesOfOneGroupFollowEachOther) {
  const std::unique_ptr<Group> other = group_.split({0, 1});
  dynamic_cast<MetaGroup&>(*other).call("data");
  Pending first = gather(), second = gather(), beside = other->all_gather(all_, half_);
  beside.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 2);
  second.wait();
  first.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 4);
  EXPECT_EQ(clock_.messages().size(), 2U);
}

TEST_F(Clock, APartMayWaitForAMessageOfTheOneBefore) {
  Pending message = gather(), later = gather();
  work(1);
  clock_.begin_part(true);
  work(0.5);
  message.wait();
  EXPECT_DOUBLE_EQ(clock_.end().at(1).families[Family::communication], 0);
  EXPECT_DOUBLE_EQ(last().families[Family::communication], 0.5);
}

// The second message arrives 2 seconds after the step that left it; the part that needs it after
// 0.5 seconds can begin 1.5 seconds after that step.
TEST_F(Clock, MessagesThatAStepLeavesHoldUpTheNext) {
  Pending now = gather(), later = gather();
  now.wait();
  clock_.begin_step();
  EXPECT_EQ(clock_.messages().front().count, 0);
  clock_.begin_part(false);
  work(0.25);
  clock_.begin_part(false);
  work(0.5);
  later.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 0.5);
  EXPECT_DOUBLE_EQ(last().not_before, 1.5);
}

TEST_F(Clock, MessagesToOtherStagesOnlyTravel) {
  group_.call("pipeline");
  Pending sent = group_.send(all_, 1);
  sent.wait();
  EXPECT_EQ(last().seconds(), 0);
  EXPECT_DOUBLE_EQ(last().transfer, 1 + 16 / 8.0);
}

TEST_F(Clock, ALaunchComesBeforeWork) {
  machine_.launch = 0.25;
  clock_.begin_part(false);
  EXPECT_EQ(last().launch, 0);
  work(1);
  Pending message = gather();
  work(1);
  message.wait();
  EXPECT_DOUBLE_EQ(last().seconds(), 0.25 + 1 + 2);
}

}  // namespace
}  // namespace mt
