// Runs whose linear layers multiply eight bits: they learn, and go on with the same bits.
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

// What each stage's layers remember goes with them to other stages.
TEST_F(Fp8Training, GoesOnInOtherStages) {
  PretrainOptions o = narrow("whole", "delayed");
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  const auto remembered = [&](const std::string& save) {
    return MegatronCheckpoint(iteration_folder(path(save), 10)).common().at("fp8", save);
  };
  for (const bool of_two : {true, false}) {
    o.run.checkpoint.load = of_two ? iteration_folder(path("whole"), 5) : path("stages");
    o.run.checkpoint.save = path(of_two ? "stages" : "again");
    o.run.ranks.count = o.run.ranks.parallel.pipeline_model_parallel_size = of_two ? 2 : 1;
    o.run.length.exit_interval = of_two ? 8 : 10;
    train_with(o);
  }
  const PyValue got = remembered("again"), expected = remembered("whole");
  EXPECT_EQ(got.entries("").size(), expected.entries("").size());
  for (const char* operand : {"scale", "amax_history"}) {
    const std::string name = "decoder.layers.1.mlp.linear_fc1.weight";
    const PyValue& a = got.at(name, "").at(operand, "");
    const PyValue& b = expected.at(name, "").at(operand, "");
    EXPECT_EQ(a, b) << name;
  }
}

// A layer's scales belong to its weights: a run that begins anew with these has those, too.
TEST_F(Fp8Training, BeginsAnewWithTheScalesOfTheWeights) {
  const auto remembered = [&](const std::string& save, int iteration) {
    const PyValue common = MegatronCheckpoint(iteration_folder(path(save), iteration)).common();
    const PyValue& layer =
        common.at("fp8", save).at("decoder.layers.1.mlp.linear_fc1.weight", save);
    return layer.at("amax_history", save).as_items(save).front().as_items(save);
  };
  PretrainOptions o = narrow("whole", "delayed");
  o.run.fp8.history = 3;
  train_with(o);
  const std::vector<PyValue> before = remembered("whole", 10);
  for (const bool foreign : {false, true}) {
    o.run.checkpoint.load = path("whole");
    o.run.checkpoint.finetune = true;
    o.run.checkpoint.resize_embeddings = foreign;
    o.run.checkpoint.save = path(foreign ? "foreign" : "anew");
    o.run.length.exit_interval = 1;
    train_with(o);
    const std::vector<PyValue> after = remembered(foreign ? "foreign" : "anew", 1);
    for (std::size_t i = 1; i < 3; ++i) EXPECT_EQ(after[i], before[i - 1]);
  }
}

TEST(LoadFp8, RefusesOtherNumbersOfOperands) {
  ParamTable table;
  table.add({.place = {.stack = "decoder", .layer = 0, .module = "fc1", .param = "weight"},
             .shape = {16, 16}});
  Stream stream(Device::cpu);
  Fp8Layers fp8(table,
                {.multiplies = [](const RowPlace&) { return true; },
                 .delayed = Fp8Rules::Delayed{.length = 1}},
                stream);
  const auto group = make_single_group();
  const World world(*group, {});
  const auto list = [](std::size_t count, const PyValue& item) {
    return PyValue::list(std::vector<PyValue>(count, item));
  };
  const auto error = [&](std::size_t scales, std::size_t histories) {
    return error_of([&] {
      const PyValue layer =
          PyValue::dict({{"scale", list(scales, PyValue(2.0))},
                         {"amax_history", list(histories, list(1, PyValue(1.0)))}});
      load_fp8(fp8, PyValue::dict({{"fp8", PyValue::dict({{table.rows()[0].name(), layer}})}}), "x",
               world, stream, Log({.level = Log::Level::quiet}));
    });
  };
  const std::string here = "65 x: fp8.decoder.layers.0.fc1.weight: has ";
  EXPECT_EQ(error(3, 3), "");
  EXPECT_EQ(error(1, 3), here + "1 items of scale, expected 3");
  EXPECT_EQ(error(3, 4), here + "4 items of amax_history, expected 3");
}

}  // namespace
}  // namespace mt
