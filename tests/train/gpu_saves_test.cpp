// Saves that training on a GPU does not wait for: what they write is what the weights were when the
// save began, though the GPU goes on at once.
#include "tensor/device.h"
#include "tests/train/training_run.h"

namespace mt {
namespace {

class GpuSaves : public Training {
 protected:
  void SetUp() override {
    if (device::count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(GpuSaves, AsyncWritesTheSameBytes) {
  for (const bool distributed : {false, true}) {
    PretrainOptions o = options(concat("waits", distributed));
    o.run.compute.device_name = "cuda";
    o.model.hidden_size = 256;  // 20 MB of weights and moments: steps end before their save does
    o.run.checkpoint.save_interval = 3;
    o.run.optimizer.use_distributed_optimizer = distributed;
    train_with(o);
    PretrainOptions async = o;
    async.run.checkpoint.save = path(concat("async", distributed));
    async.run.checkpoint.async_save = true;
    train_with(async);
    EXPECT_EQ(list_checkpoints(async.run.checkpoint.save),
              (std::vector<std::int64_t>{3, 6, 9, 10}));
    for (const int iteration : {3, 6, 9, 10}) {
      Files got = contents_below(iteration_folder(async.run.checkpoint.save, iteration)),
            expected = contents_below(iteration_folder(o.run.checkpoint.save, iteration));
      for (Files* files : {&got, &expected})
        for (const char* name : {"common.pt", "mt-manifest.json"})  // the settings of the run
          EXPECT_EQ(files->erase(name), 1U);
      EXPECT_GT(got.size(), 3U);
      EXPECT_TRUE(got == expected) << iteration;
    }
    async.run.checkpoint.load = async.run.checkpoint.save;
    async.run.length.train_iters = 12;
    async.run.schedule.override_checkpoint = true;
    train_with(async);
    EXPECT_EQ(losses(concat("async", distributed)).size(), 12U);
  }
}

}  // namespace
}  // namespace mt
