// Collectives and messages among threads, and the messages that the group of `meta` counts.
#include "comm/group.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "comm/meta_group.h"
#include "comm/ring.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

struct Case {
  int ranks;
  std::int64_t count;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.ranks << " ranks, " << c.count; }

// Numbers whose sum depends on the order of summation.
template <class T>
T value_of(int rank, std::int64_t i) {
  const double magnitudes[] = {1, 1e7, 1e-5, -1e7, 3, -2, 1e5, 1e-3};
  return static_cast<T>(magnitudes[rank] * (1 + 0.37 * static_cast<double>(i % 97)) + rank);
}

template <class T>
HostTensor input_of(int rank, std::int64_t count) {
  HostTensor tensor(dtype_of<T>(), {count});
  for (std::int64_t i = 0; i < count; ++i)
    tensor.span<T>()[static_cast<std::size_t>(i)] = value_of<T>(rank, i);
  return tensor;
}

template <class T>
HostTensor sum_of(int ranks, std::int64_t count) {
  HostTensor tensor = input_of<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::int64_t i = 0; i < count; ++i)
      tensor.span<T>()[static_cast<std::size_t>(i)] += value_of<T>(rank, i);
  return tensor;
}

class Collectives : public testing::TestWithParam<Case> {
 protected:
  const int ranks = GetParam().ranks;
  const std::int64_t count = GetParam().count;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2, 3, 4})
    for (const std::int64_t count : {0, 1, 7, 1000, 5000}) all.push_back({ranks, count});
  return all;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return concat(info.param.ranks, "x", info.param.count);
}

INSTANTIATE_TEST_SUITE_P(RanksAndSizes, Collectives, testing::ValuesIn(cases()), name_of_case);

TEST_P(Collectives, AllReduce) {
  run_ranks(ranks, [&](Group& group) {
    const HostTensor t = input_of<float>(group.rank(), count),
                     u = input_of<double>(group.rank(), count);
    group.all_reduce(t).wait();
    group.all_reduce(u).wait();
    EXPECT_SAME_BITS(t, sum_of<float>(ranks, count));
    EXPECT_SAME_BITS(u, sum_of<double>(ranks, count));
  });
}

TEST_P(Collectives, AllGather) {
  run_ranks(ranks, [&](Group& group) {
    const HostTensor out(DType::f32, {ranks * count});
    group.all_gather(out, input_of<float>(group.rank(), count)).wait();
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_SAME_BITS(out.view().rows(rank * count, (rank + 1) * count),
                       input_of<float>(rank, count));
  });
}

TEST_P(Collectives, AllGatherInPlaceAndOfIntegers) {
  run_ranks(ranks, [&](Group& group) {
    const HostTensor all(DType::i32, {ranks * count});
    const Tensor mine = all.view().rows(group.rank() * count, (group.rank() + 1) * count);
    for (std::int32_t& x : mine.span<std::int32_t>()) x = 100 + group.rank();
    group.all_gather(all, mine).wait();
    for (std::int64_t i = 0; i < ranks * count; ++i)
      ASSERT_EQ(all.view().as<std::int32_t>()[i], 100 + i / count) << i;
  });
}

TEST_P(Collectives, ReduceScatter) {
  run_ranks(ranks, [&](Group& group) {
    const HostTensor in = input_of<float>(group.rank(), ranks * count), out(DType::f32, {count});
    const HostTensor sum = sum_of<float>(ranks, ranks * count);
    const Tensor expected = sum.view().rows(group.rank() * count, (group.rank() + 1) * count);
    group.reduce_scatter(out, in).wait();
    EXPECT_SAME_BITS(out, expected);
    EXPECT_SAME_BITS(in, input_of<float>(group.rank(), ranks * count));  // left as it was
    const Tensor mine = in.view().rows(group.rank() * count, (group.rank() + 1) * count);
    group.reduce_scatter(mine, in).wait();  // in place
    EXPECT_SAME_BITS(mine, expected);
  });
}

