// Whole training runs on small models: any number of ranks trains alike, a resumed run ends with
// the same bytes, and a run uses the memory that its plan said.
#include "tests/train/training_run.h"

#include <unistd.h>

#include <csignal>

#include "train/plan/plan.h"

namespace mt {
namespace {

// JSON whose numbers are all N.
std::string without_numbers(const std::string& json) {
  std::string text;
  for (std::size_t i = 0; i < json.size(); ++i) {
    text += json[i];
    const std::size_t end = json.find_first_not_of("-+.0123456789e", i + 1);
    if (json[i] != ':' || end == i + 1) continue;
    text += 'N';
    i = end - 1;
  }
  return text;
}

// DESIGN 4: fp64 loss, gradients and weights after 5 steps within 1e-9.  After one step from zero
// the first moment is the clipped gradient times a constant.
TEST_F(Training, AnyNumberOfRanksTrainsAlike) {
  for (const int ranks : {1, 2, 4}) {
    PretrainOptions o = options(concat("ranks", ranks));
    o.run.compute.dtype = "fp64";
    o.run.ranks.count = ranks;
    o.run.length.train_iters = 5;
    o.run.checkpoint.save_interval = 1;
    train_with(o);
    ASSERT_EQ(losses(concat("ranks", ranks)).size(), 5U);
  }
  for (const char* several : {"ranks2", "ranks4"}) {
    SCOPED_TRACE(several);
    expect_near(losses(several), losses("ranks1"), 1e-9);
    expect_near(losses(several, "eval"), losses("ranks1", "eval"), 1e-9);
    expect_near_tensors(several, "ranks1", 1, kMoment, 1e-9);
    expect_near_tensors(several, "ranks1", 5, kWeights, 1e-9);
  }
}

// fp32: loss and gradients within 1e-5 (Adam amplifies rounding where a true gradient is zero).
TEST_F(Training, AnyNumberOfRanksTrainsAlikeInSinglePrecision) {
  for (const int ranks : {1, 2, 4}) {
    PretrainOptions o = options(concat("ranks", ranks));
    o.run.ranks.count = ranks;
    o.run.length.train_iters = 1;
    o.run.schedule.warmup_iters = 0;
    train_with(o);
  }
  for (const char* several : {"ranks2", "ranks4"}) {
    SCOPED_TRACE(several);
    expect_near(losses(several), losses("ranks1"), 1e-5);
    expect_near_tensors(several, "ranks1", 1, kMoment, 1e-5);
  }
}

TEST_F(Training, SameCommandSameBytes) {
  for (const int ranks : {1, 2}) {
    PretrainOptions o = options(concat("a", ranks));
    o.run.ranks.count = ranks;
    o.run.ranks.threads = 2;
    o.run.checkpoint.save_interval = 3;
    train_with(o);
    o.run.checkpoint.save = path(concat("b", ranks));
    train_with(o);
    o.run.checkpoint.save = path(concat("c", ranks));
    o.run.ranks.threads = 1;  // nor does the number of threads change them
    train_with(o);
    for (const char* other : {"b", "c"}) {
      SCOPED_TRACE(concat(other, ranks));
      fs::remove(path(concat("a", ranks)) + "/run.jsonl");
      fs::remove(path(concat(other, ranks)) + "/run.jsonl");
      expect_same_files(path(concat(other, ranks)), path(concat("a", ranks)));
    }
  }
}

// Other seeds, data and dropout give other weights: the comparisons above compare something.
TEST_F(Training, WhatMustChangeTheWeightsDoes) {
  train_with(options("a"));
  const Files a = contents_below(iteration_folder(path("a"), 10));
  const auto expect_other = [&](const char* name,
                                const std::function<void(PretrainOptions&)>& change) {
    PretrainOptions o = options(name);
    change(o);
    train_with(o);
    EXPECT_FALSE(contents_below(iteration_folder(path(name), 10)).at("__0_0.distcp") ==
                 a.at("__0_0.distcp"))
        << name;
  };
  expect_other("seed", [](PretrainOptions& o) { o.run.seed = 5; });
  expect_other("dropout", [](PretrainOptions& o) { o.model.hidden_dropout = 0; });
  expect_other("decay", [](PretrainOptions& o) { o.run.schedule.weight_decay = 0.5; });
  expect_other("mask", [](PretrainOptions& o) { o.data.eod_mask_loss = false; });
  expect_other("clip", [](PretrainOptions& o) { o.run.optimizer.clip_grad = 0.01; });
}

// Ten steps at once, or five, a new process, and five more.
TEST_F(Training, AResumedRunEndsWithTheSameBytes) {
  for (const int ranks : {1, 2}) {
    const std::string whole = concat("whole", ranks), resumed = concat("resumed", ranks);
    PretrainOptions o = options(whole);
    o.run.ranks.count = ranks;
    o.run.checkpoint.save_interval = 5;
    train_with(o);
    o.run.checkpoint.save = o.run.checkpoint.load = copy_of(whole, 5, resumed);
    train_with(o);
    expect_same_files(iteration_folder(path(resumed), 10), iteration_folder(path(whole), 10));
    EXPECT_EQ(read_file(path(resumed) + "/latest_checkpointed_iteration.txt"), "10");
    const std::vector<double> all = losses(whole), later = losses(resumed);
    EXPECT_EQ(later, std::vector<double>(all.begin() + 5, all.end()));
    const std::vector<double> evaluated = losses(whole, "eval"), again = losses(resumed, "eval");
    ASSERT_EQ(evaluated.size(), 4U);  // after 4, 8, 10 and on the test set
    EXPECT_EQ(again, std::vector<double>(evaluated.begin() + 1, evaluated.end()));
  }
}

// So does one that learns further tokens, of whose losses steps tell, and evaluations do not.
TEST_F(Training, ARunWithFurtherTokensGoesOnToTheSameBytes) {
  PretrainOptions o = options("whole");
  o.model.position_embedding_type = "rope";
  o.model.mtp_num_layers = 2;
  o.run.length.train_iters = 20;
  o.run.checkpoint.save_interval = 10;
  train_with(o);
  o.run.checkpoint.save = o.run.checkpoint.load = copy_of("whole", 10, "resumed");
  train_with(o);
  expect_same_files(iteration_folder(path("resumed"), 20), iteration_folder(path("whole"), 20));
  const std::vector<std::string> steps = events("whole", "step"), later = events("resumed", "step"),
                                 evaluated = events("whole", "eval");
  ASSERT_EQ(steps.size(), 20U);
  ASSERT_EQ(later.size(), 10U);
  for (const char* const name : {"\"loss\":", "\"mtp_1_loss\":", "\"mtp_2_loss\":"})
    for (std::size_t i = 0; i < later.size(); ++i) {
      const auto value = [&](const std::string& line) {
        const std::size_t at = line.find(name);
        return at == std::string::npos ? "" : line.substr(at, line.find(',', at) - at);
      };
      EXPECT_NE(value(later[i]), "");
      EXPECT_EQ(value(later[i]), value(steps[i + 10]));
    }
  ASSERT_FALSE(evaluated.empty());
  for (const std::string& line : evaluated) EXPECT_EQ(line.find("mtp_"), std::string::npos) << line;
}

TEST_F(Training, AResumedRunMayHaveAnotherNumberOfRanks) {
  PretrainOptions o = options("whole");
  o.run.compute.dtype = "fp64";
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  for (const int ranks : {2, 4}) {
    const std::string resumed = concat("resumed", ranks);
    o.run.ranks.count = ranks;
    o.run.checkpoint.save = o.run.checkpoint.load = copy_of("whole", 5, resumed);
    train_with(o);
    expect_near_tensors(resumed, "whole", 10, kWeights, 1e-9);
  }
}

// Starting a finished run again trains nothing, changes no checkpoint and evaluates as before.
TEST_F(Training, AFinishedRunCanBeStartedAgain) {
  PretrainOptions o = options("run");
  o.run.checkpoint.load = o.run.checkpoint.save;
  train_with(o);
  const Files before = contents_below(iteration_folder(o.run.checkpoint.save, 10));
  train_with(o);
  EXPECT_TRUE(contents_below(iteration_folder(o.run.checkpoint.save, 10)) == before);
  const std::vector<double> evaluated = losses("run", "eval");
  ASSERT_EQ(evaluated.size(), 6U);  // after 4, 8, 10, test; and after 10, test
  EXPECT_EQ(evaluated[4], evaluated[2]);
  EXPECT_EQ(evaluated[5], evaluated[3]);
  EXPECT_EQ(losses("run").size(), 10U);
}

// The same in one process: a TERM that is there before the first step ends the run after it.
TEST_F(Training, StopsOnASignalAndGoesOn) {
  train_with(options("whole"));
  PretrainOptions o = options("stopped");
  o.run.checkpoint.load = o.run.checkpoint.save;
  for (int step = 1; step <= 10; ++step) {
    Signals signals;
    std::raise(SIGTERM);
    EXPECT_EQ(error_of([&] { train_with(o); }),
              concat("75 stopped by SIGTERM after iteration ", step,
                     ", saved; run the same command to go on"));
  }
  train_with(o);
  expect_same_files(iteration_folder(path("stopped"), 10), iteration_folder(path("whole"), 10));
}

// The first rank hears of a signal; all stop after the same step.
TEST_F(Training, AllRanksStop) {
  PretrainOptions o = options("stopped");
  o.run.checkpoint.load = o.run.checkpoint.save;
  o.run.ranks.count = 8;
  o.run.ranks.parallel.tensor_model_parallel_size =
      o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  for (int step = 1; step <= 3; ++step) {
    Signals signals;
    ::kill(::getpid(), SIGUSR1);  // whichever thread looks
    EXPECT_EQ(error_of([&] { train_with(o); }),
              concat("75 stopped by SIGUSR1 after iteration ", step,
                     ", saved; run the same command to go on"));
  }
  EXPECT_EQ(losses("stopped").size(), 3U);
}

// Stopped after each of 40 steps, with a batch that ramps up: the same bytes as undisturbed.
TEST_F(Training, ARampUpSurvivesAResumeAtEveryStep) {
  const auto ramped = [&](const std::string& save) {
    PretrainOptions o = options(save);
    o.run.checkpoint.load = o.run.checkpoint.save;
    o.run.length.train_iters = 0;
    o.run.length.train_samples = 232;
    o.run.batch.rampup_batch_size = {2, 2, 60};
    o.run.evaluation.eval_interval = 7;
    o.run.schedule.warmup_iters = 0;
    o.run.schedule.warmup_fraction = 0.1;
    o.run.schedule.decay_style = "cosine";
    return o;
  };
  PretrainOptions whole = ramped("whole");
  whole.run.checkpoint.save_interval = 1;
  train_with(whole);
  ASSERT_EQ(losses("whole").size(), 40U);
  PretrainOptions o = ramped("stopped");
  o.run.length.exit_interval = 1;
  for (int step = 1; step <= 40; ++step) {
    train_with(o);
    SCOPED_TRACE(concat("step ", step));
    expect_same_files(iteration_folder(o.run.checkpoint.save, step),
                      iteration_folder(whole.run.checkpoint.save, step));
  }
  EXPECT_EQ(losses("stopped"), losses("whole"));
  o.run.length.exit_interval.reset();
  train_with(o);
  EXPECT_EQ(losses("stopped", "eval"), losses("whole", "eval"));
}

// Sizes of the steps, saves before larger ones, and the samples that are asked from the data.
TEST_F(Training, RampUp) {
  PretrainOptions o = options("run");
  o.run.length.train_iters = 0;
  o.run.length.train_samples = 100;
  o.run.batch.rampup_batch_size = {2, 2, 60};
  o.run.schedule.warmup_iters = 0;
  train_with(o);
  std::vector<std::int64_t> sizes;
  std::int64_t before = 0;
  simdjson::dom::parser parser;
  for (const std::string& line : events("run", "step")) {
    const std::int64_t consumed = parser.parse(line)["consumed_samples"].get_int64();
    sizes.push_back(consumed - std::exchange(before, consumed));
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4, 4,
                                              4, 4, 4, 6, 6, 6, 6, 8, 8, 8, 8}));
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), (std::vector<std::int64_t>{10, 15, 19, 23}));
}

