// A rank that draws while another learns, both on one GPU, which one has after the other: what they
// say and hand on is what ranks with a GPU each do, by another transport.
#include <mutex>

#include "comm/world.h"
#include "model/model_table.h"
#include "ops/ops.h"
#include "tensor/device.h"
#include "tests/post/policy/drawing_run.h"
#include "train/plan/plan.h"
#include "train/run/checkpoint.h"
#include "train/run/save_folder.h"
#include "train/run/trainer.h"

namespace mt {
namespace {

// InTurn: a group of threads with one GPU, of which one works while the others wait for it.  What
// lies on the GPU goes through the host.
class InTurn final : public Group {
 public:
  // The thread has its turn; all three must outlive this.
  InTurn(Group& threads, std::unique_lock<std::mutex>& turn, Stream& stream)
      : Group(threads.rank(), threads.size(), Carries::tensors),
        threads_(threads),
        turn_(turn),
        stream_(stream) {}

  Pending all_reduce(Tensor t, Reduction how) override {
    return through_host(t, [&](const Tensor& host) { return threads_.all_reduce(host, how); });
  }
  Pending broadcast(Tensor t, int root) override {
    return through_host(t, [&](const Tensor& host) { return threads_.broadcast(host, root); });
  }
  Pending all_gather(Tensor, ConstTensor) override { return none(); }
  Pending reduce_scatter(Tensor, ConstTensor) override { return none(); }
  Pending all_to_all(Tensor, ConstTensor) override { return none(); }
  Pending send(ConstTensor, int) override { return none(); }
  Pending receive(Tensor, int) override { return none(); }
  void barrier() override { none(); }
  std::unique_ptr<Group> split(const std::vector<int>&, Carries) override {
    none();
    return nullptr;
  }

 private:
  static Pending none() { fail(Exit::internal, "nothing of this kind passes between the two"); }

  template <class Work>
  Pending through_host(const Tensor& t, const Work& work) {
    Buffer room;
    Tensor host = t;
    if (t.device() == Device::cuda) {
      room = Buffer(Device::cpu, t.bytes());
      host = room.tensor(t.dtype(), t.shape());
      transfer(host, t, stream_);
      stream_.synchronize();
    }
    turn_.unlock();
    work(host).wait();
    turn_.lock();
    if (t.device() == Device::cuda) {
      transfer(t, host, stream_);
      stream_.synchronize();
    }
    return {};
  }

  Group& threads_;
  std::unique_lock<std::mutex>& turn_;
  Stream& stream_;
};

class DrawingOnGpu : public DrawingRun {
 protected:
  void SetUp() override {
    if (device::count() == 0) GTEST_SKIP() << "no GPU";
  }

  PolicyOptions ahead(const std::string& save, const std::string& dtype) const {
    PolicyOptions o = drawing(save);
    o.run.compute.device_name = "cuda";
    o.run.compute.dtype = dtype;
    o.max_lag = 2;
    o.correction = "truncate";
    o.rewards = {"regex:[a-e]"};
    o.take_losses();
    return o;
  }

  // As train() has two ranks, of which the second draws.
  static void train_in_turn(PolicyOptions o) {
    o.run.ranks.drawers = 1;
    const std::unique_ptr<Task> task = open_drawing(o, quiet());
    device::use(0);
    const Plan plan = make_plan(o.run, *task);
    EXPECT_EQ(plan.drawers, 1);
    EXPECT_TRUE(plan.fits());
    task->build(training_length(o.run.length, o.run.batch, o.run.evaluation, false), o.run.seed,
                o.run.batch, quiet());
    const auto lock = prepare_folders(o.run, quiet());
    std::mutex gpu;
    run_ranks(2, [&](Group& threads) {
      std::unique_lock turn(gpu);
      device::use(0);
      Stream stream(Device::cuda);
      InTurn link(threads, turn, stream);
      const std::unique_ptr<Group> own = make_single_group();
      if (threads.rank() == 1) {
        const auto model = task->make_model({{.end = o.model.all_layers()}}, {});
        model->table().allocate(Device::cuda, o.run.compute_dtype(), false);
        return task->draw_for({.first = link, .own = *own, .model = *model, .stream = stream});
      }
      const World world(*own, o.run.ranks.sizes(), o.run.ranks.layout.sharing);
      Trainer trainer(o.run, *task, plan, world, {.drawers = &link}, nullptr, stream, {}, quiet());
      trainer.run("{}");
    });
  }
};

// What the other draws, and what is learnt from it, is that of one that does both, to the byte.
TEST_F(DrawingOnGpu, AnotherRankDrawsTheSame) {
  for (const std::string dtype : {"fp32", "bf16"}) {
    const std::string both = "both-" + dtype, apart = "apart-" + dtype;
    train_with(ahead(both, dtype));
    train_in_turn(ahead(apart, dtype));
    expect_same_values(both, apart);
    for (int i = 1; i <= 4; ++i) EXPECT_EQ(step(both, i), step(apart, i)) << dtype << " " << i;
  }
}

// A run goes on from what it has kept.
TEST_F(DrawingOnGpu, AnotherRankDrawsForARunThatGoesOn) {
  train_in_turn(ahead("whole", "bf16"));
  PolicyOptions part = ahead("parts", "bf16");
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 1;
  for (int i = 0; i < 4; ++i) train_in_turn(part);
  expect_same_values("whole", "parts");
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(step("whole", i), step("parts", i)) << i;
}

}  // namespace
}  // namespace mt
