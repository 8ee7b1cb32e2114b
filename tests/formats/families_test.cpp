// Conversions of models that are more than one stack of equal layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ckpt/dist_checkpoint.h"
#include "formats/inspect.h"
#include "model/config/megatron_args.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

// A golden's first word of each line, and what follows it.
std::map<std::string, std::string> golden_keys(const std::string& name) {
  std::istringstream lines(read_file(std::string(MT_TESTDATA) + "/model/" + name + ".keys"));
  std::map<std::string, std::string> keys;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with('#'))
      keys[line.substr(0, line.find(' '))] = line.substr(std::min(line.find(' '), line.size()));
  return keys;
}

// Every tensor is there with its shape, no other is, and every object.
TEST_F(Convert, KeysAreThoseThatMegatronCoreAsksFor) {
  for (const char* name : {"t5", "t5_gated", "hybrid"}) {
    write_hugging_face(scratch_.path(concat("hf_", name)), config_named(name), DType::f32);
    convert(concat("hf_", name), name, "core");
    const DistReader reader(scratch_.path(concat(name, "/release")));
    std::map<std::string, std::string> expected = golden_keys(name);
    EXPECT_GT(expected.size(), 50u);
    for (const auto& [key, tensor] : reader.tensors()) {
      EXPECT_EQ(concat(' ', tensor.shape), expected[key]) << key;
      expected.erase(key);
    }
    for (const auto& [key, shape] : expected) EXPECT_TRUE(reader.objects().contains(key)) << key;
  }
}

// --- Plain distributed checkpoints --------------------------------------------------------------