// Three ranks of two: 8 is rounded down to 6, and the rest counts as skipped.
TEST_F(Training, DecreasesTheBatch) {
  PretrainOptions o = options("run");
  o.run.ranks.count = 3;
  EXPECT_EQ(error_of([&] { train_with(o); }),
            "78 --global-batch-size 8: not a multiple of --micro-batch-size 2 x 3 ranks");
  o.run.batch.decrease_batch_size_if_needed = true;
  o.run.length.train_iters = 3;
  train_with(o);
  const MegatronCheckpoint checkpoint(iteration_folder(o.run.checkpoint.save, 3));
  const PyValue& args = checkpoint.common().at("args", "");
  EXPECT_EQ(args.at("consumed_train_samples", "").as_integer(""), 18);
  EXPECT_EQ(args.at("skipped_train_samples", "").as_integer(""), 6);
}

TEST_F(Training, LengthsThatDoNotFit) {
  const auto error = [&](const std::function<void(PretrainOptions&)>& change) {
    PretrainOptions o = options("run");
    change(o);
    return error_of([&] { train_with(o); });
  };
  EXPECT_EQ(error([](PretrainOptions& o) { o.run.length.train_samples = 80; }),
            "64 --train-iters and --train-samples exclude each other");
  EXPECT_EQ(error([](PretrainOptions& o) {
              o.run.batch.rampup_batch_size = {2, 2, 60};
            }),
            "64 --rampup-batch-size: needs --train-samples instead of --train-iters");
  EXPECT_EQ(error([](PretrainOptions& o) {
              o.run.length.train_iters = 0, o.run.length.train_samples = 7;
            }),
            "78 --train-samples 7: less than a step of 8");
  EXPECT_EQ(error([](PretrainOptions& o) {
              o.run.length.train_iters = 0, o.run.length.train_samples = 80,
              o.run.batch.rampup_batch_size = {2, 3, 60};
              o.run.schedule.warmup_iters = 0;
            }),
            "78 --global-batch-size 8: a step of 5 is not a multiple of --micro-batch-size 2 x 1 "
            "ranks");
}

