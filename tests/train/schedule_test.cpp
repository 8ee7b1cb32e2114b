// Every schedule on every rank: the orders of Megatron's, and what PipelineWalk sees of all.
#include "train/run/schedule.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/train/pipeline_walk.h"

namespace mt {
namespace {

using Kind = Action::Kind;
using Maker = Schedule (*)(const PipelinePlace&, int);

// "F0 F1 B0 W0", or with several chunks "F0.0 F0.1": the work of a schedule without its messages.
std::string work_of(const Schedule& schedule, bool with_chunks = false) {
  std::string text;
  for (const Action& action : schedule) {
    const char* const name = action.kind == Kind::forward            ? "F"
                             : action.kind == Kind::backward         ? "B"
                             : action.kind == Kind::weight_gradients ? "W"
                                                                     : nullptr;
    if (name == nullptr) continue;
    text += concat(text.empty() ? "" : " ", name, action.micro_batch);
    if (with_chunks) text += concat(".", action.chunk);
  }
  return text;
}

// --- Golden orders ------------------------------------------------------------------------------

TEST(Schedules, GoldenOneForwardOneBackward) {
  const auto work = [](int rank) { return work_of(one_f_one_b({.rank = rank, .ranks = 4}, 8)); };
  EXPECT_EQ(work(0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(work(1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  EXPECT_EQ(work(2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  EXPECT_EQ(work(3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(Schedules, GoldenInterleaved) {
  const auto work = [](int rank) {
    return work_of(interleaved({.rank = rank, .ranks = 4, .chunks = 2}, 8), true);
  };
  EXPECT_EQ(work(0),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1 F5.1 "
            "B3.1 F6.1 B0.0 F7.1 B1.0 B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(work(1),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 B0.1 F5.0 B1.1 F6.0 B2.1 F7.0 B3.1 F4.1 "
            "B0.0 F5.1 B1.0 F6.1 B2.0 F7.1 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(work(2),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 B0.1 F3.1 B1.1 F4.0 B2.1 F5.0 B3.1 F6.0 B0.0 F7.0 "
            "B1.0 F4.1 B2.0 F5.1 B3.0 F6.1 B4.1 F7.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(work(3),
            "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 "
            "B2.0 F7.0 B3.0 F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0");
}

TEST(Schedules, GoldenInterleavedWithAnUnevenLastGroup) {
  const auto work = [](int rank) {
    return work_of(interleaved({.rank = rank, .ranks = 2, .chunks = 2, .group = 3}, 5), true);
  };
  EXPECT_EQ(work(0),
            "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 F3.0 B1.1 F4.0 B2.1 F3.1 B0.0 F4.1 B1.0 B2.0 B3.1 "
            "B4.1 B3.0 B4.0");
  EXPECT_EQ(work(1),
            "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.0 B0.0 F4.0 B1.0 F3.1 B2.0 F4.1 B3.1 "
            "B4.1 B3.0 B4.0");
}

TEST(Schedules, GoldenWarmups) {
  const auto warmups = [](int ranks, int chunks, int group, int micro_batches) {
    std::vector<int> counts;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string work = work_of(interleaved(
          {.rank = rank, .ranks = ranks, .chunks = chunks, .group = group}, micro_batches));
      const std::string before = work.substr(0, work.find('B'));
      // The forward before the first backward is the first pair's.
      counts.push_back(static_cast<int>(std::ranges::count(before, 'F')) - 1);
    }
    return counts;
  };
  EXPECT_EQ(warmups(4, 4, 4, 16), (std::vector{18, 16, 14, 12}));
  EXPECT_EQ(warmups(8, 3, 8, 32), (std::vector{30, 28, 26, 24, 22, 20, 18, 16}));
  EXPECT_EQ(warmups(4, 2, 6, 12), (std::vector{12, 10, 8, 6}));
}

TEST(Schedules, GPipeAndZeroBubble) {
  EXPECT_EQ(work_of(gpipe({.rank = 1, .ranks = 4}, 3)), "F0 F1 F2 B0 B1 B2");
  const auto work = [](int rank) { return work_of(zero_bubble({.rank = rank, .ranks = 4}, 5)); };
  EXPECT_EQ(work(0), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");  // its backward has the weight gradients
  EXPECT_EQ(work(1), "F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 B3 W2 B4 W3 W4");
  EXPECT_EQ(work(2), "F0 F1 B0 F2 B1 F3 B2 W0 F4 B3 W1 B4 W2 W3 W4");
  EXPECT_EQ(work(3), "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 W2 W3 W4");
}

// --- All ranks at once --------------------------------------------------------------------------

struct Pipeline {
  int ranks, chunks, group, micro_batches;
};

std::vector<Schedule> all_ranks(Maker make, const Pipeline& p) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < p.ranks; ++rank)
    all.push_back(make({.rank = rank, .ranks = p.ranks, .chunks = p.chunks, .group = p.group},
                       p.micro_batches));
  return all;
}

// What goes wrong when kernels are loaded meanwhile.
std::string walk_loading(Maker make, const Pipeline& p) {
  return PipelineWalk(all_ranks(make, p), {.chunks = p.chunks,
                                           .micro_batches = p.micro_batches,
                                           .training = make != forward_only,
                                           .sends = PipelineWalk::Sends::taken_before_loading})
      .run();
}

// Walks with either kind of sends; returns the time beside all work of a rank.
std::int64_t walk(Maker make, const Pipeline& p, const WorkTimes& times) {
  SCOPED_TRACE(concat(p.ranks, " ranks, ", p.chunks, " chunks, groups of ", p.group, ", ",
                      p.micro_batches, " micro-batches"));
  const std::vector<Schedule> all = all_ranks(make, p);
  PipelineWalk::What what{.chunks = p.chunks,
                          .micro_batches = p.micro_batches,
                          .training = make != forward_only,
                          .sends = PipelineWalk::Sends::taken,
                          .times = times};
  EXPECT_EQ(PipelineWalk(all, what).run(), "");
  what.sends = PipelineWalk::Sends::buffered;
  PipelineWalk walk(all, what);
  EXPECT_EQ(walk.run(), "");
  const std::int64_t work = times.forward + times.backward + times.weight_gradients;
  return walk.time() - work * p.micro_batches * p.chunks;
}

constexpr int kRanks = 16, kMicroBatches = 64, kChunks = 4;
constexpr WorkTimes kTimes{.forward = 10, .backward = 12, .weight_gradients = 9};
constexpr std::int64_t kForwardBackward =
    kTimes.forward + kTimes.backward + kTimes.weight_gradients;

template <class Body>
void for_each_pipeline(const Body& body) {
  for (int ranks = 1; ranks <= kRanks; ++ranks)
    for (int micro_batches = 1; micro_batches <= kMicroBatches; ++micro_batches)
      body(Pipeline{ranks, 1, ranks, micro_batches});
}

TEST(Schedules, GPipeWalks) {
  for_each_pipeline([](const Pipeline& p) {
    EXPECT_EQ(walk(gpipe, p, kTimes), (p.ranks - 1) * kForwardBackward);
  });
}

TEST(Schedules, OneForwardOneBackwardWalks) {
  for_each_pipeline([](const Pipeline& p) {
    EXPECT_EQ(walk(one_f_one_b, p, kTimes), (p.ranks - 1) * kForwardBackward);
  });
}

// The paper's bubble wants as many micro-batches as ranks: each of the first p - 1 after the first
// takes a W from it.
TEST(Schedules, ZeroBubbleWalks) {
  for_each_pipeline([](const Pipeline& p) {
    const int filled = std::min(p.ranks, p.micro_batches) - 1;
    EXPECT_EQ(walk(zero_bubble, p, kTimes), (p.ranks - 1) * (kTimes.forward + kTimes.backward) -
                                                filled * kTimes.weight_gradients);
  });
}

// Calls body(pipeline) with groups of several sizes.
template <class Body>
void for_each_group(int chunks, const Body& body) {
  for_each_pipeline([&](Pipeline p) {
    p.chunks = chunks;
    for (const int group : {p.ranks, p.ranks + 1, 2 * p.ranks, p.micro_batches}) {
      p.group = group;
      const int rest = p.micro_batches % group;
      if (p.ranks > 1 && group >= p.ranks && group <= p.micro_batches &&
          (rest == 0 || rest >= p.ranks))
        body(p);
    }
  });
}

// (p-1)(F+B+W)/chunks: kTimes are those of one chunk.
TEST(Schedules, InterleavedWalks) {
  for (int chunks = 2; chunks <= kChunks; ++chunks)
    for_each_group(chunks, [&](const Pipeline& p) {
      EXPECT_EQ(walk(interleaved, p, kTimes), (p.ranks - 1) * kForwardBackward);
    });
}

// All but interleaved(), in which each of four ranks waits for the next as it loads its backward.
TEST(Schedules, NobodyWaitsForeverForRanksThatLoadKernels) {
  for_each_pipeline([](const Pipeline& p) {
    for (const Maker make : {gpipe, one_f_one_b, zero_bubble, forward_only})
      EXPECT_EQ(walk_loading(make, p), "") << p.ranks << " ranks, " << p.micro_batches;
  });
  for (int chunks = 2; chunks <= kChunks; ++chunks)
    for_each_group(chunks, [](const Pipeline& p) {
      if (p.micro_batches > 24) return;
      EXPECT_EQ(walk_loading(interleaved_loading, p), "")
          << p.ranks << " ranks, groups of " << p.group << ", " << p.micro_batches;
      EXPECT_EQ(walk_loading(forward_only, p), "");
      for (int rank = 0; rank < p.ranks; ++rank)
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
          const PipelinePlace place{
              .rank = rank, .ranks = p.ranks, .chunks = p.chunks, .group = p.group};
          EXPECT_LE(slot_count(interleaved_loading(place, p.micro_batches), chunk),
                    slot_count(interleaved(place, p.micro_batches), chunk));
        }
    });
  EXPECT_NE(walk_loading(interleaved, {4, 2, 4, 16}), "");
}

TEST(Schedules, ForwardOnlyWalks) {
  for_each_pipeline([](const Pipeline& p) {
    EXPECT_EQ(
        walk(forward_only, p, kTimes),
        (p.ranks - 1) * kTimes.forward - p.micro_batches * (kForwardBackward - kTimes.forward));
  });
  for (int chunks = 2; chunks <= kChunks; ++chunks)
    for_each_group(chunks, [](const Pipeline& p) { walk(forward_only, p, kTimes); });
}

// A rank has as few slots as its micro-batches in flight allow, but for those that a longer group
// leaves alone.
TEST(Schedules, Slots) {
  for_each_pipeline([](const Pipeline& p) {
    for (int rank = 0; rank < p.ranks; ++rank) {
      const PipelinePlace place{.rank = rank, .ranks = p.ranks};
      const int m = p.micro_batches;
      EXPECT_EQ(slot_count(gpipe(place, m), 0), m);
      EXPECT_EQ(slot_count(one_f_one_b(place, m), 0), std::min(p.ranks - rank, m));
      EXPECT_EQ(slot_count(zero_bubble(place, m), 0), std::min(p.ranks, m));
      EXPECT_EQ(slot_count(forward_only(place, m), 0), 1);
    }
  });
  const auto slots = [](int rank, int group) {
    const Schedule schedule =
        interleaved({.rank = rank, .ranks = 4, .chunks = 2, .group = group}, 32);
    return std::pair(slot_count(schedule, 0), slot_count(schedule, 1));
  };
  // Rank 0: micro-batches 0 to 7 before the first leaves chunk 0.
  EXPECT_EQ(slots(0, 4), std::pair(8, 4));
  EXPECT_EQ(slots(3, 4), std::pair(5, 1));
}

TEST(Schedules, RefuseGroupsThatLeaveBubbles) {
  const auto refusal = [](int group, int micro_batches) -> std::string {
    try {
      interleaved({.rank = 0, .ranks = 4, .chunks = 2, .group = group}, micro_batches);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string range =
      "The number of contiguous micro-batches in a virtual pipeline stage should range in [PP=4 , ";
  EXPECT_EQ(refusal(3, 8), range + "M=8]");
  EXPECT_EQ(refusal(9, 8), range + "M=8]");
  EXPECT_EQ(refusal(4, 2), range + "M=2]");
  EXPECT_EQ(refusal(4, 10),
            "The remainder of M (the total micro-batches) divided by N (number of contiguous "
            "micro-batches in a virtual pipeline stage) should be 0, or larger than or equal to "
            "the pipeline-parallel size, but it is 2. Otherwise, it introduces dependency bubbles "
            "in the pipeline and reduces throughput.");
  EXPECT_EQ(refusal(5, 9), "");
}

// --- The walk sees what it is there for ---------------------------------------------------------

std::string walk_through(const std::vector<Schedule>& ranks, PipelineWalk::Sends sends) {
  return PipelineWalk(ranks, {.micro_batches = 2, .sends = sends}).run();
}

TEST(PipelineWalk, TwoRanksThatBothReceiveFirstAreADeadlock) {
  const Schedule first{{Kind::receive_backward, 0}, {Kind::send_forward, 0}};
  const Schedule second{{Kind::receive_forward, 0}, {Kind::send_backward, 0}};
  EXPECT_EQ(walk_through({first, second}, PipelineWalk::Sends::buffered),
            "rank 0 waits for ever at action 0");
}

TEST(PipelineWalk, MicroBatchesOutOfOrder) {
  std::vector<Schedule> ranks = all_ranks(gpipe, {2, 1, 2, 2});
  std::swap(ranks[0][0], ranks[0][2]);
  std::swap(ranks[0][1], ranks[0][3]);
  EXPECT_EQ(walk_through(ranks, PipelineWalk::Sends::buffered),
            "rank 1, action 0, micro-batch 0, chunk 0: another's message came");
}

TEST(PipelineWalk, ASlotThatIsTakenTooEarly) {
  std::vector<Schedule> ranks = all_ranks(gpipe, {2, 1, 2, 2});
  for (Action& action : ranks[0]) action.slot = 0;
  EXPECT_EQ(walk_through(ranks, PipelineWalk::Sends::buffered),
            "rank 0, action 2, micro-batch 1, chunk 0: the slot is not free");
}

TEST(PipelineWalk, WorkThatIsMissing) {
  std::vector<Schedule> ranks = all_ranks(gpipe, {1, 1, 1, 2});
  ranks[0].pop_back();
  EXPECT_EQ(walk_through(ranks, PipelineWalk::Sends::buffered), "rank 0 has not done everything");
}

// One slot fewer, and an interleaved schedule with long groups hangs once sends are not buffered.
TEST(PipelineWalk, SendsThatNobodyTakes) {
  std::vector<Schedule> ranks = all_ranks(interleaved, {2, 2, 4, 4});
  for (Schedule& schedule : ranks)
    for (Action& action : schedule)
      if (action.chunk == 1) action.slot %= slot_count(schedule, 1) - 1;
  const PipelineWalk::What what{
      .chunks = 2, .micro_batches = 4, .sends = PipelineWalk::Sends::taken};
  EXPECT_NE(PipelineWalk(ranks, what).run(), "");
}

}  // namespace
}  // namespace mt
