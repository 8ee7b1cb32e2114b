// When gradients are summed and values gathered: told by the messages that are counted on meta.
#include "optim/shared_buffers.h"

#include <gtest/gtest.h>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

class Sharing : public testing::Test {
 protected:
  Sharing() {
    for (const char* name : {"first", "second", "third"}) {
      table_.begin_unit();
      table_.add({.place = {.module = name}, .shape = {10, 128}});
    }
    options_.ddp_bucket_size = 1280;
  }

  SharedBuffer& make() {
    buffers_.emplace(table_, Device::meta, DType::f32, options_, world_);
    buffers_->begin(counting_);
    return buffers_->all().front();
  }

  const Param& row(std::size_t index) const { return table_.rows()[index]; }

  // Messages since it was last asked.
  double messages() {
    const double sent = counting_.cost().messages;
    return sent - std::exchange(seen_, sent);
  }

  ParamTable table_;
  OptimizerOptions options_;
  Stream counting_{Device::meta};
  std::unique_ptr<Group> group_ = make_meta_group(1, 4, counting_);
  World world_{*group_, {.dp = 4}};
  std::optional<SharedBuffers> buffers_;
  double seen_ = 0;
};

TEST_F(Sharing, SumsAtTheEnd) {
  SharedBuffer& buffer = make();
  buffer.complete({0, 3}, true);
  EXPECT_EQ(messages(), 0);
  buffer.reduce(counting_);
  const double all = messages();
  EXPECT_GT(all, 0);
  buffer.gather(0);
  EXPECT_EQ(messages(), 0);  // every rank updates everything
}

// Three buckets, each of one row.
TEST_F(Sharing, SumsABucketOnceItIsComplete) {
  for (const bool distributed : {false, true}) {
    options_.overlap_grad_reduce = true;
    options_.use_distributed_optimizer = distributed;
    SharedBuffer& buffer = make();
    for (int step = 0; step < 2; ++step) {
      buffer.begin(counting_);
      buffer.complete({2, 3}, false);
      EXPECT_EQ(messages(), 0);
      buffer.complete({2, 3}, true);
      const double one = messages();
      EXPECT_GT(one, 0);
      buffer.complete({0, 1}, true);
      EXPECT_EQ(messages(), one);
      buffer.reduce(counting_);  // what was never told of
      EXPECT_EQ(messages(), one);
      buffer.gather(0);
      EXPECT_EQ(messages() > 0, distributed);
    }
  }
}

// What is updated first is on its way when the next one is updated.
TEST_F(Sharing, GathersABucketOnceItIsUpdated) {
  options_.overlap_grad_reduce = options_.use_distributed_optimizer = true;
  EXPECT_EQ(make().turns(), 1U);
  options_.overlap_param_gather = true;
  SharedBuffer& buffer = make();
  EXPECT_EQ(buffer.turns(), 3U);
  for (std::size_t turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(buffer.turn_of(row(turn)), turn);
    buffer.gather(turn);
    EXPECT_EQ(messages(), 1);
  }
}

TEST_F(Sharing, PaddedAndNumberedBuckets) {
  options_.overlap_grad_reduce = options_.use_distributed_optimizer = true;
  EXPECT_EQ(make().own_gradients().size(), 3U);
  options_.ddp_bucket_size = {};
  options_.ddp_num_buckets = 2;
  EXPECT_EQ(make().own_gradients().size(), 2U);
  options_.ddp_pad_buckets = true;
  make();
  EXPECT_EQ(values_of(table_).numel(), 2 << 16);
  options_.ddp_num_buckets = {};
  make();
  EXPECT_EQ(values_of(table_).numel(), 1 << 16);
}

// Of four ranks two parts: a rank has a half, and so does one of the other part.
TEST_F(Sharing, Instances) {
  options_.use_distributed_optimizer = true;
  options_.distributed_optimizer_instances = 2;
  const SharedBuffer& buffer = make();
  EXPECT_EQ(buffer.sharers().size(), 2);
  EXPECT_EQ(buffer.sharers().rank(), 1);
  EXPECT_TRUE(buffer.is_first_copy());
  EXPECT_EQ(buffer.own_gradients()[0].numel(), gradients_of(table_).numel() / 2);
}