TEST_P(Collectives, GatherAndSumBySteps) {
  run_ranks(ranks, [&](Group& group) {
    const auto part_of = [&](const Tensor& parts, int rank) {
      return parts.rows(rank * count, (rank + 1) * count);
    };
    const HostTensor all(DType::f32, {ranks * count}),
        in = input_of<float>(group.rank(), count),
        parts = input_of<float>(group.rank(), ranks * count);
    std::copy_n(in.span<float>().begin(), count, part_of(all, group.rank()).span<float>().begin());
    std::vector<HostTensor> theirs;
    std::vector<Pending> steps;
    for (int ahead = 1; ahead < ranks; ++ahead) {
      steps.push_back(group.gather_step(all, ahead));
      theirs.emplace_back(DType::f32, Shape{count});
      steps.push_back(group.scatter_step(theirs.back(), parts, ahead));
    }
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) step->wait();
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_SAME_BITS(part_of(all, rank), input_of<float>(rank, count));
    for (int ahead = 1; ahead < ranks; ++ahead) {
      const int before = (group.rank() - ahead + ranks) % ranks;
      EXPECT_SAME_BITS(theirs[static_cast<std::size_t>(ahead - 1)],
                       part_of(input_of<float>(before, ranks * count), group.rank()));
    }
  });
}

TEST_P(Collectives, PassOn) {
  run_ranks(ranks, [&](Group& group) {
    const int before = (group.rank() + ranks - 1) % ranks;
    const HostTensor first = input_of<float>(group.rank(), count),
                     second = input_of<float>(group.rank() + ranks, count),
                     from_first(DType::f32, {count}), from_second(DType::f32, {count});
    Pending one = group.pass_on(from_first, first), other = group.pass_on(from_second, second);
    other.wait();
    one.wait();
    EXPECT_SAME_BITS(from_first, input_of<float>(before, count));
    EXPECT_SAME_BITS(from_second, input_of<float>(before + ranks, count));
  });
}

TEST_P(Collectives, LargestOfAll) {
  run_ranks(ranks, [&](Group& group) {
    const HostTensor t = input_of<float>(group.rank(), count), expected = input_of<float>(0, count);
    for (int rank = 1; rank < ranks; ++rank)
      for (std::int64_t i = 0; i < count; ++i) {
        float& largest = expected.span<float>()[static_cast<std::size_t>(i)];
        largest = std::max(largest, value_of<float>(rank, i));
      }
    group.all_reduce(t, Reduction::max).wait();
    EXPECT_SAME_BITS(t, expected);
  });
}

TEST_P(Collectives, AllToAll) {
  run_ranks(ranks, [&](Group& group) {
    const HostTensor in = input_of<float>(group.rank(), ranks * count),
                     out(DType::f32, {ranks * count});
    group.all_to_all(out, in).wait();
    for (int from = 0; from < ranks; ++from) {
      const HostTensor theirs = input_of<float>(from, ranks * count);
      EXPECT_SAME_BITS(out.view().rows(from * count, (from + 1) * count),
                       theirs.view().rows(group.rank() * count, (group.rank() + 1) * count));
    }
  });
}

