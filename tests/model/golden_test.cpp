// Models as other programs saved them (testdata/models, testdata/ranks*).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ckpt/gguf.h"
#include "ckpt/megatron_checkpoint.h"
#include "ckpt/safetensors.h"
#include "tests/model/convert_support.h"

namespace mt {
namespace {

const std::string kModels = std::string(MT_TESTDATA) + "/models/";

class Golden : public Convert {
 protected:
  ConvertReport convert_golden(const std::string& from, const std::string& to,
                               ConvertOptions options = {}) {
    options.load = std::string(MT_TESTDATA) + "/" + from;
    options.save = scratch_.path(to);
    options.verify = true;
    options.complete();
    return convert_checkpoint(options, Log({.level = Log::Level::quiet}), [] {});
  }
};

std::vector<float> numbers_in(const TensorSource& source, const std::string& key) {
  const Shape shape = source.at(key).own_shape();
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  source.read_original(key, origin_of(shape.rank()), {numbers.data(), DType::f32, shape});
  return numbers;
}

TEST_F(Golden, FoldersOfTransformers) {  // in safetensors, and pickled
  for (const char* name : {"models/llama", "models/llama-bin"}) {
    const std::string core = concat("core", std::string(name).size());
    const ConvertReport report = convert_golden(name, core);
    EXPECT_EQ(report.compared, report.rows);
    convert(core, core + "hf", "hf");
    EXPECT_EQ(open_tensors(scratch_.path(core + "hf"))->tensors().size(), 12U);
    const SafetensorsReader theirs(kModels + "llama/model.safetensors"),
        ours(scratch_.path(core + "hf/model.safetensors"));
    for (const auto& [key, tensor] : theirs.tensors()) {
      EXPECT_EQ(ours.at(key).dtype, DType::bf16) << key;
      EXPECT_EQ(numbers_in(ours, key), numbers_in(theirs, key)) << key;
    }
  }
}

TEST_F(Golden, FileOfGguf) {
  const GgufReader file(kModels + "llama.gguf");
  const SafetensorsReader original(kModels + "llama/model.safetensors");
  EXPECT_EQ(file.values().at("llama.block_count").as_integer(""), 1);
  EXPECT_EQ(file.tensors().size(), original.tensors().size());
  EXPECT_EQ(numbers_in(file, "token_embd.weight"),
            numbers_in(original, "model.embed_tokens.weight"));
  EXPECT_EQ(numbers_in(file, "output_norm.weight"), numbers_in(original, "model.norm.weight"));
  EXPECT_NE(numbers_in(file, "blk.0.attn_q.weight"),
            numbers_in(original, "model.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(file.at("blk.0.ffn_up.weight").dtype_name, "q8_0");
  ConvertOptions options;
  options.load = kModels + "llama.gguf";
  options.save = scratch_.path("hf");
  options.saver = "hf";
  options.complete();
  convert_checkpoint(options, Log({.level = Log::Level::quiet}), [] {});
  const SafetensorsReader back(scratch_.path("hf/model.safetensors"));
  EXPECT_EQ(back.tensors().size(), original.tensors().size());
  for (const auto& [key, tensor] : original.tensors()) {
    const bool quantized = key.find(".mlp.") != std::string::npos;
    EXPECT_EQ(back.at(key).dtype, quantized ? DType::f32 : DType::bf16) << key;
    if (!quantized) {
      EXPECT_EQ(numbers_in(back, key), numbers_in(original, key)) << key;
    }
  }
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  const std::vector<float> found = numbers_in(back, up), exact = numbers_in(original, up);
  for (std::size_t row = 0; row < 32; ++row) {
    float largest = 0;
    for (std::size_t i = 32 * row; i < 32 * row + 32; ++i)
      largest = std::max(largest, std::fabs(exact[i]));
    for (std::size_t i = 32 * row; i < 32 * row + 32; ++i)
      EXPECT_NEAR(found[i], exact[i], largest / 220) << i;
  }
}

// The moments are 2 and 3 times the fp32 parameters.
TEST_F(Golden, RanksOfMegatronCore) {
  struct Case {
    const char* name;
    int states;  // 4 with the distributed optimizer
    const char* format = "torch";
  };
  for (const auto& [name, states, format] : {Case{"ranks", 4},
                                             {"ranks-mixtral", 4},
                                             {"ranks-mixtral-gemm", 4},
                                             {"ranks-t5", 3},
                                             {"ranks-t5-stages", 3},
                                             {"ranks-hybrid", 3},
                                             {"dp_zero_gather_scatter", 4, "torch_dist"},
                                             {"dp_reshardable", 4, "torch_dist"}}) {
    SCOPED_TRACE(name);
    ConvertOptions options;
    options.with_optimizer = true;
    const ConvertReport report = convert_golden(name, concat("core-", name), options);
    EXPECT_EQ(report.from, format);
    EXPECT_EQ(report.compared, states * report.rows);
    const MegatronCheckpoint checkpoint(scratch_.path(concat("core-", name, "/iter_0000007")));
    const DistReader& tensors = checkpoint.tensors();
    for (const auto& [key, tensor] : tensors.tensors()) {
      if (key.find("optimizer.") != std::string::npos || key.starts_with("lm_head.output_layer."))
        continue;  // T5Model has it under another name too
      const std::string master = concat("optimizer.state.fp32_param.", key);
      std::vector<float> parameter = numbers_in(tensors, states == 4 ? master : key);
      for (const auto& [moment, factor] : {std::pair("exp_avg.", 2.0F), {"exp_avg_sq.", 3.0F}}) {
        std::vector<float> expected = parameter;
        for (float& number : expected) number *= factor;
        EXPECT_EQ(numbers_in(tensors, concat("optimizer.state.", moment, key)), expected) << key;
      }
      if (key.ends_with("weight")) {
        EXPECT_NE(std::ranges::count(parameter, 0.0F), std::ssize(parameter)) << key;
      }
    }
  }
}

// Of the other specification norms lie elsewhere.
TEST_F(Golden, BucketsOfOtherModulesAreRefused) {
  for (const char* form : {"dp_zero_gather_scatter", "dp_reshardable"}) {
    const std::string folder = scratch_.path(form);
    std::filesystem::copy(std::string(MT_TESTDATA) + "/" + form, folder,
                          std::filesystem::copy_options::recursive);
    const std::string path = folder + "/iter_0000007/common.pt";
    PyValue common;
    {
      const MappedFile mapped(path);
      common = TorchReader(mapped.bytes(), path).value();
    }
    PyValue args = PyValue::dict();
    const std::vector<PyValue>& entries = common.at("args", "").entries("");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
      args.set_item(entries[i], entries[i] == PyValue("transformer_impl") ? "transformer_engine"
                                                                          : entries[i + 1]);
    common.set_item("args", PyValue::make(PyValue::global("argparse", "Namespace"), args));
    std::string file;
    TorchWriter().write(common, "common", [&](Bytes bytes) { file += as_text(bytes); });
    File::create(path).write(file);
    EXPECT_TRUE(error_of([&] {
                  open_model(folder, {.with_optimizer = true});
                }).ends_with("was it written with other buckets than args say?"));
    EXPECT_EQ(open_model(folder)->states().size(), 1u);
  }
}

}  // namespace
}  // namespace mt
