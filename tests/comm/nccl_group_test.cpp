// Collectives and messages among GPUs, a process each.
#include "comm/nccl_group.h"

#include <gtest/gtest.h>

#include "base/half.h"
#include "comm/ring.h"
#include "tests/support/gpu_ranks.h"
#include "tests/support/gpu_tensor.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

// Whole numbers, so small that sums are exact in any order, in every type.
float value_of(int rank, std::int64_t i) { return static_cast<float>((rank + 1) * (i % 29 - 14)); }

std::vector<float> values_of(int rank, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(value_of(rank, i));
  return values;
}

std::vector<float> sum_of(int ranks, std::int64_t count) {
  std::vector<float> sum(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank)
    for (std::int64_t i = 0; i < count; ++i) sum[static_cast<std::size_t>(i)] += value_of(rank, i);
  return sum;
}

constexpr std::int64_t kCount = 100'003;  // parts begin at no round address

std::vector<float> slice(const std::vector<float>& all, int part, int parts) {
  const std::ptrdiff_t count = std::ssize(all) / parts;
  return {all.begin() + part * count, all.begin() + (part + 1) * count};
}

TEST(NcclGroup, SumsAndLargestOfNumbersOnGpus) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    const GpuTensor t(stream, values_of(group.rank(), kCount));
    group.all_reduce(t).wait();
    EXPECT_EQ(t.values(), sum_of(group.size(), kCount));
    const GpuTensor u(stream, std::vector{1.0f + static_cast<float>(group.rank())});
    group.all_reduce(u, Reduction::max).wait();
    EXPECT_EQ(u.values()[0], static_cast<float>(group.size()));
  });
}

template <class T>
void expect_small_sums(Group& group, Stream& stream, DType dtype, std::int64_t count) {
  const Buffer memory(Device::cuda, static_cast<std::size_t>(count) * sizeof(T));
  const Tensor t = memory.tensor(dtype, {count});
  std::vector<T> values(static_cast<std::size_t>(count));
  for (int turn = 0; turn < 30; ++turn)
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      const auto value = [&](int rank, std::int64_t i) {
        return static_cast<float>((rank + 1) * ((i + turn) % 13 - 6));
      };
      for (std::int64_t i = 0; i < count; ++i)
        values[static_cast<std::size_t>(i)] = static_cast<T>(value(group.rank(), i));
      device::copy(t.data(), values.data(), t.bytes(), stream.handle());
      group.all_reduce(t, reduction).wait();
      device::copy(values.data(), t.data(), t.bytes(), stream.handle());
      stream.synchronize();
      for (std::int64_t i = 0; i < count; ++i) {
        float expected = value(0, i);
        for (int rank = 1; rank < group.size(); ++rank)
          expected = reduction == Reduction::sum ? expected + value(rank, i)
                                                 : std::max(expected, value(rank, i));
        ASSERT_EQ(static_cast<float>(values[static_cast<std::size_t>(i)]), expected)
            << name_of(t.dtype()) << " " << count << " turn " << turn << " " << i;
      }
    }
}

// In one step, by all of their blocks or by one, in turn; the largest goes by NCCL.
TEST(NcclGroup, SumsOfLittleInEveryType) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    for (const std::int64_t count : {1, 4095, 32768, 7, 65536, 65537}) {
      expect_small_sums<float>(group, stream, DType::f32, count);
      expect_small_sums<double>(group, stream, DType::f64, count / 2 + 1);
      expect_small_sums<Bf16>(group, stream, DType::bf16, count);
      expect_small_sums<Fp16>(group, stream, DType::f16, count);
      expect_small_sums<std::int32_t>(group, stream, DType::i32, count);
    }
  });
}

TEST(NcclGroup, NumbersOnTheHostTravelThroughGpus) {
  run_gpu_ranks([](Group& group, Stream&) {
    double values[2] = {1.5 + group.rank(), -1e300};
    group.all_reduce({values, DType::f64, {2}}, Reduction::max).wait();
    EXPECT_EQ(values[0], 0.5 + group.size());
    EXPECT_EQ(values[1], -1e300);
    std::vector<double> all(static_cast<std::size_t>(group.size()));
    const double own = group.rank() * 0.1;
    group.all_gather({all.data(), DType::f64, {group.size()}}, {&own, DType::f64, {1}}).wait();
    for (int rank = 0; rank < group.size(); ++rank)
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], rank * 0.1);
    std::string text = group.rank() == 1 ? "of rank 1" : "         ";
    group.broadcast({text.data(), DType::u8, {9}}, 1).wait();
    EXPECT_EQ(text, "of rank 1");
    group.barrier();
  });
}

