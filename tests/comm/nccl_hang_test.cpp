// What becomes of GPUs that wait for a rank that does not come, in each way in which they may.
#include <gtest/gtest.h>

#include <thread>

#include "comm/nccl_group.h"
#include "comm/ring.h"
#include "tests/support/gpu_ranks.h"
#include "tests/support/gpu_tensor.h"
#include "tests/support/matches.h"

namespace mt {
namespace {

// Rank 1's host does something else, until it is called away.
void lose_rank_1(const Group& group) {
  if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::minutes(1));
}

// The body loses rank 1 before the operation, in which the others' GPUs or hosts wait for it: all
// ranks are told so, and those that hang are ended.
void expect_named(const std::string& operation, const std::function<void(Group&, Stream&)>& body) {
  SCOPED_TRACE(operation);
  const int gpus = count_gpus();
  if (gpus < 2) GTEST_SKIP() << "needs two GPUs";
  const GpuRank rank = [&](Rendezvous& ranks, Group& group, Stream& stream) {
    const GpuTensor t(stream, 1000);
    group.all_reduce(t).wait();
    stream.synchronize();
    const auto end_with = [&](const std::string& failure) {
      EXPECT_TRUE(matches(failure, concat("rank 1 \\(.+\\) did not come to operation [0-9]+ of its "
                                          "group, ",
                                          operation, " among [0-9]+, in 5 s")))
          << "rank " << group.rank() << ": " << failure;
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);  // orderly ends wait for the others
    };
    ranks.if_stuck([&](const std::string& failure, Exit code) {
      EXPECT_EQ(code, Exit::peer_failed);
      end_with(failure);
    });
    try {
      body(group, stream);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::peer_failed);
    }
    end_with(ranks.failure(std::chrono::seconds(20)));
  };
  run_gpu_ranks(gpus, std::chrono::seconds(5), rank);
}

void sum(Group& group, Stream& stream, std::int64_t count) {
  const GpuTensor t(stream, count);
  lose_rank_1(group);
  group.all_reduce(t).wait();
  stream.synchronize();
}

TEST(NcclHang, OfASumByOurKernel) {
  expect_named("all_reduce of 1000 float32",
               [](Group& group, Stream& stream) { sum(group, stream, 1000); });
}

TEST(NcclHang, OfASumByNccl) {
  expect_named("all_reduce of 100000 float32",
               [](Group& group, Stream& stream) { sum(group, stream, 100'000); });
}

TEST(NcclHang, OfACopy) {
  expect_named("all_gather of 1000 float32", [](Group& group, Stream& stream) {
    const GpuTensor own(stream, 1000), memory(stream, 1000 * group.size());
    ASSERT_TRUE(group.reach(memory));
    lose_rank_1(group);
    group.all_gather(memory, own).wait();
    stream.synchronize();
  });
}

TEST(NcclHang, OfAMessage) {
  expect_named("message of 30000000 float32", [](Group& group, Stream& stream) {
    Ring ring(group, 1);
    const GpuTensor in(stream, 30'000'000), out(stream, 30'000'000);
    lose_rank_1(group);
    Pending sent = ring.send(in);
    ring.receive(out).wait();
    sent.wait();
    stream.synchronize();
  });
}

TEST(NcclHang, OfTheHost) {
  expect_named("all_reduce of 1 int32", [](Group& group, Stream&) {
    lose_rank_1(group);
    group.barrier();
  });
}

// In no call of ours: what CUDA is asked for waits.
TEST(NcclHang, OfTheHostInCuda) {
  expect_named("all_reduce of 1000 float32", [](Group& group, Stream& stream) {
    const Stream::Queueing queueing(stream);
    const GpuTensor t(stream, 1000);
    if (group.rank() == 1) {
      const Stream::Queueing something_else(stream, false);
      lose_rank_1(group);
    }
    group.all_reduce(t).wait();
    { const Buffer freed(Device::cuda, 1 << 20); }
    stream.synchronize();
  });
}

}  // namespace
}  // namespace mt