// From rank a to rank b go (a + 2 b) % 3 times as many.
TEST_P(Collectives, ExchangeOfUnequalParts) {
  const auto times = [&](int from, int to) { return (from + 2 * to) % 3 * count; };
  run_ranks(ranks, [&](Group& group) {
    std::vector<HostTensor> in, out;
    std::vector<ConstTensor> leaving;
    std::vector<Tensor> arriving;
    for (int other = 0; other < ranks; ++other) {
      in.push_back(input_of<float>(group.rank() + other, times(group.rank(), other)));
      out.emplace_back(DType::f32, Shape{times(other, group.rank())});
    }
    for (int other = 0; other < ranks; ++other) {
      leaving.push_back(in[static_cast<std::size_t>(other)].view());
      arriving.push_back(out[static_cast<std::size_t>(other)].view());
    }
    group.exchange(arriving, leaving).wait();
    for (int from = 0; from < ranks; ++from)
      EXPECT_SAME_BITS(out[static_cast<std::size_t>(from)].view(),
                       input_of<float>(from + group.rank(), times(from, group.rank())).view());
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run_ranks(ranks, [&](Group& group) {
    for (int root = 0; root < ranks; ++root) {
      const HostTensor t = input_of<double>(group.rank(), count);
      group.broadcast(t, root).wait();
      EXPECT_SAME_BITS(t, input_of<double>(root, count));
    }
  });
}

TEST_P(Collectives, SeveralUnderWayAndWaitedForInAnyOrder) {
  run_ranks(ranks, [&](Group& group) {
    const HostTensor a = input_of<float>(group.rank(), count), b(DType::f32, {count}),
                     c = input_of<double>(group.rank(), count);
    const HostTensor in = input_of<float>(group.rank(), ranks * count);
    Pending pending[] = {group.all_reduce(a), group.reduce_scatter(b, in), group.broadcast(c, 0)};
    for (int i = 0; i < 3; ++i) pending[(group.rank() + i) % 3].wait();
    EXPECT_SAME_BITS(a, sum_of<float>(ranks, count));
    EXPECT_SAME_BITS(b, sum_of<float>(ranks, ranks * count)
                            .view()
                            .rows(group.rank() * count, (group.rank() + 1) * count));
    EXPECT_SAME_BITS(c, input_of<double>(0, count));
  });
}

// Who is late differs from run to run; the bits do not.
TEST(Group, SumsHaveTheSameBitsInFiftyRuns) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kCount = 1000, kPart = kCount / kRanks;
  const HostTensor expected = sum_of<float>(kRanks, kCount);
  for (int run = 0; run < 50; ++run)
    run_ranks(kRanks, [&](Group& group) {
      if (group.rank() == run % kRanks) std::this_thread::sleep_for(std::chrono::microseconds(200));
      const HostTensor t = input_of<float>(group.rank(), kCount), in = clone(t);
      const HostTensor part(DType::f32, {kPart});
      Pending scatter = group.reduce_scatter(part, in);
      group.all_reduce(t).wait();
      scatter.wait();
      EXPECT_SAME_BITS(t, expected);
      EXPECT_SAME_BITS(part,
                       expected.view().rows(group.rank() * kPart, (group.rank() + 1) * kPart));
    });
}

TEST(Group, MessagesInBothDirectionsDoNotBlockEachOther) {
  for (const bool receive_first : {false, true})
    run_ranks(2, [&](Group& group) {
      const int other = 1 - group.rank();
      const HostTensor in(DType::f32, {7}), out = input_of<float>(group.rank(), 7);
      Pending sent, received;
      if (receive_first) received = group.receive(in, other);
      sent = group.send(out, other);
      if (!receive_first) received = group.receive(in, other);
      sent.wait();  // on both sides before anybody waits for what he receives
      received.wait();
      EXPECT_SAME_BITS(in, input_of<float>(other, 7));
    });
}

TEST(Group, MessagesArriveInOrder) {
  run_ranks(3, [](Group& group) {
    constexpr int kMessages = 20;
    std::vector<HostTensor> tensors;
    std::vector<Pending> pending;
    for (int i = 0; i < kMessages; ++i) {
      HostTensor& t = tensors.emplace_back(DType::f64, Shape{1});
      t.span<double>()[0] = i;
      if (group.rank() == 0) pending.push_back(group.send(t, 1 + i % 2));
      if (group.rank() == 1 + i % 2) {
        t.span<double>()[0] = -1;
        pending.push_back(group.receive(t, 0));
      }
    }
    for (auto p = pending.rbegin(); p != pending.rend(); ++p) p->wait();
    for (int i = 0; i < kMessages; ++i)
      EXPECT_EQ(tensors[static_cast<std::size_t>(i)].span<double>()[0], i);
  });
}

// By other names, or not: operations of both have one order, here, and handles are waited for in
// any.
TEST(Group, PartsOfAllRanksCarryWhatTheyDo) {
  run_ranks(3, [](Group& group) {
    for (const Carries carries : {Carries::numbers, Carries::tensors}) {
      const auto same = group.split({0, 1, 2}, carries), turned = group.split({2, 1, 0}, carries);
      EXPECT_EQ(same->rank(), group.rank());
      EXPECT_EQ(turned->rank(), 2 - group.rank());
      const HostTensor a = input_of<float>(group.rank(), 7), b = clone(a), c = clone(a);
      Pending pending[] = {group.all_reduce(a), same->all_reduce(b), group.broadcast(c, 2)};
      for (Pending& one : pending) one.wait();
      EXPECT_SAME_BITS(a, sum_of<float>(3, 7));
      EXPECT_SAME_BITS(b, sum_of<float>(3, 7));
      EXPECT_SAME_BITS(c, input_of<float>(2, 7));
      const HostTensor all(DType::f32, {21});
      turned->all_gather(all, input_of<float>(group.rank(), 7)).wait();
      EXPECT_SAME_BITS(all.view().rows(0, 7), input_of<float>(2, 7));
    }
  });
}

TEST(Ring, EachReceivesWhatTheOneBeforeSent) {
  for (const int ranks : {2, 3, 4, 5})
    for (const int step : {1, -1})
      run_ranks(ranks, [&](Group& group) {
        Ring ring(group, step);
        const HostTensor out = input_of<float>(group.rank(), 7), in(DType::f32, {7});
        for (int round = 0; round < 3; ++round) {
          Pending sent = ring.send(out);
          ring.receive(in).wait();
          sent.wait();
        }
        EXPECT_SAME_BITS(in, input_of<float>((group.rank() - step + ranks) % ranks, 7));
      });
}

// A stage that sums over its replicas while the next stage waits for its message must not make the
// two wait for each other: an operation goes on without its handle being waited for.
TEST(Group, OperationsOfTwoGroupsDoNotBlockEachOther) {
  InProcess pipeline(2), replicas(2);
  std::array<std::thread, 2> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads[static_cast<std::size_t>(rank)] = std::thread([&, rank] {
      const auto one = pipeline.make(rank), two = replicas.make(rank);
      const HostTensor a = input_of<float>(rank, 7), b = input_of<float>(rank, 7);
      Pending of_one = one->all_reduce(a), of_two = two->all_reduce(b);
      (rank == 0 ? of_one : of_two).wait();
      (rank == 0 ? of_two : of_one).wait();
      EXPECT_SAME_BITS(a, sum_of<float>(2, 7));
      EXPECT_SAME_BITS(b, sum_of<float>(2, 7));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Group, BarrierIsPassedByNobodyBeforeAllAreThere) {
  std::atomic<int> arrived = 0;
  run_ranks(4, [&](Group& group) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      group.barrier();
      EXPECT_GE(arrived, 4 * round);
      group.barrier();
    }
  });
}

TEST(Group, OneRankRunsInTheCallingThread) {
  const std::thread::id caller = std::this_thread::get_id();
  run_ranks(1, [&](Group& group) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(group.rank(), 0);
    EXPECT_EQ(group.size(), 1);
    group.barrier();
  });
}