TEST(NcclGroup, GathersAndScattersInPlaceAndNot) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    const int ranks = group.size(), rank = group.rank();
    const std::vector<float> own = values_of(rank, kCount);
    const GpuTensor in(stream, own), all(stream, kCount * ranks);
    group.all_gather(all, in).wait();
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(slice(all.values(), r, ranks), values_of(r, kCount)) << r;
    const GpuTensor parts(stream, values_of(rank, kCount * ranks));
    const Tensor mine = parts.view().rows(rank * kCount, (rank + 1) * kCount);
    group.reduce_scatter(mine, parts).wait();
    EXPECT_EQ(slice(parts.values(), rank, ranks),
              slice(sum_of(ranks, kCount * ranks), rank, ranks));
    group.all_gather(parts, mine).wait();
    EXPECT_EQ(parts.values(), sum_of(ranks, kCount * ranks));
  });
}

// The sum of the large array comes in several pieces, the small ones change as soon as they may,
// and ranks are late in turn.
TEST(NcclGroup, GathersAndSumsInMemoryThatGpusReach) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    const int ranks = group.size(), rank = group.rank();
    const std::int64_t part = 20'000'001, end = (part + kCount) * ranks;
    const GpuTensor memory(stream, end);
    ASSERT_TRUE(group.reach(memory));
    const Tensor large = memory.view().rows(0, part * ranks);
    const std::vector<float> own = values_of(rank, large.numel());
    device::copy(large.data(), own.data(), large.bytes(), stream.handle());
    const Tensor mine = large.rows(rank * part, (rank + 1) * part);
    group.reduce_scatter(mine, large).wait();
    group.all_gather(large, mine).wait();
    std::vector<float> sums(own.size());
    device::copy(sums.data(), large.data(), large.bytes(), stream.handle());
    stream.synchronize();
    EXPECT_EQ(sums, sum_of(ranks, large.numel()));

    const Tensor small = memory.view().rows(part * ranks, end);
    const GpuTensor sum(stream, kCount);
    for (int i = 0; i < 50; ++i) {
      const std::vector<float> values = values_of(rank + i, small.numel());
      if (i % ranks == rank) device::copy(large.data(), own.data(), large.bytes(), stream.handle());
      device::copy(small.data(), values.data(), small.bytes(), stream.handle());
      group.reduce_scatter(sum, small).wait();
      device::set_zero(small.data(), small.bytes(), stream.handle());
      group.all_gather(small, sum).wait();
      std::vector<float> all(values.size());
      device::copy(all.data(), small.data(), small.bytes(), stream.handle());
      stream.synchronize();
      for (std::int64_t j = 0; j < small.numel(); j += 97) {
        float expected = 0;
        for (int r = 0; r < ranks; ++r) expected += value_of(r + i, j);
        ASSERT_EQ(all[static_cast<std::size_t>(j)], expected) << i << " " << j;
      }
    }
  });
}

// Sums under way together, waited for in either order, where there is room for the addends of one
// or of two: the next one's go where those of the one before are, or that before it.
static void add_up_when_waited_for(int at_once) {
  run_gpu_ranks([=](Group& group, Stream& stream) {
    const int ranks = group.size(), rank = group.rank();
    constexpr std::int64_t kPart = 9'000'001;
    const std::int64_t all = kPart * ranks;
    const GpuTensor memory(stream, 2 * all), apart(stream, kPart);
    ASSERT_TRUE(group.reach(memory, static_cast<std::size_t>(at_once * all) * sizeof(float)));
    const Tensor first = memory.view().rows(0, all), second = memory.view().rows(all, 2 * all);
    const Tensor mine = first.rows(rank * kPart, (rank + 1) * kPart);
    for (int i = 0; i < 10; ++i) {
      for (const auto& [tensor, seed] : {std::pair(first, rank), std::pair(second, rank + 7)}) {
        const std::vector<float> values = values_of(seed, all);
        device::copy(tensor.data(), values.data(), tensor.bytes(), stream.handle());
      }
      Pending one = group.reduce_scatter(mine, first), other = group.reduce_scatter(apart, second);
      (i % 2 == 0 ? one : other).wait();
      (i % 2 == 0 ? other : one).wait();
      std::vector<float> sums(kPart);
      device::copy(sums.data(), mine.data(), mine.bytes(), stream.handle());
      stream.synchronize();
      const std::vector<float> others = apart.values();
      for (std::int64_t j = 0; j < kPart; j += 101) {
        const std::int64_t at = rank * kPart + j;
        float expected = 0, of_second = 0;
        for (int r = 0; r < ranks; ++r)
          expected += value_of(r, at), of_second += value_of(r + 7, at);
        ASSERT_EQ(sums[static_cast<std::size_t>(j)], expected) << i << " " << j;
        ASSERT_EQ(others[static_cast<std::size_t>(j)], of_second) << i << " " << j;
      }
      group.barrier();
    }
  });
}

