// Runs whose linear layers multiply eight bits: they learn, and go on with the same bits.
#include <cmath>

#include "ckpt/dist_checkpoint.h"
#include "ckpt/te_state.h"
#include "formats/convert.h"
#include "tests/train/training_run.h"
#include "train/run/fp8_checkpoint.h"

namespace mt {
namespace {

class Fp8Training : public Training {
 protected:
  PretrainOptions narrow(const std::string& save, const char* recipe) const {
    PretrainOptions o = options(save);
    o.run.fp8.recipe = recipe;
    o.run.fp8.format = o.run.fp8.recipe == "blockwise" ? "e4m3" : "hybrid";
    return o;
  }
};

// As much as without, on the same samples.
TEST_F(Fp8Training, LearnsAsMuch) {
  PretrainOptions wide = options("wide");
  wide.run.length.train_iters = 60;
  train_with(wide);
  const std::vector<double> expected = losses("wide");
  for (const char* recipe : {"tensorwise", "delayed", "blockwise"}) {
    PretrainOptions o = narrow(recipe, recipe);
    o.run.length.train_iters = 60;
    train_with(o);
    const std::vector<double> got = losses(recipe);
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_NE(got, expected);
    EXPECT_LT(got.back(), got.front() - 0.5);
    EXPECT_NEAR(got.back(), expected.back(), 0.005 * expected.back()) << recipe;
  }
}

TEST_F(Fp8Training, GoesOnWithTheSameBits) {
  for (const char* recipe : {"tensorwise", "delayed"}) {
    SCOPED_TRACE(recipe);
    PretrainOptions o = narrow(concat("whole ", recipe), recipe);
    if (o.run.fp8.is_delayed()) {
      o.run.fp8.history = 3;
      o.run.fp8.algorithm = "max";
      o.run.fp8.margin = 1;
    }
    o.run.checkpoint.save_interval = 5;
    train_with(o);
    o.run.checkpoint.load = iteration_folder(o.run.checkpoint.save, 5);
    o.run.checkpoint.save = path(concat("again ", recipe));
    train_with(o);
    expect_same_files(iteration_folder(o.run.checkpoint.save, 10),
                      iteration_folder(path(concat("whole ", recipe)), 10));
  }
}

// By weights' places: the linear layers of a stack, but for its first and its last ones.
TEST(Fp8Options, SayWhichLayersMultiply) {
  ModelConfig model;
  model.num_layers = 5;
  Fp8Options options{.format = "e4m3", .recipe = "tensorwise"};
  const auto multiplies = [&](const RowPlace& place) {
    return options.rules(model, true)->multiplies(place);
  };
  const auto fc1 = [](std::int64_t layer) {
    return RowPlace{.stack = "decoder", .layer = layer, .module = "mlp.linear_fc1"};
  };
  for (std::int64_t layer = 0; layer < 5; ++layer) EXPECT_TRUE(multiplies(fc1(layer)));
  options.first_last_bf16 = true;
  options.layers_at_end = 2;
  for (std::int64_t layer = 0; layer < 5; ++layer)
    EXPECT_EQ(multiplies(fc1(layer)), layer == 1 || layer == 2) << layer;
  const auto of_module = [](const char* module) {
    return RowPlace{.stack = "decoder", .layer = 1, .module = module};
  };
  for (const char* module : {"self_attention.linear_qkv", "self_attention.linear_proj",
                             "mixer.in_proj", "mixer.out_proj", "self_attention.linear_kv_up_proj"})
    EXPECT_TRUE(multiplies(of_module(module))) << module;
  for (const char* module : {"mlp.router", "input_layernorm", "mixer.conv1d"})
    EXPECT_FALSE(multiplies(of_module(module))) << module;
  RowPlace place = fc1(1);
  place.expert = 0;
  EXPECT_FALSE(multiplies(place));
  EXPECT_FALSE(multiplies({.stack = "output_layer", .module = "linear_head"}));
  EXPECT_FALSE(multiplies({.stack = "teacher.decoder", .layer = 1, .module = "mlp.linear_fc1"}));
  EXPECT_TRUE(multiplies({.stack = "mtp", .layer = 0, .module = "eh_proj"}));
  options.format.clear();
  EXPECT_FALSE(options.rules(model, true));
}

// What layers remember, by keys.
std::map<std::string, DelayedScales> remembered(const std::string& folder) {
  const DistReader reader(folder);
  std::map<std::string, DelayedScales> all;
  for (const auto& [key, place] : reader.objects()) {
    if (key.find("_extra_state") == std::string::npos) continue;
    const TorchReader object = reader.open_object(key);
    const auto scales = decode_te_state(te_state_in(object.value(), object, key), key);
    if (scales) all[key] = *scales;
  }
  return all;
}

// It goes with them to other stages, and to Megatron's other formats and back.
TEST_F(Fp8Training, GoesOnInOtherStages) {
  PretrainOptions o = narrow("whole", "delayed");
  o.run.fp8.history = 3;
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  for (const bool of_two : {true, false}) {
    o.run.checkpoint.load = of_two ? iteration_folder(path("whole"), 5) : path("stages");
    o.run.checkpoint.save = path(of_two ? "stages" : "again");
    o.run.checkpoint.format = of_two ? "torch" : "torch_dist";
    o.run.ranks.count = o.run.ranks.parallel.pipeline_model_parallel_size = of_two ? 2 : 1;
    o.run.length.exit_interval = of_two ? 8 : 10;
    train_with(o);
  }
  const auto got = remembered(iteration_folder(path("again"), 10)),
             expected = remembered(iteration_folder(path("whole"), 10));
  EXPECT_EQ(expected.size(), 4 * 2);  // linear layers of two layers
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [key, scales] : expected) {
    EXPECT_EQ(got.at(key).scales, scales.scales) << key;
    EXPECT_EQ(got.at(key).amaxes, scales.amaxes) << key;
    EXPECT_EQ(scales.amaxes[0].size(), 2) << key;
    EXPECT_GT(scales.amaxes[2][1], 0) << key;
  }
  ConvertOptions conversion;
  conversion.load = path("whole");
  conversion.save = path("dcp");
  conversion.ckpt_format = "torch_dcp";
  conversion.complete();
  const Log quiet({.level = Log::Level::quiet, .progress = Log::Show::none});
  convert_checkpoint(conversion, quiet, [] {});
  conversion.load = path("dcp");
  conversion.save = path("back");
  conversion.ckpt_format = "torch_dist";
  convert_checkpoint(conversion, quiet, [] {});
  const auto back = remembered(iteration_folder(path("back"), 10));
  ASSERT_EQ(back.size(), expected.size());
  for (const auto& [key, scales] : expected) EXPECT_EQ(back.at(key).amaxes, scales.amaxes) << key;
}

// A layer's scales belong to its weights: a run that begins anew with these has those, too.
TEST_F(Fp8Training, BeginsAnewWithTheScalesOfTheWeights) {
  const auto amaxes = [&](const std::string& save, int iteration) {
    return remembered(iteration_folder(path(save), iteration))
        .at("decoder.layers.mlp.linear_fc1._extra_state/shard_1_2")
        .amaxes[0];
  };
  PretrainOptions o = narrow("whole", "delayed");
  o.run.fp8.history = 3;
  train_with(o);
  const std::vector<float> before = amaxes("whole", 10);
  for (const bool foreign : {false, true}) {
    o.run.checkpoint.load = path("whole");
    o.run.checkpoint.finetune = true;
    o.run.checkpoint.resize_embeddings = foreign;
    o.run.checkpoint.save = path(foreign ? "foreign" : "anew");
    o.run.length.exit_interval = 1;
    train_with(o);
    EXPECT_EQ(amaxes(foreign ? "foreign" : "anew", 1)[1], before[0]);
  }
}

// A linear layer, and what it remembers of four steps.
struct LayerThatRemembers {
  LayerThatRemembers() {
    table.add({.place = {.stack = "decoder", .layer = 0, .module = "fc1", .param = "weight"},
               .shape = {16, 16}});
    fp8.emplace(table,
                Fp8Rules{.multiplies = [](const RowPlace&) { return true; },
                         .delayed = Fp8Rules::Delayed{.length = 4}},
                stream);
  }
  ParamTable table;
  Stream stream{Device::cpu};
  std::optional<Fp8Layers> fp8;
};

// Whichever ranks have it to say, rank 0 says it once.
TEST(LoadFp8, SaysOnceWhatManyRanksFind) {
  using OfRanks = std::vector<std::optional<float>>;  // a largest number; nothing is stored
  const auto said = [](const OfRanks& amaxes) {
    testing::internal::CaptureStderr();
    run_ranks(4, [&](Group& ranks) {
      LayerThatRemembers layer;
      const World world(ranks, {.dp = 4});
      const auto amax = amaxes[static_cast<std::size_t>(ranks.rank())];
      DelayedScales scales{{2, 4, 8}, {}};
      for (std::vector<float>& all : scales.amaxes) all.assign(3, amax.value_or(0));
      load_fp8(
          *layer.fp8, layer.table,
          [&](const Param&) { return amax ? encode_te_state({}, scales) : std::string(); }, "x",
          world, layer.stream, Log().for_rank(ranks.rank()));
    });
    return testing::internal::GetCapturedStderr();
  };
  const std::string name = "decoder.layers.0.fc1.weight",
                    anew = "rank 0: x: has no scales of " + name + "; they begin anew\n",
                    overflowed = "rank 0: warning: x: " + name +
                                 ": largest numbers of some steps are not finite; its scales stay "
                                 "until these steps count no more\n";
  EXPECT_EQ(said(OfRanks{1, 2, 3, 4}), "");
  EXPECT_EQ(said(OfRanks{INFINITY, INFINITY, INFINITY, INFINITY}), overflowed);
  EXPECT_EQ(said(OfRanks{1, 2, NAN, INFINITY}), overflowed);
  EXPECT_EQ(said(OfRanks{1, 2, std::nullopt, std::nullopt}), anew);
  EXPECT_EQ(said(OfRanks{1, INFINITY, std::nullopt, NAN}), anew + overflowed);
}

TEST(LoadFp8, RefusesScalesThatAreNone) {
  LayerThatRemembers layer;
  auto& [table, stream, layers] = layer;
  Fp8Layers& fp8 = *layers;
  const auto group = make_single_group();
  const World world(*group, {});
  const auto error = [&](float scale, std::size_t steps, float amax = 3) {
    DelayedScales scales{{2, 4, scale}, {}};
    for (std::vector<float>& amaxes : scales.amaxes) amaxes.assign(steps, amax);
    return error_of([&] {
      load_fp8(
          fp8, table, [&](const Param&) { return encode_te_state({}, scales); }, "x", world, stream,
          Log({.level = Log::Level::quiet}));
    });
  };
  EXPECT_EQ(error(8, 2), "");
  EXPECT_EQ(fp8.memories(stream)[0].numbers,
            (std::vector<float>{2, 4, 8, 3, 3, 0, 0, 3, 3, 0, 0, 3, 3, 0, 0}));
  EXPECT_EQ(error(8, 7), "");  // of a longer history the newest
  EXPECT_EQ(fp8.memories(stream)[0].numbers.back(), 3);
  const std::string here = "65 x: decoder.layers.0.fc1.weight: extra state: a scale is ";
  EXPECT_EQ(error(0, 2), here + "0");
  EXPECT_EQ(error(-1, 2), here + "-1");
  EXPECT_EQ(error(NAN, 2), here + "nan");
  EXPECT_EQ(error(INFINITY, 2), here + "inf");
  EXPECT_EQ(error(8, 2, -1),
            "65 x: decoder.layers.0.fc1.weight: extra state: a largest number is -1");
  for (const float amax : {NAN, INFINITY}) {  // as a step leaves that overflows
    testing::internal::CaptureStderr();
    EXPECT_EQ(error(8, 2, amax), "");
    EXPECT_NE(testing::internal::GetCapturedStderr().find("decoder.layers.0.fc1.weight: largest"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace mt
