// When gradients are summed and values gathered: told by the messages that are counted on meta.
#include "optim/shared_buffer.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

class Sharing : public testing::Test {
 protected:
  Sharing() {
    for (const char* name : {"first", "second", "third"})
      table_.add({.name = name, .shape = {10, 128}});
    options_.ddp_bucket_size = 1280;
  }

  SharedBuffer make() {
    SharedBuffer buffer(table_, Device::meta, DType::f32, options_, world_);
    buffer.begin();
    return buffer;
  }

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
  double seen_ = 0;
};

TEST_F(Sharing, SumsAtTheEnd) {
  SharedBuffer buffer = make();
  buffer.complete({0, 3});
  EXPECT_EQ(messages(), 0);
  buffer.reduce();
  const double all = messages();
  EXPECT_GT(all, 0);
  buffer.gather();
  EXPECT_EQ(messages(), 0);  // every rank updates everything
}

// Three buckets, each of one row.
TEST_F(Sharing, SumsABucketOnceItIsComplete) {
  for (const bool distributed : {false, true}) {
    options_.overlap_grad_reduce = true;
    options_.use_distributed_optimizer = distributed;
    SharedBuffer buffer = make();
    for (int step = 0; step < 2; ++step) {
      buffer.begin();
      buffer.complete({2, 3});
      const double one = messages();
      EXPECT_GT(one, 0);
      buffer.complete({0, 1});
      EXPECT_EQ(messages(), one);
      buffer.reduce();  // what was never told of
      EXPECT_EQ(messages(), one);
      buffer.gather();
      EXPECT_EQ(messages() > 0, distributed);
    }
  }
}

TEST_F(Sharing, PaddedAndNumberedBuckets) {
  options_.overlap_grad_reduce = options_.use_distributed_optimizer = true;
  EXPECT_EQ(make().own_parts(table_.values()).size(), 3U);
  options_.ddp_bucket_size = {};
  options_.ddp_num_buckets = 2;
  EXPECT_EQ(make().own_parts(table_.values()).size(), 2U);
  options_.ddp_pad_buckets = true;
  make();
  EXPECT_EQ(table_.values().numel(), 2 << 16);
  options_.ddp_num_buckets = {};
  make();
  EXPECT_EQ(table_.values().numel(), 1 << 16);
}

// Of four ranks two parts: a rank has a half, and so does one of the other part.
TEST_F(Sharing, Instances) {
  options_.use_distributed_optimizer = true;
  options_.distributed_optimizer_instances = 2;
  const SharedBuffer buffer = make();
  EXPECT_EQ(buffer.sharers().size(), 2);
  EXPECT_EQ(buffer.sharers().rank(), 1);
  EXPECT_TRUE(buffer.is_first_copy());
  EXPECT_EQ(buffer.own_parts(table_.values())[0].numel(), table_.values().numel() / 2);
}

}  // namespace
}  // namespace mt