TEST_F(Training, ExitsWhereItIsTold) {
  PretrainOptions o = options("interval");
  o.run.length.exit_interval = 4;
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), std::vector<std::int64_t>{4});
  EXPECT_EQ(losses("interval", "eval").size(), 1U);  // no evaluation at the end
  EXPECT_TRUE(events("interval", "end").at(0).find("\"exit-interval\"") != std::string::npos);
  o = options("duration");
  o.run.length.exit_duration_in_mins = 0;
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), std::vector<std::int64_t>{1});
  EXPECT_TRUE(events("duration", "end").at(0).find("\"exit-duration\"") != std::string::npos);
}

// Nothing is trained or saved; validation starts at its first sample.
TEST_F(Training, SkipTrain) {
  PretrainOptions o = options("run");
  train_with(o);
  o.run.checkpoint.load = o.run.checkpoint.save;
  o.run.checkpoint.save = path("none");
  o.run.evaluation.skip_train = true;
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), std::vector<std::int64_t>{});
  EXPECT_TRUE(losses("none").empty());
  const std::vector<double> before = losses("run", "eval"), after = losses("none", "eval");
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[1], before.back());
  EXPECT_NE(after[0], before[0]);
}

TEST_F(Training, UsesTheMemoryOfItsPlan) {
  for (const int ranks : {1, 2}) {
    PretrainOptions o = options(concat("run", ranks));
    o.run.ranks.count = ranks;
    train_with(o);
    o.take_vocabulary(*make_tokenizer(o.data.tokenizer));
    o.complete();
    JsonWriter planned;
    make_plan(o.run, Pretraining(o.model, o.data), o.plan).fullest().memory.write(planned);
    const std::string end = events(concat("run", ranks), "end").at(0);
    EXPECT_TRUE(end.ends_with("\"memory\":" + planned.text() + "}")) << end << planned.text();
  }
}