TEST(MetaGroup, CountsTheMessagesOfRingAlgorithms) {
  Stream stream(Device::meta);
  const auto group = make_meta_group(1, 4, stream);
  const Buffer storage(Device::meta, 4000);
  const Tensor whole = storage.tensor(DType::f32, {1000}), part = storage.tensor(DType::f32, {250});
  double bytes = 0, messages = 0;
  const auto expect = [&](Pending pending, double expected_bytes, double expected_messages) {
    pending.wait();
    bytes += expected_bytes;
    messages += expected_messages;
    EXPECT_EQ(stream.cost().message_bytes, bytes);
    EXPECT_EQ(stream.cost().messages, messages);
  };
  expect(group->all_reduce(whole), 2 * 3000, 1);
  expect(group->all_gather(whole, part), 3000, 1);
  expect(group->reduce_scatter(part, whole), 3000, 1);
  expect(group->broadcast(whole, 0), 3000, 1);
  expect(group->send(part, 2), 1000, 1);
  expect(group->receive(part, 0), 0, 0);  // the sender's
  EXPECT_EQ(stream.cost().flops, 0);
}

// As cudaMemGetInfo told on H200, in MiB: at the start and after a first collective, or message.
TEST(NcclMemory, IsWhatWasMeasured) {
  const auto taken = [](const NcclMemory& memory) { return memory.bytes() >> 20; };
  NcclMemory large, small, messages;
  EXPECT_EQ(taken(large), 0U);
  large.add(Carries::tensors).collectives = true;
  EXPECT_EQ(taken(large), 386U + 474);
  NcclMemory::Communicator& second = large.add(Carries::tensors);
  EXPECT_EQ(taken(large), 386U + 474 + 198);
  second.collectives = true;
  EXPECT_EQ(taken(large), 386U + 474 + 198 + 288);
  small.add(Carries::numbers);
  EXPECT_EQ(taken(small), 200U + 198);
  messages.add(Carries::tensors).messages = true;
  EXPECT_EQ(taken(messages), 386U + 632);
  messages.add(Carries::tensors).messages = true;
  EXPECT_EQ(taken(messages), 386U + 632 + 198 + 384);
  NcclMemory eight;
  eight.add(Carries::messages).collectives = true;
  EXPECT_EQ(taken(eight), 242U + 282 + 158);
}

