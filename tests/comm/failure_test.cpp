// When a rank fails: the others end with Exit::peer_failed, nobody waits for ever, nobody touches
// the memory of a rank that has gone, and the caller sees the failing rank's own error.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "comm/group.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

// What body ends with on each rank: nothing, or the error's code.
std::vector<std::optional<Exit>> codes_of(int ranks, const std::function<void(Group&)>& body,
                                          std::string* thrown) {
  std::vector<std::optional<Exit>> codes(static_cast<std::size_t>(ranks));
  try {
    run_ranks(ranks, [&](Group& group) {
      try {
        body(group);
      } catch (const Error& error) {
        codes[static_cast<std::size_t>(group.rank())] = error.code();
        throw;
      }
    });
  } catch (const Error& error) {
    *thrown = concat(static_cast<int>(error.code()), " ", error.what());
  }
  return codes;
}

using Body = std::function<void(Group&, const Tensor&)>;

struct Wait {
  const char* name;
  Body body;
};
void PrintTo(const Wait& wait, std::ostream* out) { *out << wait.name; }

class Failure : public testing::TestWithParam<Wait> {};

TEST_P(Failure, OfOneRankEndsTheOthersWaits) {
  for (const int failing : {0, 1, 2}) {
    std::string thrown;
    const auto codes = codes_of(
        3,
        [&](Group& group) {
          if (group.rank() == failing) fail(Exit::bad_data, "token 99 of shard 7");
          const HostTensor t(DType::f32, {12});
          GetParam().body(group, t);
          GetParam().body(group,
                          t);  // so that a rank without the failing one as neighbour waits too
          group.barrier();
        },
        &thrown);
    EXPECT_EQ(thrown, "65 token 99 of shard 7");
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(codes[static_cast<std::size_t>(rank)],
                rank == failing ? Exit::bad_data : Exit::peer_failed)
          << rank;
  }
}

std::vector<Wait> waits() {
  return {{"all_reduce", [](Group& g, const Tensor& t) { g.all_reduce(t).wait(); }},
          {"all_gather", [](Group& g, const Tensor& t) { g.all_gather(t, t.rows(0, 4)).wait(); }},
          {"reduce_scatter",
           [](Group& g, const Tensor& t) { g.reduce_scatter(t.rows(0, 4), t).wait(); }},
          {"broadcast", [](Group& g, const Tensor& t) { g.broadcast(t, 1).wait(); }},
          {"barrier", [](Group& g, const Tensor&) { g.barrier(); }},
          {"messages", [](Group& g, const Tensor& t) {
             Pending sent = g.send(t, (g.rank() + 1) % 3);
             g.receive(t, (g.rank() + 2) % 3).wait();
             sent.wait();
           }}};
}