// What is recomputed changes memory and counted work, and not a byte of what a run leaves behind.
TEST_F(Training, RecomputeTrainsToTheSameBytes) {
  using Change = void (*)(RecomputeOptions&);
  const Change nothing = [](RecomputeOptions&) {};
  const Change modes[] = {
      [](RecomputeOptions& r) { r.activations = true; },
      [](RecomputeOptions& r) {
        r.granularity = "selective";
        r.modules = {"mlp", "layernorm"};
      },
      [](RecomputeOptions& r) {
        r = {.granularity = "full", .method = "uniform", .num_layers = 2};
      },
      [](RecomputeOptions& r) { r = {.granularity = "full", .method = "block", .num_layers = 1}; }};
  const auto run = [&](const std::string& name, int ranks, const std::string& dtype, bool shared,
                       Change recompute) {
    PretrainOptions o = options(name);
    o.run.optimizer.use_distributed_optimizer = shared;
    o.model.num_layers = 4;
    o.run.ranks.count = ranks;
    o.run.compute.dtype = dtype;
    o.run.length.train_iters = 3;
    recompute(o.model.recompute);
    train_with(o);
    o.take_vocabulary(*make_tokenizer(o.data.tokenizer));
    o.complete();
    JsonWriter planned;
    make_plan(o.run, Pretraining(o.model, o.data), o.plan).fullest().memory.write(planned);
    EXPECT_NE(events(name, "end").at(0).find(planned.text()), std::string::npos);
    fs::remove(path(name) + "/run.jsonl");
  };
  for (const bool shared : {false, true})
    for (const int ranks : {1, 2, 4})
      for (const char* dtype : {"fp32", "fp64"}) {
        const std::string of = concat(ranks, dtype, shared ? "-shared" : ""), kept = "kept" + of;
        run(kept, ranks, dtype, shared, nothing);
        for (std::size_t i = 0; i < std::size(modes); ++i) {
          const std::string name = concat("mode", i, "-", of);
          SCOPED_TRACE(name);
          run(name, ranks, dtype, shared, modes[i]);
          expect_same_files(path(name), path(kept));
        }
      }
}

