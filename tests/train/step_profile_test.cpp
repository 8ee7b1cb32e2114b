// --profile: marks become times of families, costs roofs, and a run's steps a table.
#include "train/report/step_profile.h"

#include <gtest/gtest.h>

#include <thread>

#include "train/options/pretrain_options.h"
#include "train/plan/plan.h"
#include "train/run/pretraining.h"
namespace mt {
namespace {

void sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(Profile, TimeIsOfTheInnermostOperation) {
  Stream stream(Device::cpu);
  Profile profile(stream.handle());
  stream.measure_with(&profile);
  sleep(20);
  {
    const Stream::Working outer(stream, Family::optimizer);
    sleep(20);
    {
      const Stream::Working inner(stream, Family::product);
      sleep(40);
    }
    sleep(20);
  }
  const Profile::Seconds seconds = profile.stop();
  EXPECT_GE(seconds.waiting, 0.02);
  EXPECT_GE(seconds.families[Family::optimizer], 0.04);
  EXPECT_GE(seconds.families[Family::product], 0.04);
  EXPECT_EQ(seconds.families[Family::norm], 0);
  EXPECT_NEAR(
      seconds.total(),
      seconds.waiting + seconds.families[Family::optimizer] + seconds.families[Family::product],
      1e-12);
  EXPECT_LT(profile.stop().total(), seconds.total());  // from the first stop on
  stream.measure_with(nullptr);
  { const Stream::Working nothing(stream, Family::norm); }
  EXPECT_EQ(profile.stop().families[Family::norm], 0);
}

ProfileReport sample() {
  ProfileReport report{.rank = 1, .first = 11, .last = 12};
  report.seconds.families[Family::product] = 0.016;
  report.seconds.families[Family::communication] = 0.001;
  report.seconds.waiting = 0.003;
  report.step[Family::product] = {.flops = 2e9, .bytes = 1e6};
  report.ceilings = {.flops = 5e11, .bytes = 1e10};
  return report;
}

TEST(Profile, ATableOfOneStep) {
  EXPECT_EQ(profile_text(sample()),
            "steps 11 to 12 of rank 1: 10.000 ms each\n"
            "                       ms   share   TFLOP/s      GB/s  of roof\n"
            "products            8.000   80.0%     0.250      0.12    50.0%\n"
            "communication       0.500    5.0%\n"
            "waiting             1.500   15.0%\n"
            "roof: 0.500 TFLOP/s of large products, 10.00 GB/s of a copy\n");
  JsonWriter json;
  json.begin_object();
  write_profile(sample(), json);
  EXPECT_EQ(json.end_object().text(),
            R"({"rank":1,"first":11,"last":12,"step_seconds":0.01,"families":{"products":)"
            R"({"seconds":0.008,"flops":2e+09,"bytes":1e+06,"roof_seconds":0.004},)"
            R"("communication":{"seconds":5e-04,"flops":0,"bytes":0,"roof_seconds":0}},)"
            R"("waiting":0.0015,"ceilings":{"flops":5e+11,"bytes":1e+10}})");
}

TEST(Profile, TheRoofIsTheHigherOfTwo) {
  const Ceilings ceilings{.flops = 100, .bytes = 10};
  EXPECT_EQ(roof_seconds({.flops = 50, .bytes = 1}, ceilings), 0.5);
  EXPECT_EQ(roof_seconds({.flops = 50, .bytes = 20}, ceilings), 2);
}

TEST(Profile, ThePlanCountsByFamilies) {
  PretrainOptions options;
  options.model.num_layers = 2;
  options.model.hidden_size = 64;
  options.model.num_attention_heads = 2;
  options.model.max_position_embeddings = 128;
  options.model.vocab_size = 256;
  options.data.seq_length = 128;
  options.run.batch.micro_batch_size = 2;
  options.run.compute.device_name = "cpu";
  options.plan.wanted = true;
  options.run.ranks.count = 2;
  options.complete();
  const RankPlan plan =
      make_plan(options.run, Pretraining(options.model, options.data), options.plan)
          .pipeline.front();
  Cost sum;
  for (const Cost& cost : plan.families) sum += cost;
  EXPECT_EQ(sum.flops, plan.step.flops);
  EXPECT_EQ(sum.bytes, plan.step.bytes);
  EXPECT_EQ(sum.messages, plan.step.messages);
  // Per token 6 FLOPs for each weight in a product, the head's among them.
  const double weights = 2 * 12 * 64 * 64 + 256 * 64;
  EXPECT_EQ(plan.families[Family::product].flops, 6 * 256 * weights);
  EXPECT_EQ(plan.families[Family::norm].flops, 0);
  for (const Family family : {Family::attention, Family::norm, Family::activation,
                              Family::cross_entropy, Family::embedding, Family::optimizer})
    EXPECT_GT(plan.families[family].bytes, 0) << kFamilyNames[static_cast<std::size_t>(family)];
  EXPECT_GT(plan.families[Family::communication].message_bytes, 0);
}

}  // namespace
}  // namespace mt