std::string name_of_case(const testing::TestParamInfo<Wait>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(InEvery, Failure, testing::ValuesIn(waits()), name_of_case);

// Two errors of their own: the first that was thrown counts, also if it is recorded after the
// Exit::peer_failed of a rank that it stopped.
TEST(Failures, TheFirstErrorIsRethrown) {
  for (int run = 0; run < 50; ++run) {
    std::atomic<bool> failed = false;
    std::string thrown;
    codes_of(
        4,
        [&](Group& group) {
          const HostTensor t(DType::f32, {1000});
          Pending left;
          if (group.rank() == run % 4) {
            left = group.all_reduce(t);
            failed = true;
            fail(Exit::io_error, "disk ", run);
          }
          group.all_reduce(t).wait();
          group.barrier();
        },
        &thrown);
    EXPECT_EQ(thrown, concat("74 disk ", run));
  }
}

TEST(Failures, AnErrorThatIsNotOursIsRethrown) {
  EXPECT_THROW(run_ranks(3,
                         [](Group& group) {
                           if (group.rank() == 2) throw std::bad_alloc();
                           group.barrier();
                         }),
               std::bad_alloc);
}

TEST(Failures, TensorsThatDoNotGoTogetherAreAnErrorOfOneRank) {
  const std::vector<std::pair<const char*, Body>> wrong = {
      {"all_reduce: ",
       [](Group& g, const Tensor& t) { g.all_reduce(t.rows(0, 5 + g.rank())).wait(); }},
      {"all_gather: ", [](Group& g, const Tensor& t) { g.all_gather(t, t.rows(0, 5)).wait(); }},
      {"reduce_scatter: ",
       [](Group& g, const Tensor& t) { g.reduce_scatter(t.rows(0, 5), t).wait(); }},
      {"broadcast: ",
       [](Group& g, const Tensor& t) { g.broadcast(t.rows(g.rank(), 9), 0).wait(); }},
      {"receive: ", [](Group& g, const Tensor& t) {
         if (g.rank() == 0) g.send(t, 1).wait();
         if (g.rank() == 1) g.receive(t.rows(0, 3), 0).wait();
         g.barrier();
       }}};
  for (const auto& [start, body] : wrong) {
    std::string thrown;
    codes_of(
        2,
        [&](Group& group) {
          const HostTensor t(DType::f32, {12});
          body(group, t);
        },
        &thrown);
    EXPECT_EQ(thrown.substr(0, thrown.find(' ', 3) + 1), concat("70 ", start)) << thrown;
  }
}

// A rank fails with operations of all kinds under way.
TEST(Failures, UnfinishedOperationsOfARankThatFailsAreLeft) {
  for (int run = 0; run < 60; ++run) {
    std::string thrown;
    codes_of(
        3,
        [&](Group& group) {
          const HostTensor a(DType::f32, {500}), b(DType::f32, {500}), c(DType::f32, {500});
          Pending pending = group.all_reduce(a);
          Pending sent = group.send(b, (group.rank() + 1) % 3);
          Pending received = group.receive(c, (group.rank() + 2) % 3);
          if (group.rank() == run % 3) fail(Exit::bad_data, "gone");
          pending.wait();
          received.wait();
          sent.wait();
        },
        &thrown);
    EXPECT_EQ(thrown, "65 gone");
  }
}

// Rank 0 fails while rank 1 is at work on the tensors of both: rank 0's memory must stay until that
// is done.  An access after that is a fault, because a Buffer's memory is unmapped.
TEST(Failures, MemoryOfARankThatFailsStaysWhileAnotherWorksOnIt) {
  constexpr std::int64_t kCount = 8 << 20;  // some milliseconds of work
  for (int run = 0; run < 5; ++run) {
    std::atomic<bool> begins = false;
    std::string thrown;
    codes_of(
        2,
        [&](Group& group) {
          const HostTensor t(DType::f32, {kCount});
          if (group.rank() == 0) {
            Pending pending = group.all_reduce(t);
            while (!begins) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            fail(Exit::bad_data, "gone");
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(2));  // rank 0 is there first
          begins = true;
          group.all_reduce(t).wait();
          group.barrier();
        },
        &thrown);
    EXPECT_EQ(thrown, "65 gone");
  }
}

// The same when rank 0 already waits, and is told that the group is aborted.
TEST(Failures, MemoryOfARankThatWaitsStaysWhileAnotherWorksOnIt) {
  for (int run = 0; run < 5; ++run) {
    InProcess process(2);
    std::atomic<bool> begins = false;
    const auto rank = [&](int number) {
      const auto group = process.make(number);
      const HostTensor t(DType::f32, {8 << 20});
      std::this_thread::sleep_for(std::chrono::milliseconds(2 * number));  // rank 0 is there first
      if (number == 1) begins = true;
      const auto sum_for_ever = [&] {
        for (;;) group->all_reduce(t).wait();
      };
      EXPECT_THROW(sum_for_ever(), Error);
    };
    std::thread first(rank, 0), second(rank, 1);
    while (!begins) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.abort("the cable was cut");
    first.join();
    second.join();
  }
}

TEST(Failures, AbortReachesWaitsAndLaterCalls) {
  InProcess process(2);
  const auto group = process.make(0);
  const HostTensor t(DType::f32, {4});
  const auto code_of = [&](const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the cable was cut");
      return error.code();
    }
    return Exit::ok;
  };
  Pending pending = group->all_reduce(t);
  std::thread cutter([&] { process.abort("the cable was cut"); });
  EXPECT_EQ(code_of([&] { pending.wait(); }), Exit::peer_failed);
  cutter.join();
  EXPECT_EQ(code_of([&] { group->barrier(); }), Exit::peer_failed);
  EXPECT_EQ(code_of([&] { group->send(t, 1).wait(); }), Exit::peer_failed);
}

}  // namespace
}  // namespace mt
