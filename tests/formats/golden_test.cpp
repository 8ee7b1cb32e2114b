// Models as other programs saved them (testdata/models, testdata/ranks*).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ckpt/gguf.h"
#include "ckpt/megatron_checkpoint.h"
#include "ckpt/safetensors.h"
#include "formats/differences.h"
#include "formats/inspect.h"
#include "tests/formats/convert_support.h"

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
                                             {"dp_reshardable", 4, "torch_dist"},
                                             {"dp_reshardable-mixtral", 4, "torch_dist"},
                                             {"fully_sharded_bucket_space", 4, "torch_dist"}}) {
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

// Between a bucket's parameters lies whatever was in memory, here NaNs.
TEST_F(Golden, GapsOfBucketsDoNotCount) {
  const std::string folder = std::string(MT_TESTDATA) + "/fully_sharded_bucket_space";
  std::vector<std::string> lines;
  const PrintLine keep = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_TRUE(verify_checkpoint({.path = folder}, keep));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].ends_with("all of the model's 15, all finite")) << lines[0];
  lines.clear();
  ConvertOptions options;
  options.with_optimizer = true;
  convert_golden("fully_sharded_bucket_space", "core", options);
  EXPECT_FALSE(print_differences({.path = folder}, scratch_.path("core"), 0, keep))
      << lines.front();
}

// As the main branch has them: each state like the weight, whatever INPUT's form.
TEST_F(Golden, WithoutCommonFileBucketsAreReshardable) {
  ConvertOptions options;
  options.with_optimizer = options.no_common_file = true;
  options.target_expert_parallel = 2;
  convert_golden("dp_reshardable-mixtral", "core", options);
  const MegatronCheckpoint checkpoint(scratch_.path("core/iter_0000007"));
  const std::string key = "decoder.layers.mlp.experts.experts.linear_fc1.weight";
  EXPECT_EQ(checkpoint.tensors().at("optimizer.state.param." + key).own_shape(),
            checkpoint.tensors().at(key).own_shape());
  EXPECT_EQ(checkpoint.common().at("content_metadata", "").at("distrib_optim_sharding_type", ""),
            PyValue("fully_reshardable"));
  EXPECT_EQ(checkpoint.common().at("optimizer", "").entries("").size(), 4u);  // a chain of two
  std::vector<std::string> lines;
  EXPECT_FALSE(print_differences({.path = std::string(MT_TESTDATA) + "/dp_reshardable-mixtral"},
                                 scratch_.path("core"), 0,
                                 [&](const std::string& line) { lines.push_back(line); }))
      << lines.front();
}

// A rank's, in an object beside the buckets.
TEST_F(Golden, ScalersOfBucketsTravel) {
  ConvertOptions options;
  options.with_optimizer = true;
  convert_golden("dp_reshardable-mixtral", "core", options);
  const MegatronCheckpoint checkpoint(scratch_.path("core/iter_0000007"));
  const PyValue scaler = checkpoint.common().at("optimizer", "").at("grad_scaler", "");
  const HostTensor scale(DType::f32, {1});
  checkpoint.read_common_tensor(scaler.at("scale", ""), scale);
  EXPECT_EQ(scale.view().as<float>()[0], 4096);
  EXPECT_EQ(scaler.at("growth_tracker", ""), PyValue(5));
}

class OtherArgs : public Golden {
 protected:
  // Of a golden with another value of one of its args, None for none.
  std::string error_with(const std::string& golden, const std::string& name, const PyValue& value) {
    const std::string folder = scratch_.path(golden + name);
    std::filesystem::copy(std::string(MT_TESTDATA) + "/" + golden, folder,
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
      if (!(entries[i] == PyValue(name))) args.set_item(entries[i], entries[i + 1]);
    if (!value.is_none()) args.set_item(name, value);
    common.set_item("args", PyValue::make(PyValue::global("argparse", "Namespace"), args));
    std::string file;
    TorchWriter().write(common, "common", [&](Bytes bytes) { file += as_text(bytes); });
    File::create(path).write(file);
    EXPECT_EQ(open_model(folder)->states().size(), 1u);
    const std::string error = error_of([&] { open_model(folder, {.with_optimizer = true}); });
    std::filesystem::remove_all(folder);
    return error;
  }
};

constexpr const char* kOtherBuckets = "was it written with other buckets than args say?";

// Of the other specification norms lie elsewhere.
TEST_F(OtherArgs, OfOtherModulesAreRefused) {
  for (const char* form :
       {"dp_zero_gather_scatter", "dp_reshardable", "fully_sharded_bucket_space"}) {
    const std::string error = error_with(form, "transformer_impl", "transformer_engine");
    EXPECT_TRUE(error.ends_with(kOtherBuckets)) << error;
  }
}

TEST_F(OtherArgs, OfOtherExpertsAreRefused) {
  const auto error = [&](const char* name, const PyValue& value) {
    return error_with("dp_reshardable-mixtral", name, value);
  };
  // Without this one experts' ranks would be counted as up to core_v0.9.0.
  EXPECT_TRUE(error("expert_tensor_parallel_size", {}).ends_with(kOtherBuckets));
  EXPECT_TRUE(error("moe_grouped_gemm", false).ends_with(kOtherBuckets));
  EXPECT_TRUE(error("pipeline_model_parallel_layout", "E|ttL").ends_with(kOtherBuckets));
  EXPECT_TRUE(
      error("expert_tensor_parallel_size", 2)
          .ends_with("args.expert_tensor_parallel_size: experts have other tensor ranks than all "
                     "else, of which it is not read"));
}

}  // namespace
}  // namespace mt
