// Checkpoints as Megatron Bridge leaves them: torch_dist without args, and a run_config.yaml.
#include "formats/megatron/run_config.h"

#include <gtest/gtest.h>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/megatron_checkpoint.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

constexpr const char* kLlama = R"(checkpoint:
  ckpt_format: torch_dist
  save_rng: true
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  activation_func:
    _call_: false
    _target_: torch.nn.functional.silu
  add_bias_linear: false
  attention_dropout: 0.0
  autocast_dtype: &id001
    _call_: false
    _target_: torch.DTYPE
  bf16: true
  bias_activation_fusion: true
  ffn_hidden_size: FFN
  fp16: false
  gated_linear_unit: true
  hidden_dropout: 0.0
  hidden_size: HIDDEN
  kv_channels: CHANNELS
  layernorm_epsilon: EPSILON
  layernorm_zero_centered_gamma: false
  moe_router_score_function: softmax
  moe_router_pre_softmax: false
  normalization: RMSNorm
  num_attention_heads: HEADS
  num_layers: LAYERS
  num_moe_experts: null
  num_query_groups: GROUPS
  params_dtype: *id001
  position_embedding_type: rope
  rope_scaling: false
  rope_scaling_factor: 1.0
  rotary_base: 10000.0
  seq_length: POSITIONS
  share_embeddings_and_output_weights: false
  softmax_scale: null
  transformer_layer_spec:
    _call_: false
    _target_: megatron.bridge.models.gpt_provider.default_layer_spec
  vocab_size: 21
tokenizer:
  tokenizer_type: HuggingFaceTokenizer
)";

class RunConfig : public Convert {
 protected:
  void SetUp() override {
    config_ = config_named("llama");
    write_hugging_face(scratch_.path("hf"), config_, DType::bf16);
    ConvertOptions options;
    convert("hf", "bridge", "core", options);
    folder_ = find_checkpoint(scratch_.path("bridge"))->folder;
    forget_args();
    write(with_sizes(kLlama));
  }

  // Leaves what Bridge writes: neither args nor a manifest.
  void forget_args() const {
    PyValue common = PyValue::dict();
    {
      const MegatronCheckpoint checkpoint(folder_);
      const std::vector<PyValue>& entries = checkpoint.common().entries("");
      for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
        if (!(entries[i] == PyValue("args"))) common.set_item(entries[i], entries[i + 1]);
    }
    File file = File::create(folder_ + "/common.pt");
    TorchWriter().write(common, "common", [&](Bytes bytes) { file.write(as_text(bytes)); });
    std::filesystem::remove(concat(folder_, "/", kManifestName));
  }
  std::string with_sizes(std::string yaml) const {
    const auto put = [&](const std::string& name, const auto& value) {
      for (std::size_t at; (at = yaml.find(name)) != std::string::npos;)
        yaml.replace(at, name.size(), concat(value));
    };
    put("DTYPE", "bfloat16");
    put("FFN", config_.ffn());
    put("HIDDEN", config_.hidden_size);
    put("CHANNELS", config_.head_dim());
    put("EPSILON", config_.norm_epsilon);
    put("HEADS", config_.num_attention_heads);
    put("LAYERS", config_.num_layers);
    put("GROUPS", config_.kv_heads());
    put("POSITIONS", config_.max_position_embeddings);
    return yaml;
  }
  void write(const std::string& yaml) const {
    File::create(concat(folder_, "/", kRunConfig)).write(yaml);
  }
  // The settings of Bridge's, with one line in place of another.
  std::string changed(const std::string& line, const std::string& other) const {
    std::string yaml = with_sizes(kLlama);
    const std::size_t at = yaml.find(line);
    EXPECT_NE(at, std::string::npos) << line;
    return yaml.replace(at, line.size(), other);
  }
  std::string refusal(const std::string& yaml) const {
    write(yaml);
    const std::string line = error_of([&] { open_model(scratch_.path("bridge")); });
    const std::size_t at = line.find("yaml: ");
    return at == std::string::npos ? line : line.substr(at + 6, line.find("; Mega") - at - 6);
  }

  ModelConfig config_;
  std::string folder_;
};

TEST_F(RunConfig, TellsTheModel) {
  const auto source = open_model(scratch_.path("bridge"));
  ASSERT_EQ(source->notes().size(), 1U);
  EXPECT_NE(source->notes()[0].find("is of Megatron Bridge's"), std::string::npos);
  EXPECT_EQ(source->dtype(), DType::bf16);
  EXPECT_EQ(source->config().vocab_size, 21);
  ConvertOptions options;
  options.verify = true;
  convert("bridge", "back", "hf", options);
  EXPECT_EQ(read_file(scratch_.path("back/model.safetensors")),
            read_file(scratch_.path("hf/model.safetensors")));
  convert("bridge", "core", "core", options);  // has args
  EXPECT_TRUE(open_model(scratch_.path("core"))->notes().empty());
}