// Of three rows of 1280 elements on four ranks: two places for whole ones, and a quarter of all.
TEST_F(Sharing, KeepsSlices) {
  options_.use_distributed_optimizer = options_.overlap_grad_reduce = true;
  options_.sharding_strategy = "optim_grads";
  EXPECT_EQ(make().value_bytes(), 3 * 1280 * 4U);
  EXPECT_EQ(make().gradient_bytes(), (2 * 1280 + 3 * 320) * 4U);
  options_.sharding_strategy = "optim_grads_params";
  const SharedBuffer& buffer = make();
  EXPECT_EQ(buffer.value_bytes(), (2 * 1280 + 3 * 320) * 4U);
  EXPECT_EQ(row(0).value.data(), row(2).value.data());
  EXPECT_NE(row(0).value.data(), row(1).value.data());
  EXPECT_EQ(buffer.owned(1).size(), 3U);
  EXPECT_EQ(buffer.gradient(buffer.owned(1)[0]).numel(), 320);
}

TEST_F(Sharing, GathersWhatIsUsed) {
  options_.use_distributed_optimizer = options_.overlap_grad_reduce = true;
  options_.sharding_strategy = "optim_grads_params";
  SharedBuffer& buffer = make();
  const auto step = [&](const std::vector<double>& expected) {  // messages of each use
    auto next = expected.begin();
    for (const std::size_t used : {0, 1, 1, 2, 2, 1, 0}) {
      buffer.use(row(used));
      EXPECT_EQ(messages(), *next++) << used;
    }
    buffer.gather(0);
  };
  step({1, 1, 0, 1, 0, 0, 1});
  step({2, 1, 0, 0, 0, 1, 0});  // in advance, what followed the last time
  step({2, 1, 0, 0, 0, 1, 0});
}

TEST_F(Sharing, SumsGradientsOfEveryMicroBatch) {
  options_.use_distributed_optimizer = options_.overlap_grad_reduce = true;
  options_.sharding_strategy = "optim_grads";
  SharedBuffer& buffer = make();
  for (const bool last : {false, true})
    for (const std::size_t done : {2, 1, 0}) {
      buffer.add_to(row(done), counting_);
      buffer.add_to(row(done), counting_);
      EXPECT_EQ(messages(), 0);
      buffer.complete({done, done + 1}, last);
      EXPECT_EQ(messages(), 1);
    }
  buffer.reduce(counting_);
  EXPECT_EQ(messages(), 0);
  buffer.add_to(row(0), counting_);
  buffer.add_to(row(1), counting_);
  EXPECT_EQ(messages(), 0);
  buffer.add_to(row(2), counting_);  // in the place of the first
  EXPECT_EQ(messages(), 1);
  buffer.reduce(counting_);
  EXPECT_EQ(messages(), 2);
}

// Of a unit's rows one gets no gradient: zeros are summed, not what lay at its place.
TEST_F(Sharing, SumsNothingThatWasNotWritten) {
  options_.use_distributed_optimizer = options_.overlap_grad_reduce = true;
  options_.sharding_strategy = "optim_grads";
  table_.begin_unit();
  table_.add({.place = {.module = "large"}, .shape = {600, 128}, .gradient_replaced = true});
  table_.add({.place = {.module = "beside"}, .shape = {10, 128}});
  SharedBuffer& buffer = make();
  EXPECT_FALSE(buffer.add_to(row(4), counting_));
  buffer.complete({3, 5}, true);
  EXPECT_EQ(messages(), 0);
  buffer.reduce(counting_);  // zeroes it before
  EXPECT_EQ(messages(), 1);
  EXPECT_FALSE(buffer.add_to(row(4), counting_));
  EXPECT_TRUE(buffer.add_to(row(3), counting_));
  buffer.complete({3, 5}, true);
  EXPECT_EQ(messages(), 1);
}

}  // namespace
}  // namespace mt