// Two ranks of a host, or of two.
TEST(MetaGroup, CountsWhatNcclAndCopiesTake) {
  struct Watch : MessageWatch {
    explicit Watch(bool one) : one_host(one) {}
    std::size_t begin(const Message&) override { return 0; }
    void wait(std::size_t) override {}
    int hosts(const std::vector<int>&) const override { return one_host ? 1 : 2; }
    bool one_host;
  };
  for (const bool one_host : {true, false}) {
    Stream stream(Device::meta);
    Watch watch(one_host);
    MetaGroup all(0, 2, stream, &watch);
    const std::size_t of_numbers = all.nccl_bytes();
    const auto numbers = all.split({0, 1}, Carries::numbers);
    EXPECT_EQ(all.nccl_bytes(), of_numbers);  // the same by another name
    const auto tensors = numbers->split({0, 1}, Carries::tensors);
    const std::size_t made = all.nccl_bytes();
    EXPECT_EQ((made - of_numbers) >> 20, 198U);
    const Buffer storage(Device::meta, 4000);
    const Tensor whole = storage.tensor(DType::f32, {1000}), part = whole.rows(0, 500);
    EXPECT_EQ(tensors->reach(whole), one_host);
    EXPECT_EQ(all.copies_bytes(), one_host ? 2000U : 0U);
    EXPECT_EQ(tensors->reach(part, 3000), one_host);  // of more room none is given back
    EXPECT_EQ(all.copies_bytes(), one_host ? 2000U : 0U);
    EXPECT_EQ(tensors->reach(part, 8000), one_host);
    EXPECT_EQ(all.copies_bytes(), one_host ? 4000U : 0U);
    tensors->all_gather(whole, part).wait();
    tensors->reduce_scatter(part, whole).wait();
    tensors->all_reduce(part, Reduction::sum).wait();
    EXPECT_EQ((all.nccl_bytes() - made) >> 20, one_host ? 0U : 288U);
    tensors->gather_step(whole, 1).wait();
    EXPECT_EQ((all.nccl_bytes() - made) >> 20, one_host ? 0U : 288U + 384 + 62);
    EXPECT_EQ(stream.cost().message_bytes, 8000);
    static_cast<void>(all.split({0}));
    EXPECT_EQ((all.nccl_bytes() - made) >> 20, one_host ? 0U : 288U + 384 + 62);
    const Buffer much(Device::meta, 1 << 20);
    tensors->all_reduce(much.tensor(DType::f32, {1 << 18}), Reduction::sum).wait();
    EXPECT_EQ((all.nccl_bytes() - made) >> 20, one_host ? 288U : 288U + 384 + 62);
  }
}

TEST(MetaGroup, OneRankSendsNothing) {
  Stream stream(Device::meta);
  const Buffer storage(Device::meta, 4000);
  make_meta_group(0, 1, stream)->all_reduce(storage.tensor(DType::f32, {1000})).wait();
  EXPECT_EQ(stream.cost().message_bytes, 0);
  EXPECT_EQ(stream.cost().messages, 0);
}

}  // namespace
}  // namespace mt