class PlainDcp : public Convert, public testing::WithParamInterface<const char*> {
 protected:
  // Writes the tensors of a folder again, by the names that `rename` gives them, if any.
  void save_plain(const std::string& from, const std::string& to,
                  const std::function<std::string(const std::string&)>& rename,
                  const std::string& beside = {}) {
    fs::create_directory(scratch_.path(to));
    DistWriter writer(scratch_.path(to), 0);
    if (!beside.empty()) writer.add(beside, HostTensor(DType::f32, {1}));
    const auto tensors = open_tensors(scratch_.path(from));
    for (const auto& [key, tensor] : tensors->tensors()) {
      const HostTensor value(*tensor.dtype, tensor.shape);
      tensors->read_original(key, origin_of(tensor.shape.rank()), value);
      if (const std::string name = rename(key); !name.empty()) writer.add(name, value);
    }
    write_dist_metadata(scratch_.path(to), {writer.close()}, {.mcore_data = {}});
  }
};
INSTANTIATE_TEST_SUITE_P(Of, PlainDcp,
                         testing::Values("gpt2", "mixtral", "bert", "hybrid", "t5_gated"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(PlainDcp, IsWrittenAndRead) {
  write_hugging_face(scratch_.path("hf"), config_named(GetParam()), DType::f32);
  for (const char* spec : {"local", "transformer_engine"}) {
    ConvertOptions options;
    options.ckpt_format = "torch_dcp";
    options.transformer_impl = spec;
    options.verify = true;
    convert("hf", concat("dcp_", spec), "core", options);
    EXPECT_FALSE(fs::exists(scratch_.path(concat("dcp_", spec, "/release/common.pt"))));
    convert(concat("dcp_", spec), concat("back_", spec), "hf");
    for (const char* file : {"/model.safetensors", "/config.json"})
      EXPECT_EQ(content(concat("back_", spec, file)), content(concat("hf", file)));
  }
}

TEST_P(PlainDcp, OfStateDictsIsRead) {
  write_hugging_face(scratch_.path("hf"), config_named(GetParam()), DType::f32);
  ConvertOptions options;
  options.ckpt_format = "torch_dcp";
  convert("hf", "core", "core", options);
  save_plain("hf", "theirs", [](const std::string& name) { return name; });
  const auto nest = [](const std::string& name) { return "state.model." + name; };
  save_plain("hf", "nested", nest, "state.optimizer.0.exp_avg");
  save_plain("hf", "average", nest, "state.average.weight");
  save_plain("core", "ours", [](const std::string& key) { return "module." + key.substr(6); });
  EXPECT_EQ(
      error("ours", "out", "hf"),
      concat("65 ", scratch_.path("ours"),
             ": says nothing of the model's settings: has no object args and no config.json"));
  std::string verified;
  EXPECT_TRUE(verify_checkpoint({.path = scratch_.path("ours")},
                                [&](const std::string& line) { verified = line; }));
  EXPECT_EQ(verified.find("of the model"), std::string::npos) << verified;
  fs::copy(scratch_.path("hf/config.json"), scratch_.path("average/config.json"));
  const auto source = open_model(scratch_.path("average"));
  ASSERT_FALSE(source->notes().empty());
  EXPECT_EQ(source->notes().back(),
            concat(scratch_.path("average"),
                   ": passed over, beside the model below state.model.: state.average.weight"));
  ConvertOptions other;
  other.source.prefix = "state.teacher";
  EXPECT_EQ(error("average", "out", "hf", other),
            concat("65 ", scratch_.path("average"),
                   ": --prefix state.teacher: no model's names begin so; there are state.model."));
  for (const char* folder : {"theirs", "nested", "average", "ours"}) {
    fs::copy(scratch_.path("hf/config.json"), scratch_.path(concat(folder, "/config.json")),
             fs::copy_options::skip_existing);
    convert(folder, concat("back_", folder), "hf");
    EXPECT_EQ(content(concat("back_", folder, "/model.safetensors")),
              content("hf/model.safetensors"))
        << folder;
  }
}

// config.json may say of a Llama that its attention alone has biases, or its MLP.
TEST_F(PlainDcp, BiasesOfSomeLayersAlone) {
  ModelConfig model = config_named("llama");
  model.add_bias_linear = true;
  write_hugging_face(scratch_.path("hf"), model, DType::f32);
  ConvertOptions options;
  options.ckpt_format = "torch_dcp";
  convert("hf", "core", "core", options);
  for (const char* without : {"mlp", "self_attention"}) {
    save_plain("core", without, [&](const std::string& key) {
      const bool lacking =
          key.find(concat(".", without, ".linear")) != std::string::npos && key.ends_with(".bias");
      return lacking ? "" : key.substr(6);
    });
    const std::string member = concat('"', without[0] == 'm' ? "mlp" : "attention", "_bias\":");
    std::string json = content("hf/config.json");
    json.replace(json.find(member + "true"), member.size() + 4, member + "false");
    File::create(scratch_.path(concat(without, "/config.json"))).write(json);
    const auto source = open_model(scratch_.path(without));
    int zeros = 0;
    const ParamTable table = model_rows(source->config());
    for (const Param& row : table.rows()) {
      const HostTensor value(DType::f32, row.shape);
      source->read(row, "", value);
      zeros += std::ranges::all_of(value.span<float>(), [](float x) { return x == 0; });
    }
    EXPECT_EQ(zeros, 2 * source->config().num_layers) << without;
    EXPECT_EQ(error(without, concat("out_", without), "core"), "");
  }
}

TEST_F(PlainDcp, MustHoldTheModel) {
  write_hugging_face(scratch_.path("hf"), config_named("gpt2"), DType::f32);
  ConvertOptions options;
  options.ckpt_format = "torch_dcp";
  options.with_optimizer = true;
  EXPECT_EQ(error("hf", "core", "core", options),
            concat("65 ", scratch_.path("hf"), ": holds no optimizer state"));
  options.with_optimizer = false;
  convert("hf", "core", "core", options);
  const std::string ln = "decoder.final_layernorm.bias";
  const auto broken = [&](const std::string& folder, const std::string& name) {
    save_plain("core", folder,
               [&](const std::string& key) { return key.ends_with(ln) ? name : key.substr(6); });
    fs::copy(scratch_.path("hf/config.json"), scratch_.path(folder + "/config.json"));
    return error(folder, "out", "core");
  };
  EXPECT_EQ(
      broken("other", "decoder.norm.bias"),
      concat("65 ", scratch_.path("other"),
             ": tensor decoder.norm.bias has no place in the model that its settings describe"));
  EXPECT_EQ(broken("optimizer", "optimizer.state.exp_avg." + ln),
            concat("65 ", scratch_.path("optimizer"), ": has no tensor ", ln));
}

// --- Hybrids of Mamba-2 -------------------------------------------------------------------------

TEST(HybridPattern, IsTheOneOfMegatronCore) {
  std::istringstream lines(read_file(std::string(MT_TESTDATA) + "/model/hybrid_patterns.tsv"));
  std::string comment, pattern;
  std::getline(lines, comment);
  std::int64_t layers = 0;
  int cases = 0;
  for (double attention = 0, mlps = 0; lines >> layers >> attention >> mlps >> pattern; ++cases)
    EXPECT_EQ(hybrid_pattern_of(layers, attention, mlps), pattern) << attention << " " << mlps;
  EXPECT_EQ(cases, 48);
}

TEST(HybridPattern, IsReadFromSettings) {
  PyValue args = PyValue::dict();
  add_model_args(config_named("hybrid"), DType::f32, args);
  const auto config_of = [](const PyValue& settings) {
    return model_config_of(
        settings, [](const std::string&) { return false; }, "common.pt");
  };
  EXPECT_EQ(config_of(args).hybrid_pattern, "M*-M*");
  EXPECT_EQ(config_of(args).mamba_num_heads, 4);
  const auto with = [&](const char* pattern, double attention, double mlps) {
    PyValue other =
        PyValue::dict({{"hybrid_override_pattern", pattern ? PyValue(pattern) : PyValue()},
                       {"hybrid_attention_ratio", attention},
                       {"hybrid_mlp_ratio", mlps}});
    const std::vector<PyValue>& entries = args.entries("args");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
      if (other.find(entries[i].as_string("args")) == nullptr)
        other.set_item(entries[i], entries[i + 1]);
    return other;
  };
  EXPECT_EQ(config_of(with(nullptr, 0.2, 0.4)).hybrid_pattern, hybrid_pattern_of(5, 0.2, 0.4));
  PyValue of_experts = with("MM*E-", 0, 0);
  EXPECT_EQ(error_of([&] { config_of(of_experts); }),
            "65 common.pt: args: --hybrid-...-pattern MM*E-: a layer E needs --num-experts");
  of_experts.set_item("num_experts", 8);
  of_experts.set_item("moe_router_topk", 3);
  EXPECT_EQ(config_of(of_experts).num_experts, 8);
  EXPECT_EQ(config_of(of_experts).moe_router_topk, 3);
  PyValue of_main = with(nullptr, 0, 0);  // whose args say it in another word, and stages, too
  of_main.set_item("hybrid_layer_pattern", "MM|*-M/*M/*M");
  of_main.set_item("is_hybrid_model", PyValue());
  of_main.set_item("mtp_num_layers", 2);
  EXPECT_EQ(config_of(of_main).hybrid_pattern, "MM*-M");
  EXPECT_EQ(config_of(of_main).mtp_hybrid_pattern, "*M");
  EXPECT_EQ(error_of([&] { config_of(with(nullptr, 0.7, 0.6)); }),
            "65 common.pt: args.hybrid_mlp_ratio: is set to what is not supported");
  EXPECT_EQ(error_of([&] { config_of(with("MM", 0, 0)); }),
            "65 common.pt: args: --hybrid-...-pattern MM: has 2 layers, expected 5");
}

TEST(HybridPattern, IsReadFromConfigs) {
  const std::string json = hugging_face_config(config_named("hybrid"), DType::bf16, "");
  const auto with = [&](const std::string& layers) {
    std::string other = json;
    const std::string pattern = R"("hybrid_override_pattern":"M*-M*")";
    other.replace(other.find(pattern), pattern.size(), layers);
    return parse_hugging_face_config(other, "config.json").model.hybrid_pattern;
  };
  EXPECT_EQ(with(R"("hybrid_override_pattern":"-M")"), "-M");
  EXPECT_EQ(with(R"("layers_block_type":["mlp","linear_attention","full_attention"])"), "-M*");
  EXPECT_EQ(with(R"("layers_block_type":["mamba","attention"])"), "M*");
  EXPECT_EQ(with(R"("layers_block_type":["moe","mamba"])"), "EM");
  EXPECT_EQ(error_of([&] { with(R"("layers_block_type":["conv"])"); }),
            "65 config.json: \"layers_block_type\" has \"conv\", which is not supported");
  ModelConfig rope = config_named("hybrid");
  rope.position_embedding_type = "rope";
  EXPECT_EQ(
      error_of([&] { hugging_face_config(rope, DType::f32, ""); }),
      "78 Mamba layers without --position-embedding-type none: no model of transformers has that");
}

TEST(HybridPattern, WithoutMixersHasSizesThatTransformersComputesWith) {
  ModelConfig c = config_named("granitemoehybrid_attention");
  c.mamba_num_heads = 0;
  const auto has = [](const std::string& json, const char* member) {
    return json.find(member) != json.npos;
  };
  const std::string granite = hugging_face_config(c, DType::f32, "");
  for (const char* member : {R"("mamba_n_heads":1,)", R"("mamba_d_head":32,)",
                             R"("mamba_n_groups":1,)", R"("mamba_expand":2,)"})
    EXPECT_TRUE(has(granite, member)) << member << " " << granite;
  ModelConfig nemotron = config_named("hybrid");
  nemotron.hybrid_pattern = "*-*-*";
  nemotron.mamba_num_heads = 0;
  const std::string other = hugging_face_config(nemotron, DType::f32, "");
  for (const char* member : {R"("mamba_num_heads":1,)", R"("mamba_head_dim":32,)"})
    EXPECT_TRUE(has(other, member)) << member << " " << other;
}

// Transformers turns half of a Bamba's channels, and all of a Granite's.
TEST(HybridPattern, SaysHowManyChannelsTurn) {
  ModelConfig c = config_named("bamba");
  c.rotary_percent = 1;
  const std::string json = hugging_face_config(c, DType::f32, "");
  EXPECT_NE(json.find(R"("model_type":"granitemoehybrid")"), json.npos) << json;
  EXPECT_EQ(parse_hugging_face_config(json, "config.json").model.rotary_percent, 1);
  c.rotary_percent = 0.25;
  EXPECT_NE(error_of([&] { hugging_face_config(c, DType::f32, ""); }).find("plain rotary"),
            std::string::npos);
}

TEST(HybridPattern, HeadsOfMixersAreAtLeastOne) {
  for (const auto& [name, member] :
       {std::pair{"bamba", "mamba_n_heads"}, {"hybrid", "mamba_num_heads"}}) {
    std::string json = hugging_face_config(config_named(name), DType::f32, "");
    const std::string heads = concat("\"", member, "\":4"), size = R"("mamba_d_head":8)";
    json.replace(json.find(heads), heads.size(), concat("\"", member, "\":0"));
    if (const std::size_t at = json.find(size); at != json.npos)
      json.replace(at, size.size(), R"("mamba_d_head":"auto")");
    EXPECT_EQ(error_of([&] { parse_hugging_face_config(json, "config.json"); }),
              concat("65 config.json: \"", member, "\" is 0, expected at least 1"));
  }
}

// Whatever a checkpoint of main had said, of other stages say, is not what this one has.
TEST(HybridPattern, OfMainIsNoneWhereLettersOfCoreSayIt) {
  PyValue args = PyValue::dict();
  add_model_args(config_named("hybrid"), DType::f32, args);
  ASSERT_NE(args.find("hybrid_layer_pattern"), nullptr);
  EXPECT_TRUE(args.find("hybrid_layer_pattern")->is_none());
}

// --- T5 -----------------------------------------------------------------------------------------

// Queries are divided by sqrt(4) elsewhere, the decoder's output by sqrt(16).
TEST_F(Convert, T5IsScaledAsMegatronComputes) {
  write_hugging_face(scratch_.path("hf"), config_named("t5"), DType::f32);
  convert("hf", "core", "core");
  const auto theirs = open_tensors(scratch_.path("hf")), ours = open_tensors(scratch_.path("core"));
  const auto compare = [&](const char* name, const Shape& at, const char* key, const Shape& there,
                           double factor) {
    std::vector<std::int64_t> one(static_cast<std::size_t>(there.rank()), 1);
    const HostTensor a(DType::f32, at.rank() == 1 ? Shape{1} : Shape{1, 1}),
        b(DType::f32, Shape(std::span<const std::int64_t>(one)));
    theirs->read_original(name, at, a);
    ours->read_original(key, there, b);
    EXPECT_EQ(element(a, 0) * factor, element(b, 0)) << key;
  };
  const char *qkv = "decoder.layers.self_attention.linear_qkv.weight",
             *kv = "decoder.layers.cross_attention.linear_kv.weight";
  compare("decoder.block.1.layer.0.SelfAttention.q.weight", {6, 3}, qkv, {1, 14, 3}, 2);
  compare("decoder.block.1.layer.0.SelfAttention.k.weight", {6, 3}, qkv, {1, 18, 3}, 1);
  compare("decoder.block.2.layer.1.EncDecAttention.q.weight", {6, 3},
          "decoder.layers.cross_attention.linear_q.weight", {2, 6, 3}, 2);
  compare("decoder.block.2.layer.1.EncDecAttention.k.weight", {6, 3}, kv, {2, 10, 3}, 1);
  compare("decoder.block.2.layer.1.EncDecAttention.v.weight", {6, 3}, kv, {2, 14, 3}, 1);
  compare("decoder.final_layer_norm.weight", {5}, "decoder.final_layernorm.weight", {5}, 0.25);
  compare("encoder.final_layer_norm.weight", {5}, "encoder.final_layernorm.weight", {5}, 1);
}

TEST_F(Convert, T5ThatWouldBeAnotherIsRefused) {
  const auto parse = [&](const std::string& members) {
    return error_of([&] {
      parse_hugging_face_config(
          R"({"model_type":"t5","num_layers":2,"num_heads":4,"d_ff":8,"vocab_size":9,)" + members +
              "}",
          "config.json");
    });
  };
  EXPECT_EQ(
      parse(R"("d_model":64,"d_kv":128)"),
      "65 config.json: \"d_kv\" is 128, and scores of attention differ between T5 and Megatron "
      "by its square root, which is no power of two: weights would be rounded");
  EXPECT_EQ(parse(R"("d_model":512,"d_kv":64)").substr(0, 33),
            "65 config.json: \"d_model\" is 512,");
  EXPECT_EQ(parse(R"("d_model":512,"d_kv":64,"tie_word_embeddings":false)"), "");
  EXPECT_EQ(parse(R"("d_model":64,"d_kv":64,"feed_forward_proj":"gated-relu")"),
            "65 config.json: \"feed_forward_proj\" is \"gated-relu\", expected \"gelu\"");
  ModelConfig absolute = config_named("t5");
  absolute.position_embedding_type = "learned_absolute";
  EXPECT_EQ(error_of([&] { hugging_face_config(absolute, DType::f32, ""); }),
            "78 T5 without --position-embedding-type relative: no model of transformers has that");
}

// Megatron's head has the erf form of GeLU, whatever its layers have; transformers has one for
// both.
TEST_F(Convert, BertThatTransformersHasNotIsRefused) {
  ModelConfig fused = config_named("bert");
  fused.bias_gelu_fusion = true;
  EXPECT_EQ(
      error_of([&] { hugging_face_config(fused, DType::f32, ""); }),
      "78 BERT without --no-bias-gelu-fusion, which has one GeLU in its layers and another in "
      "its head: no model of transformers has that");
  ModelConfig one_text = config_named("bert");
  one_text.bert_binary_head = false;
  EXPECT_EQ(error_of([&] { hugging_face_config(one_text, DType::f32, ""); }),
            "78 BERT without a binary head and types of tokens: no model of transformers has that");
  write_hugging_face(scratch_.path("hf"), config_named("bert"), DType::f32);
  std::string config = content("hf/config.json");
  const std::string plain = R"("hidden_act":"gelu")";
  const std::size_t at = config.find(plain);
  ASSERT_NE(at, std::string::npos) << config;
  config.replace(at, plain.size(), R"("hidden_act":"gelu_new")");
  File::create(scratch_.path("hf/config.json")).write(config);
  EXPECT_NE(error("hf", "core", "core").find(R"("hidden_act" is "gelu_new", expected "gelu")"),
            std::string::npos);
}

TEST_F(Convert, BiasOfT5sOutputIsZeroForHuggingFace) {
  write_hugging_face(scratch_.path("hf"), config_named("t5"), DType::f32);
  convert("hf", "core", "core");
  const std::string folder = scratch_.path("core/release"), key = "output_layer.bias";
  const ItemPlace place = DistReader(folder).at(key).chunks.front().place;
  std::string bytes = read_file(folder + "/" + place.file);
  fs::remove(folder + "/mt-manifest.json");
  for (std::uint64_t at = place.offset; at < place.offset + place.length; ++at)
    if (bytes.substr(at, 8) == std::string(8, '\0') && at % 64 == place.offset % 64) {
      bytes[at] = 1;
      break;
    }
  std::ofstream(folder + "/" + place.file, std::ios::binary) << bytes;
  EXPECT_EQ(error("core", "back", "hf"),
            "78 lm_head." + key + ": is not zero, and has no place in Hugging Face's model");
}

}  // namespace
}  // namespace mt
