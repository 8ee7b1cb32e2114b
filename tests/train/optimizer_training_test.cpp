// Whole training runs with the optimizers, schedules and loss scales of Megatron: on any number of
// ranks and shared among them, they train alike, resume byte for byte and use their plan's memory.
#include "tests/train/training_run.h"
#include "train/plan/plan.h"

namespace mt {
namespace {

const std::string kModel = "decoder.";  // not the optimizer's

class OptimizerTraining : public Training {
 protected:
  // Trains as `options`, on `ranks` ranks, to a folder of the same name.
  void run(PretrainOptions o, const std::string& name, int ranks, bool distributed) const {
    o.run.checkpoint.save = path(name);
    o.run.ranks.count = ranks;
    o.run.optimizer.use_distributed_optimizer = distributed;
    train_with(o);
  }

  // The bytes of a checkpoint are those of an undisturbed run if it is resumed at every save.
  void expect_resumable(PretrainOptions o, const std::string& name) const {
    o.run.checkpoint.save = path(name);
    o.run.checkpoint.save_interval = 5;
    train_with(o);
    const std::string resumed = name + "-resumed";
    o.run.checkpoint.save = o.run.checkpoint.load = copy_of(name, 5, resumed);
    train_with(o);
    expect_same_files(iteration_folder(path(resumed), 10), iteration_folder(path(name), 10));
  }