// What newer ones nest under `transformer`, with builders instead of classes.
TEST_F(RunConfig, OfBuildersIsRead) {
  std::string yaml = with_sizes(kLlama);
  const std::string target = "_target_: megatron.bridge.models.gpt_provider.GPTModelProvider\n";
  const std::size_t at = yaml.find(target), behind = at + target.size(),
                    end = yaml.find("tokenizer:");
  std::string inner = yaml.substr(behind, end - behind), nested;
  for (std::size_t begin = 0; begin < inner.size();) {
    const std::size_t line_end = inner.find('\n', begin) + 1;
    nested += "  " + inner.substr(begin, line_end - begin);
    begin = line_end;
  }
  const std::string activation =
      "activation_func:\n      _call_: false\n      _target_: torch.nn.functional.silu\n";
  nested.replace(nested.find(activation), activation.size(), "activation_func: silu\n");
  write(concat("model:\n  _builder_: megatron.bridge.models.gpt.gpt_builder.GPTModelBuilder\n",
               "  vocab_size: 21\n  transformer:\n", nested));
  EXPECT_EQ(open_model(scratch_.path("bridge"))->config().ffn(), config_.ffn());
}

TEST_F(RunConfig, ThatNoArgsDescribeIsRefused) {
  const auto with = [&](const char* line, const char* other) {
    return refusal(changed(line, other));
  };
  EXPECT_EQ(with("gpt_provider.GPTModelProvider", "gemma.gemma_provider.GemmaModelProvider"),
            "model._target_: is GemmaModelProvider, expected a plain GPT's: GPTModelProvider, or "
            "Llama's, Mistral's, Qwen 2's or 3's");
  EXPECT_EQ(with("softmax_scale: null", "softmax_scale: 0.25"),
            "model.softmax_scale: is set to what is not read");
  EXPECT_EQ(with("functional.silu", "functional.gelu"),
            "model.activation_func: is gelu in a gated unit, which is not read");
  EXPECT_EQ(with("gated_linear_unit: true", "gated_linear_unit: false"),
            "model.activation_func: is silu, which is not read");
  EXPECT_NE(with("rotary_base: 10000.0", "rotary_base: 0.5").find("--rotary-base 0.5: expected"),
            std::string::npos);
  EXPECT_EQ(with("moe_router_score_function: softmax", "moe_router_score_function: sigmoid"),
            "model.moe_router_score_function: is set to what is not read");
  EXPECT_NE(with("position_embedding_type: rope", "position_embedding_type: yarn").find("yarn"),
            std::string::npos);
  EXPECT_NE(refusal("checkpoint: {}\n").find("model"), std::string::npos);
  EXPECT_NE(refusal("model: [\n").find("while parsing a flow"), std::string::npos);
}

// Bridge's own tracker says which iteration counts, where Megatron's is not there.
TEST_F(RunConfig, IsFoundByBridgesTracker) {
  const auto track = [&](const PyValue& state, TorchWriter& writer) {
    File file = File::create(concat(scratch_.path("bridge/"), kTrainState));
    writer.write(state, "archive", [&](Bytes bytes) { file.write(as_text(bytes)); });
  };
  const auto step = [&](std::int64_t number) {
    TorchWriter writer;
    PyValue state = PyValue::dict();
    state.set_item("step", writer.tensor({&number, DType::i64, {}}));
    track(state, writer);
  };
  std::filesystem::remove(concat(scratch_.path("bridge/"), kTracker));
  std::filesystem::rename(folder_, iteration_folder(scratch_.path("bridge"), 7));
  step(7);
  EXPECT_EQ(find_checkpoint(scratch_.path("bridge"))->iteration, 7);
  EXPECT_EQ(open_model(scratch_.path("bridge"))->config().vocab_size, 21);
  step(8);
  EXPECT_NE(error_of([&] { find_checkpoint(scratch_.path("bridge")); }).find("does not exist"),
            std::string::npos);
  step(0);
  EXPECT_NE(error_of([&] { find_checkpoint(scratch_.path("bridge")); }).find("step is 0"),
            std::string::npos);
}

TEST(Nemo, IsCalledByItsName) {
  const Scratch scratch;
  const auto problem = [&](const std::string& path) {
    const std::string line = error_of([&] { open_model(path); });
    return line.substr(0, line.find(", which")).erase(3, scratch.path("").size());
  };
  std::filesystem::create_directories(scratch.path("two/context"));
  std::filesystem::create_directories(scratch.path("two/weights"));
  EXPECT_EQ(problem(scratch.path("two")),
            "78 two: is a checkpoint of NeMo 2 (context and weights)");
  std::filesystem::create_directories(scratch.path("one"));
  File::create(scratch.path("one/model_config.yaml")).write("a: 1\n");
  EXPECT_EQ(problem(scratch.path("one")), "78 one: is a model of NeMo 1 (model_config.yaml)");
  File::create(scratch.path("m.nemo")).write("tar");
  EXPECT_EQ(problem(scratch.path("m.nemo")),
            "78 m.nemo: is a model of NeMo 1 (an archive with model_config.yaml)");
}

}  // namespace
}  // namespace mt