// The more is made again, the less is kept and the more is computed; the model's FLOPs stay.
TEST_F(Training, PlansOfRecompute) {
  const auto plan = [&](const RecomputeOptions& recompute) {
    PretrainOptions o = options("none");
    o.model.num_layers = 8;
    o.model.vocab_size = 380;
    o.model.recompute = recompute;
    o.complete();
    return make_plan(o.run, Pretraining(o.model, o.data), o.plan);
  };
  const auto selective = [](const std::vector<std::string>& modules) {
    return RecomputeOptions{.granularity = "selective", .modules = modules};
  };
  const auto full = [](const std::string& method, std::int64_t layers) {
    return RecomputeOptions{.granularity = "full", .method = method, .num_layers = layers};
  };
  const Plan none = plan({});
  std::vector<Plan> plans = {none};
  for (const RecomputeOptions& more :
       {selective({"core_attn"}), selective({"core_attn", "layernorm"}),
        selective({"core_attn", "layernorm", "mlp"}), full("uniform", 1)}) {
    plans.push_back(plan(more));
    const Plan &less = plans[plans.size() - 2], &now = plans.back();
    EXPECT_LT(now.fullest().memory.step.keep(), less.fullest().memory.step.keep());
    EXPECT_LT(now.fullest().memory.total(), less.fullest().memory.total());
    EXPECT_GE(now.fullest().step.flops, less.fullest().step.flops);
    EXPECT_GT(now.fullest().step.bytes, less.fullest().step.bytes);
    EXPECT_EQ(now.model_flops, none.model_flops);
    EXPECT_EQ(now.fullest().memory.gradients, none.fullest().memory.gradients);
  }
  EXPECT_GT(plans[1].fullest().step.flops, none.fullest().step.flops);

  std::size_t keep = none.fullest().memory.step.keep();
  double flops = none.fullest().step.flops;
  for (const std::int64_t blocks : {1, 4, 7}) {  // each block that is recomputed saves as much
    const Plan more = plan(full("block", blocks));
    EXPECT_LT(more.fullest().memory.step.keep(), keep);
    EXPECT_GT(more.fullest().step.flops, flops);
    keep = more.fullest().memory.step.keep();
    flops = more.fullest().step.flops;
  }
  EXPECT_EQ(plan(full("block", 8)).fullest().memory.total(), plans.back().fullest().memory.total());
  EXPECT_EQ(plan(full("block", 8)).fullest().step.flops, plans.back().fullest().step.flops);
  // Longer runs keep less, and need more at once in the backward.
  const Plan two = plan(full("uniform", 2)), all = plan(full("uniform", 8));
  EXPECT_LT(two.fullest().memory.step.keep(), plans.back().fullest().memory.step.keep());
  EXPECT_LT(all.fullest().memory.step.keep(), two.fullest().memory.step.keep());
  EXPECT_GT(all.fullest().memory.step.layer, two.fullest().memory.step.layer);
}