TEST(NcclGroup, AddsUpWhenSumsAreWaitedFor) { add_up_when_waited_for(1); }
TEST(NcclGroup, AddsUpTwoSumsWhenTheyAreWaitedFor) { add_up_when_waited_for(2); }

// Round all ranks, from one of two places to the other.
TEST(NcclGroup, PassesOn) {
  run_gpu_ranks([](Group& all_ranks, Stream& stream) {
    std::vector<int> everyone;
    for (int rank = 0; rank < all_ranks.size(); ++rank) everyone.push_back(rank);
    const int ranks = all_ranks.size();
    const GpuTensor memory(stream, 2 * kCount);  // outlives the groups
    for (const bool reached : {false, true}) {
      const auto tensors = all_ranks.split(everyone), group = tensors->split(everyone);
      if (reached) {
        ASSERT_TRUE(group->reach(memory));
      }
      for (int i = 0; i < 20; ++i) {
        Tensor now = memory.view().rows(0, kCount), next = memory.view().rows(kCount, 2 * kCount);
        const std::vector<float> own = values_of(group->rank() + i, kCount);
        device::copy(now.data(), own.data(), now.bytes(), stream.handle());
        for (int ahead = 1; ahead <= ranks; ++ahead) {
          group->pass_on(next, now).wait();
          std::swap(now, next);
          std::vector<float> arrived(kCount);
          device::copy(arrived.data(), now.data(), now.bytes(), stream.handle());
          stream.synchronize();
          const int source = (group->rank() + ranks - ahead % ranks) % ranks;
          EXPECT_EQ(arrived, values_of(source + i, kCount)) << reached << i << ahead;
        }
      }
      all_ranks.barrier();
    }
  });
}

TEST(NcclGroup, GathersAndSumsBySteps) {
  run_gpu_ranks([](Group& all_ranks, Stream& stream) {
    std::vector<int> everyone;
    for (int rank = 0; rank < all_ranks.size(); ++rank) everyone.push_back(rank);
    const int ranks = all_ranks.size();
    const GpuTensor memory(stream, 2 * kCount * ranks);  // outlives the groups
    for (const bool reached : {false, true}) {
      const auto tensors = all_ranks.split(everyone), group = tensors->split(everyone);
      const int rank = group->rank();
      if (reached) {
        ASSERT_TRUE(group->reach(memory));
      }
      const Tensor all = memory.view().rows(0, kCount * ranks),
                   parts = memory.view().rows(kCount * ranks, 2 * kCount * ranks);
      const GpuTensor theirs(stream, kCount);
      for (int i = 0; i < 20; ++i) {
        const std::vector<float> own = values_of(rank + i, kCount),
                                 mine = values_of(rank + i, kCount * ranks);
        device::set_zero(all.data(), all.bytes(), stream.handle());
        device::copy(all.rows(rank * kCount, (rank + 1) * kCount).data(), own.data(), 4 * kCount,
                     stream.handle());
        device::copy(parts.data(), mine.data(), parts.bytes(), stream.handle());
        for (int ahead = 1; ahead < ranks; ++ahead) {
          Pending gathered = group->gather_step(all, ahead),
                  given = group->scatter_step(theirs, parts, ahead);
          given.wait();
          gathered.wait();
          const int before = (rank - ahead + ranks) % ranks;
          EXPECT_EQ(theirs.values(), slice(values_of(before + i, kCount * ranks), rank, ranks));
        }
        std::vector<float> gathered(static_cast<std::size_t>(all.numel()));
        device::copy(gathered.data(), all.data(), all.bytes(), stream.handle());
        stream.synchronize();
        for (int r = 0; r < ranks; ++r)
          EXPECT_EQ(slice(gathered, r, ranks), values_of(r + i, kCount)) << reached << i;
      }
      all_ranks.barrier();
    }
  });
}