  int skipped(const std::string& save) const {
    int count = 0;
    for (const std::string& line : events(save, "step"))
      count += line.find("\"skipped\":true") != std::string::npos;
    return count;
  }
};

TEST_F(OptimizerTraining, SharedAmongRanksTrainsAlike) {
  for (const char* name : {"adam", "muon"}) {
    PretrainOptions o = options("");
    o.run.optimizer.name = name;
    o.run.compute.dtype = "fp64";
    o.run.length.train_iters = 5;
    const std::string whole = concat(name, "-whole");
    run(o, whole, 1, false);
    for (const int ranks : {1, 2, 4}) {
      SCOPED_TRACE(concat(name, ranks));
      const std::string shared = concat(name, "-shared", ranks);
      run(o, shared, ranks, true);
      expect_near(losses(shared), losses(whole), 1e-9);
      expect_near_tensors(shared, whole, 5, kWeights, 1e-9);
    }
  }
}

// Without clipping, whose norm is summed in another order, also bit for bit.
TEST_F(OptimizerTraining, SharedAmongRanksComputesTheSameBits) {
  PretrainOptions o = options("");
  o.run.optimizer.clip_grad = 0;
  for (const int ranks : {1, 2, 4}) {
    const std::string whole = concat("whole", ranks), shared = concat("shared", ranks);
    run(o, whole, ranks, false);
    run(o, shared, ranks, true);
    expect_near_tensors(shared, whole, 10, kWeights, 0);
  }
}

TEST_F(OptimizerTraining, GoesOnOnAnyNumberOfRanks) {
  PretrainOptions o = options("");
  o.run.compute.dtype = "fp64";
  o.run.checkpoint.save_interval = 5;
  run(o, "whole", 2, true);
  for (const int ranks : {1, 3, 4})
    for (const bool distributed : {true, false}) {
      const std::string resumed = concat("resumed", ranks, distributed);
      SCOPED_TRACE(resumed);
      PretrainOptions next = o;
      next.run.batch.global_batch_size = ranks == 3 ? 12 : 8;
      next.run.schedule.override_checkpoint = true;
      next.run.checkpoint.load = copy_of("whole", 5, resumed);
      if (ranks == 3) next.run.length.train_iters = 5;  // the state is read and the run is over
      run(next, resumed, ranks, distributed);
      if (ranks != 3) expect_near_tensors(resumed, "whole", 10, kModel, 1e-9);
    }
  // And from the state of one that was not shared.
  run(o, "plain", 1, false);
  PretrainOptions next = o;
  next.run.checkpoint.load = copy_of("plain", 5, "from-plain");
  run(next, "from-plain", 4, true);
  expect_near_tensors("from-plain", "plain", 10, kModel, 1e-9);
}

TEST_F(OptimizerTraining, AResumedRunEndsWithTheSameBytes) {
  PretrainOptions o = options("");
  o.run.ranks.count = 2;
  o.run.optimizer.use_distributed_optimizer = true;
  expect_resumable(o, "distributed");
  o.run.optimizer.name = "muon";
  expect_resumable(o, "distributed-muon");
  o.run.ranks.count = 1;
  o.run.optimizer.use_distributed_optimizer = false;
  expect_resumable(o, "muon");
  o.run.optimizer.name = "sgd";
  expect_resumable(o, "sgd");
  o.run.optimizer.name = "adam";
  o.run.schedule.decoupled_lr = 0.02;
  o.run.schedule.decay_style = "WSD";
  o.run.schedule.wsd_decay_iters = 4;
  o.run.schedule.weight_decay_incr_style = "cosine";
  o.run.schedule.start_weight_decay = 0.01;
  o.run.schedule.end_weight_decay = 0.1;
  expect_resumable(o, "schedules");
}

// Moments of fewer bits are near those in fp32, are stored as numbers of 32 bits, of which any kind
// of run makes its own, and go on from there bit for bit.
TEST_F(OptimizerTraining, KeepsMomentsInFewerBits) {
  PretrainOptions o = options("");
  o.run.optimizer.use_distributed_optimizer = o.run.optimizer.precision_aware = true;
  run(o, "fp32", 1, true);
  const auto state_bytes = [](PretrainOptions of) {
    of.take_vocabulary(*make_tokenizer(of.data.tokenizer));
    of.complete();
    return static_cast<double>(
        make_plan(of.run, Pretraining(of.model, of.data), of.plan).fullest().memory.optimizer);
  };
  const double whole = state_bytes(o);
  struct Kind {
    const char *first, *second;
    double tolerance, bytes;  // of the loss; of the state, beside fp32's
  };
  for (const Kind& kind : {Kind{"bf16", "bf16", 0.01, 1.0 / 2}, Kind{"bf16", "fp32", 0.01, 3.0 / 4},
                           Kind{"fp16", "fp16", 0.01, 1.0 / 2}, Kind{"fp8", "fp32", 0.02, 5.0 / 8},
                           Kind{"fp32", "fp8", 0.1, 5.0 / 8}, Kind{"fp8", "fp16", 0.02, 3.0 / 8},
                           Kind{"fp8", "fp8", 0.1, 1.0 / 4}}) {
    const std::string name = concat(kind.first, "-", kind.second);
    SCOPED_TRACE(name);
    o.run.optimizer.exp_avg_dtype = kind.first;
    o.run.optimizer.exp_avg_sq_dtype = kind.second;
    run(o, name, 1, true);
    expect_near(losses(name), losses("fp32"), kind.tolerance);
    EXPECT_NE(losses(name), losses("fp32"));
    EXPECT_NEAR(state_bytes(o), whole * kind.bytes, 2000);
    const MegatronCheckpoint stored(iteration_folder(path(name), 10));
    for (const char* state : {"exp_avg", "exp_avg_sq"}) {
      const DistTensor* moment = stored.tensors().find(
          concat("optimizer.state.", state, ".embedding.word_embeddings.weight"));
      ASSERT_NE(moment, nullptr);
      EXPECT_EQ(moment->dtype, DType::f32);
    }
    o.run.ranks.count = 1;
    expect_resumable(o, name + "-resumed");
    o.run.ranks.count = 2;
    expect_resumable(o, name + "-shared");
    o.run.ranks.count = 1;
  }
}

// Each rank writes its part to a file of its own.
TEST_F(OptimizerTraining, EveryRankWritesAFile) {
  run(options(""), "shared", 4, true);
  const Files files = contents_below(iteration_folder(path("shared"), 10));
  for (const char* name : {"__0_0.distcp", "__1_0.distcp", "__2_0.distcp", "__3_0.distcp"})
    EXPECT_TRUE(files.contains(name)) << name;
  const MegatronCheckpoint checkpoint(iteration_folder(path("shared"), 10));
  EXPECT_EQ(
      checkpoint.common().at("optimizer", "").at("param_state_sharding_type", "").as_string(""),
      "fully_sharded_model_space");
  const DistTensor* norm =
      checkpoint.tensors().find("optimizer.state.exp_avg.decoder.final_layernorm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->shape, (Shape{1, 16}));
  EXPECT_EQ(norm->original_shape, Shape{16});
  const DistTensor* fc2 =
      checkpoint.tensors().find("optimizer.state.fp32_param.decoder.layers.mlp.linear_fc2.weight");
  ASSERT_NE(fc2, nullptr);
  EXPECT_EQ(fc2->shape, (Shape{2, 1, 1, 16 * 64}));
  EXPECT_EQ(fc2->original_shape, (Shape{2, 16, 64}));
}

// Megatron does not load a block into both of its own.
TEST_F(OptimizerTraining, GateAndUpAreBlocksOfAGrid) {
  PretrainOptions o = options("");
  o.model.swiglu = true;
  o.model.ffn_hidden_size = 24;
  run(o, "gated", 2, true);
  const MegatronCheckpoint checkpoint(iteration_folder(path("gated"), 10));
  const DistTensor& moment =
      checkpoint.tensors().at("optimizer.state.exp_avg.decoder.layers.mlp.linear_fc1.weight");
  EXPECT_EQ(moment.shape, (Shape{2, 2, 1, 24 * 16}));
  EXPECT_EQ(moment.original_shape, (Shape{2, 48, 16}));
}

TEST_F(OptimizerTraining, UsesTheMemoryOfItsPlan) {
  for (const char* name : {"adam", "muon", "sgd"})
    for (const int ranks : {1, 2, 4}) {
      const bool distributed = std::string(name) != "sgd";
      SCOPED_TRACE(concat(name, ranks));
      PretrainOptions o = options("");
      o.run.optimizer.name = name;
      o.run.length.train_iters = 1;
      o.run.schedule.warmup_iters = 0;
      run(o, concat(name, ranks), ranks, distributed);
      o.run.ranks.count = ranks;
      o.run.optimizer.use_distributed_optimizer = distributed;
      o.take_vocabulary(*make_tokenizer(o.data.tokenizer));
      o.complete();
      JsonWriter planned;
      make_plan(o.run, Pretraining(o.model, o.data), o.plan).fullest().memory.write(planned);
      const std::string end = events(concat(name, ranks), "end").at(0);
      EXPECT_TRUE(end.ends_with("\"memory\":" + planned.text() + "}")) << end << planned.text();
    }
}

// What is sharded: a quarter of it on each rank, and two places for what is whole for a while.
TEST_F(OptimizerTraining, ShardedUsesTheMemoryOfItsPlan) {
  std::map<std::string, RankMemory> planned;
  for (const char* strategy : {"optim", "optim_grads", "optim_grads_params"}) {
    PretrainOptions o = options("");
    o.model.num_layers = 8;
    o.run.optimizer.sharding_strategy = strategy;
    o.run.length.train_iters = 1;
    o.run.schedule.warmup_iters = 0;
    run(o, strategy, 4, false);
    o.run.ranks.count = 4;
    o.take_vocabulary(*make_tokenizer(o.data.tokenizer));
    o.complete();
    planned[strategy] = make_plan(o.run, Pretraining(o.model, o.data), o.plan).fullest().memory;
    JsonWriter json;
    planned[strategy].write(json);
    const std::string end = events(strategy, "end").at(0);
    EXPECT_TRUE(end.ends_with("\"memory\":" + json.text() + "}")) << end << json.text();
  }
  const RankMemory &optim = planned["optim"], &grads = planned["optim_grads"],
                   &all = planned["optim_grads_params"];
  EXPECT_EQ(grads.parameters, optim.parameters);
  EXPECT_LT(grads.gradients, 0.75 * static_cast<double>(optim.gradients));
  EXPECT_EQ(all.gradients, grads.gradients);
  EXPECT_EQ(all.parameters, all.gradients);  // both fp32
  EXPECT_EQ(all.optimizer, optim.optimizer);
}

// A power of two scales every number of the backward pass without rounding.
TEST_F(OptimizerTraining, AConstantLossScaleChangesNoBit) {
  run(options(""), "plain", 2, false);
  PretrainOptions o = options("");
  o.run.optimizer.loss_scale.loss_scale = 65536;
  run(o, "scaled", 2, false);
  expect_near_tensors("scaled", "plain", 10, kWeights, 0);
  EXPECT_EQ(losses("scaled"), losses("plain"));
}

// Embeddings so large that gradients of a loss scaled by 2^127 overflow.
TEST_F(OptimizerTraining, StepsThatOverflowAreSkipped) {
  PretrainOptions o = options("");
  o.model.init_method_std = 50;
  o.run.length.train_iters = 30;
  o.run.optimizer.loss_scale.initial_loss_scale = std::ldexp(1.0, 127);
  o.run.optimizer.loss_scale.hysteresis = 1;
  o.run.checks.large_grads = true;  // which looks at them, but does not end the run
  o.run.checkpoint.save_interval = 5;
  run(o, "whole", 1, false);
  const int lost = skipped("whole");
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 30);
  const MegatronCheckpoint last(iteration_folder(path("whole"), 30));
  const PyValue& common = last.common();
  EXPECT_EQ(common.at("opt_param_scheduler", "").at("num_steps", "").as_integer(""),
            (30 - lost) * 8);
  EXPECT_EQ(common.at("args", "").at("consumed_train_samples", "").as_integer(""), 30 * 8);
  const PyValue& stored = common.at("optimizer", "");
  EXPECT_EQ(stored.at("optimizer", "")
                .at("param_groups", "")
                .as_items("")[0]
                .at("step", "")
                .as_integer(""),
            30 - lost);
  float scale = 0;
  last.read_common_tensor(stored.at("grad_scaler", "").at("scale", ""), {&scale, DType::f32, {1}});
  EXPECT_EQ(scale, std::ldexp(1.0F, 127 - lost));
  for (const int from : {5, 10, 25}) {
    const std::string resumed = concat("resumed", from);
    PretrainOptions next = o;
    next.run.checkpoint.load = copy_of("whole", from, resumed);
    run(next, resumed, 1, false);
    expect_same_files(iteration_folder(path(resumed), 30), iteration_folder(path("whole"), 30));
  }
}

// The scale doubles to 64 times what it was when the check had seen its first 100 steps.
TEST_F(OptimizerTraining, ALossScaleThatGrowsIsNoLargeGradient) {
  PretrainOptions o = options("run");
  o.run.batch.micro_batch_size = 1;
  o.run.batch.global_batch_size = 1;
  o.run.length.train_iters = 160;
  o.run.evaluation.eval_interval = 1000;
  o.run.optimizer.loss_scale.initial_loss_scale = 2;
  o.run.optimizer.loss_scale.window = 10;
  o.run.checks.large_grads = true;
  train_with(o);
  EXPECT_EQ(losses("run").size(), 160U);
  EXPECT_NE(events("run", "step").back().find("\"loss_scale\":131072"), std::string::npos);
}

// Ends of documents do not count here, so micro-batches differ in their tokens.
TEST_F(OptimizerTraining, PerTokenLossMakesMicroBatchesMeaningless) {
  const auto name_of = [](bool per_token, std::int64_t size, int ranks, bool shared) {
    return concat(per_token, "-", size, "-", ranks, "-", shared);
  };
  const auto run_with = [&](bool per_token, std::int64_t size, int ranks, bool shared) {
    PretrainOptions o = options("");
    o.run.compute.dtype = "fp64";
    o.run.length.train_iters = 5;
    o.run.batch.calculate_per_token_loss = per_token;
    o.run.batch.micro_batch_size = size;
    run(o, name_of(per_token, size, ranks, shared), ranks, shared);
  };
  run_with(true, 8, 1, false);
  const std::string whole = name_of(true, 8, 1, false);
  for (const auto& [size, ranks, shared] :
       {std::tuple(2, 1, false), std::tuple(1, 2, false), std::tuple(2, 4, true)}) {
    SCOPED_TRACE(name_of(true, size, ranks, shared));
    run_with(true, size, ranks, shared);
    expect_near(losses(name_of(true, size, ranks, shared)), losses(whole), 1e-9);
    expect_near_tensors(name_of(true, size, ranks, shared), whole, 5, kWeights, 1e-9);
  }
  run_with(false, 8, 1, false);  // with one micro-batch, its tokens are the step's
  expect_near(losses(name_of(false, 8, 1, false)), losses(whole), 1e-9);
  run_with(false, 2, 1, false);
  EXPECT_GT(std::abs(losses(name_of(false, 2, 1, false)).back() - losses(whole).back()), 1e-6);
}

TEST_F(OptimizerTraining, AnotherScheduleThanTheCheckpoints) {
  PretrainOptions o = options("run");
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  PretrainOptions longer = o;
  longer.run.checkpoint.save = longer.run.checkpoint.load = copy_of("run", 5, "longer");
  longer.run.length.train_iters = 20;
  EXPECT_EQ(error_of([&] { train_with(longer); }),
            concat("78 ", iteration_folder(longer.run.checkpoint.load, 5),
                   ": the learning rate's decay in samples is 80 in the checkpoint and 160 here; "
                   "--override-opt_param-scheduler takes this one, "
                   "--use-checkpoint-opt_param-scheduler that one; --finetune begins anew from its "
                   "weights"));
  longer.run.schedule.use_checkpoint = true;
  longer.run.length.train_iters = 10;
  longer.run.schedule.lr = 0.5;
  train_with(longer);
  expect_near_tensors("longer", "run", 10, kWeights, 0);
  longer.run.checkpoint.save = longer.run.checkpoint.load = copy_of("run", 5, "other");
  longer.run.schedule.use_checkpoint = false;
  longer.run.schedule.override_checkpoint = true;
  train_with(longer);
  EXPECT_NE(losses("other").back(), losses("run").back());
}

}  // namespace
}  // namespace mt