// Keys of the run's events, in their order: schema mt-pretrain/1.
TEST_F(Training, Events) {
  PretrainOptions o = options("run");
  o.run.length.train_iters = 4;
  train_with(o);
  const std::string log = without_numbers(read_file(path("run") + "/run.jsonl"));
  const std::string step =
      R"({"schema":"mt-pretrain/1","event":"step","iteration":N,"consumed_samples":N,"loss":N,)"
      R"("lr":N,"grad_norm":N,"tokens_per_second":N,"step_seconds":N})"
      "\n";
  const auto eval = [](const std::string& split) {
    return R"({"schema":"mt-pretrain/1","event":"eval","split":")" + split +
           "\",\"iteration\":N,\"loss\":N}\n";
  };
  EXPECT_EQ(
      log, R"({"schema":"mt-pretrain/1","event":"start","iteration":N,"parameters":N,)"
           "\"options\":{}}\n" +
               step + step + step + step + eval("valid") +
               "{\"schema\":\"mt-pretrain/1\",\"event\":\"save\",\"iteration\":N,\"seconds\":N}\n" +
               eval("valid") + eval("test") +
               R"({"schema":"mt-pretrain/1","event":"end","reason":"done","iteration":N,)"
               R"("memory":{"parameters":N,"gradients":N,"optimizer":N,"keep":N,"layer":N,)"
               "\"deferred\":N,\"total\":N}}\n");
}

TEST_F(Training, PlanKeys) {
  PretrainOptions o = options("none");
  o.model.vocab_size = 380;
  o.complete();
  Plan plan = make_plan(o.run, Pretraining(o.model, o.data), o.plan);
  plan.pipeline[0].largest.resize(1);
  plan.pipeline[0].largest[0] = {"a: value", DType::bf16, Shape{2, 3}, 4};
  EXPECT_EQ(
      without_numbers(plan_json(plan)),
      R"({"schema":"mt-plan/1","parameters":N,"model_flops":N,"counted_flops":N,)"
      R"("counted_bytes":N,"message_bytes":N,"messages":N,"memory":{"parameters":N,)"
      R"("gradients":N,"optimizer":N,"keep":N,"layer":N,"deferred":N,"total":N},)"
      R"("largest":[{"tensor":"a: value","dtype":"bfloat16","shape":[2,3],"count":N,"bytes":N}],)"
      R"("messages_by_group":[],"run":{"iterations":N,"train_samples":N,"valid_samples":N,"test_samples":N},)"
      R"("ranks":N,"host_memory":N,"fits":true})"
      "\n");
}

// A loss that is not finite stops the run before the weights change.
TEST_F(Training, NotFinite) {
  PretrainOptions o = options("run");
  o.run.schedule.lr = 1e200;
  o.run.schedule.warmup_iters = 0;
  o.run.optimizer.clip_grad = 0;
  o.run.compute.dtype = "fp64";
  for (const int ranks : {1, 2}) {
    o.run.ranks.count = ranks;
    const std::string error = error_of([&] { train_with(o); });
    EXPECT_TRUE(
        error.starts_with("1 iteration 2, rank 0: the loss of micro-batch 0 is NaN, first "
                          "seen in the "))
        << error;
    EXPECT_NE(error.find(" of the module with "), std::string::npos) << error;
    EXPECT_TRUE(error.ends_with("; nothing was updated")) << error;
  }
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), std::vector<std::int64_t>{});
}

// Consumed, but not trained on: the step after it runs with the rate and the samples it would have
// had.
TEST_F(Training, IterationsToSkip) {
  PretrainOptions o = options("run");
  o.run.checks.iterations_to_skip = {1, 3};
  train_with(o);
  EXPECT_EQ(losses("run").size(), 8U);
  const MegatronCheckpoint checkpoint(iteration_folder(o.run.checkpoint.save, 10));
  const PyValue& args = checkpoint.common().at("args", "");
  EXPECT_EQ(args.at("consumed_train_samples", "").as_integer(""), 80);
  EXPECT_EQ(args.at("skipped_train_samples", "").as_integer(""), 16);
}

TEST_F(Training, NothingToTrainOn) {
  PretrainOptions o = options("run");
  o.data.sources.split = "0,1,1";
  EXPECT_EQ(error_of([&] { train_with(o); }), "78 --split 0,1,1: leaves nothing to train on");
  EXPECT_FALSE(fs::exists(o.run.checkpoint.save));
}

}  // namespace
}  // namespace mt