TEST(NcclGroup, EachGivesEachOtherAPart) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    const int ranks = group.size();
    const GpuTensor in(stream, values_of(group.rank(), kCount * ranks)),
        out(stream, kCount * ranks);
    group.all_to_all(out, in).wait();
    for (int from = 0; from < ranks; ++from)
      EXPECT_EQ(slice(out.values(), from, ranks),
                slice(values_of(from, kCount * ranks), group.rank(), ranks));
  });
}

// What follows in the stream goes on until it is told to wait, and what went before is done first.
TEST(NcclGroup, RunsBehindWhatWasQueuedAndBesideWhatFollows) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    constexpr std::int64_t kMany = 10'000'000;
    const GpuTensor t(stream, kMany), u(stream, kMany);
    for (int i = 0; i < 20; ++i) {
      const std::vector<float> values(kMany, static_cast<float>(i + group.rank()));
      device::copy(t.view().data(), values.data(), t.view().bytes(), stream.handle());
      Pending first = group.all_reduce(t);
      device::set_zero(u.view().data(), u.view().bytes(), stream.handle());
      Pending second = group.all_reduce(u);
      second.wait();
      first.wait();
      const int ranks = group.size();
      EXPECT_EQ(t.values()[kMany - 1], static_cast<float>(i * ranks + ranks * (ranks - 1) / 2));
      EXPECT_EQ(u.values()[0], 0);
    }
  });
}

TEST(NcclGroup, PartsOfAGroup) {
  run_gpu_ranks([](Group& all, Stream& stream) {
    const int other = all.size() - 1 - all.rank();
    const bool alone = other == all.rank();
    const auto pair =
        all.split(alone ? std::vector{other}
                        : std::vector{std::max(other, all.rank()), std::min(other, all.rank())});
    ASSERT_EQ(pair->size(), alone ? 1 : 2);
    EXPECT_EQ(pair->rank(), !alone && all.rank() < other ? 1 : 0);
    const GpuTensor t(stream, std::vector{static_cast<float>(1 + all.rank())});
    pair->all_reduce(t).wait();
    EXPECT_EQ(t.values()[0], static_cast<float>(alone ? 1 + other : 2 + other + all.rank()));
    const auto single = all.split({all.rank()});
    EXPECT_EQ(single->size(), 1);
  });
}

TEST(NcclGroup, MessagesRoundTheRing) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    for (const int step : {1, -1}) {
      Ring ring(group, step);
      const GpuTensor in(stream, values_of(group.rank(), kCount)), out(stream, kCount);
      for (int i = 0; i < 10; ++i) {
        Pending sent = ring.send(in);
        ring.receive(out).wait();
        sent.wait();
      }
      const int before = (group.rank() - step + group.size()) % group.size();
      EXPECT_EQ(out.values(), values_of(before, kCount));
    }
  });
}

// Copies add parts of odd size, of 16 bits too.
TEST(NcclGroup, SumsOfOddPartsInMemoryThatGpusReach) {
  run_gpu_ranks([](Group& group, Stream& stream) {
    const int ranks = group.size(), rank = group.rank();
    constexpr std::int64_t kPart = 4097;
    const Buffer memory(Device::cuda, static_cast<std::size_t>(kPart * ranks) * sizeof(Bf16));
    const Tensor all = memory.tensor(DType::bf16, {kPart * ranks});
    ASSERT_TRUE(group.reach(all));
    std::vector<Bf16> values;
    for (const float value : values_of(rank, all.numel())) values.emplace_back(value);
    device::copy(all.data(), values.data(), all.bytes(), stream.handle());
    const Tensor mine = all.rows(rank * kPart, (rank + 1) * kPart);
    group.reduce_scatter(mine, all).wait();
    group.all_gather(all, mine).wait();
    device::copy(values.data(), all.data(), all.bytes(), stream.handle());
    stream.synchronize();
    const std::vector<float> sums = sum_of(ranks, all.numel());
    for (std::size_t i = 0; i < sums.size(); ++i)
      ASSERT_EQ(static_cast<float>(values[i]), sums[i]) << i;
  });
}

}  // namespace
}  // namespace mt
