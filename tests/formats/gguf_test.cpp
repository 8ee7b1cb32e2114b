// Models into GGUF files.
#include "ckpt/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "formats/gguf/gguf_mixture.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/model_sink.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

// What of a GGUF file a test looks at: numbers and texts of its key-values, and its tensors.
struct Gguf {
  struct Stored {
    std::vector<std::uint64_t> extents;  // the last axis first
    std::uint32_t type = 0;
    std::string_view data;  // from its first element on
  };

  explicit Gguf(const std::string& path) : content(read_file(path)) {
    EXPECT_EQ(content.substr(0, 4), "GGUF");
    at = 8;
    const auto tensors_count = take<std::uint64_t>(), count = take<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string key = text();
      values[key] = value(take<std::uint32_t>());
    }
    std::map<std::string, std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < tensors_count; ++i) {
      const std::string name = text();
      Stored& stored = tensors[name];
      stored.extents.resize(take<std::uint32_t>());
      for (std::uint64_t& extent : stored.extents) extent = take<std::uint64_t>();
      stored.type = take<std::uint32_t>();
      offsets[name] = take<std::uint64_t>();
    }
    const std::size_t begin = (at + 31) / 32 * 32;
    for (auto& [name, stored] : tensors)
      stored.data = std::string_view(content).substr(begin + offsets.at(name));
  }

  template <class T>
  T take() {
    T found{};
    std::memcpy(&found, content.data() + at, sizeof found);
    at += sizeof found;
    return found;
  }
  std::string text() {
    const auto size = take<std::uint64_t>();
    at += size;
    return content.substr(at - size, size);
  }
  std::string value(std::uint32_t type) {
    if (type == 4) return std::to_string(take<std::uint32_t>());
    if (type == 5) return std::to_string(take<std::int32_t>());
    if (type == 6) return concat(take<float>());
    if (type == 7) return take<std::uint8_t>() != 0 ? "true" : "false";
    if (type == 8) return text();
    const auto element = take<std::uint32_t>();
    const auto count = take<std::uint64_t>();
    std::string all;
    for (std::uint64_t i = 0; i < count; ++i) all += concat(i == 0 ? "" : "|", value(element));
    return all;
  }

  std::string content;
  std::size_t at = 0;
  std::map<std::string, std::string> values;
  std::map<std::string, Stored> tensors;
};

class Gg : public Convert {
 protected:
  Gguf made(const std::string& family, const std::string& dtype, DType stored = DType::bf16) {
    write_hugging_face(scratch_.path("hf"), config_named(family), stored);
    ConvertOptions options;
    options.dtype = dtype;
    options.force = true;
    convert("hf", "out", "gguf", options);
    return Gguf(scratch_.path("out/model.gguf"));
  }
  std::vector<float> original(const std::string& name) {
    const SafetensorsReader reader(scratch_.path("hf/model.safetensors"));
    const Shape shape = reader.at(name).shape;
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    reader.read_original(name, origin_of(shape.rank()), {values.data(), DType::f32, shape});
    return values;
  }
};

std::vector<float> floats(const Gguf::Stored& stored, std::size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), stored.data.data(), count * sizeof(float));
  return values;
}

TEST_F(Gg, SettingsAreTheModels) {
  const Gguf file = made("mistral", "");
  for (const auto& [key, value] : {std::pair("general.architecture", "llama"),
                                   {"general.file_type", "32"},
                                   {"llama.block_count", "2"},
                                   {"llama.embedding_length", "16"},
                                   {"llama.feed_forward_length", "40"},
                                   {"llama.vocab_size", "21"},
                                   {"llama.context_length", "4"},  // its window
                                   {"llama.attention.head_count", "4"},
                                   {"llama.attention.head_count_kv", "2"},
                                   {"llama.attention.key_length", "4"},
                                   {"llama.rope.freq_base", "10000"},
                                   {"tokenizer.ggml.model", "no_vocab"}})
    EXPECT_EQ(file.values.at(key), value) << key;
  EXPECT_EQ(file.tensors.size(), 21U);
  ConvertOptions plan;
  plan.load = scratch_.path("hf");
  plan.save = scratch_.path("new");
  plan.saver = "gguf";
  EXPECT_NE(describe_conversion(plan).find(
                "decoder.layers.1.mlp.linear_fc1.weight  bfloat16 [80, 16]  blk.1.ffn_gate.weight  "
                "blk.1.ffn_up.weight\n"),
            std::string::npos);
  EXPECT_EQ(file.tensors.at("token_embd.weight").extents, (std::vector<std::uint64_t>{16, 21}));
}

// Channel i of a head's queries stands beside channel i + d / 2 for Llama, as it was for Qwen.
TEST_F(Gg, RotatedChannelsStandSideBySide) {
  Gguf file = made("llama", "fp32");
  const std::vector<float> theirs = original("model.layers.1.self_attn.q_proj.weight");
  const std::vector<float> ours = floats(file.tensors.at("blk.1.attn_q.weight"), theirs.size());
  const std::size_t rows[] = {0, 2, 1, 3}, h = 16;  // d = 4
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t i = 0; i < h; ++i)
      EXPECT_EQ(ours[row * h + i], theirs[(row / 4 * 4 + rows[row % 4]) * h + i]);
  EXPECT_EQ(floats(file.tensors.at("blk.1.attn_v.weight"), 8 * h),
            original("model.layers.1.self_attn.v_proj.weight"));
  Gguf qwen = made("qwen2", "fp32");
  EXPECT_EQ(floats(qwen.tensors.at("blk.0.attn_q.weight"), 16 * h),
            original("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(floats(qwen.tensors.at("blk.0.attn_k.bias"), 8),
            original("model.layers.0.self_attn.k_proj.bias"));
}

TEST_F(Gg, MatricesOfGpt2AreTransposed) {
  const Gguf file = made("gpt2", "fp32");
  EXPECT_EQ(file.values.at("general.architecture"), "gpt2");
  const Gguf::Stored& stored = file.tensors.at("blk.0.attn_qkv.weight");
  EXPECT_EQ(stored.extents, (std::vector<std::uint64_t>{16, 48}));
  const std::vector<float> ours = floats(stored, 16 * 48),
                           theirs = original("transformer.h.0.attn.c_attn.weight");
  for (std::size_t out = 0; out < 48; ++out)
    for (std::size_t in = 0; in < 16; ++in) EXPECT_EQ(ours[out * 16 + in], theirs[in * 48 + out]);
}

TEST_F(Gg, TypesOfMatricesVectorsAndShortRows) {
  for (const auto& [dtype, file_type, matrix] :
       {std::tuple("fp32", "0", 0U), {"fp16", "1", 1U}, {"bf16", "32", 30U}, {"q8_0", "7", 1U}}) {
    const Gguf file = made("gpt2", dtype);
    EXPECT_EQ(file.values.at("general.file_type"), file_type);
    EXPECT_EQ(file.tensors.at("blk.0.attn_output.weight").type, matrix) << dtype;  // rows of 16
    EXPECT_EQ(file.tensors.at("blk.0.ffn_down.weight").type,
              std::string(dtype) == "q8_0" ? 8U : matrix);
    EXPECT_EQ(file.tensors.at("blk.0.attn_norm.weight").type, 0U);
    EXPECT_EQ(file.tensors.at("position_embd.weight").type, 0U);
  }
}

TEST_F(Gg, Llama31SlowsItsChannels) {
  const Gguf file = made("scaled", "");
  const std::vector<float> factors = floats(file.tensors.at("rope_freqs.weight"), 2);
  EXPECT_EQ(factors[0], 1);  // turns once in 6 tokens, and once in 4443: longer than 2048
  EXPECT_GT(factors[1], 1);
  EXPECT_LT(factors[1], 8);
}

TEST_F(Gg, WhatIsWrittenIsReadBack) {
  for (const char* family : {"gpt2", "llama", "tied", "qwen3", "mixtral", "qwen2_moe", "scaled"})
    for (const char* dtype : {"", "fp32", "q8_0"}) {
      ModelConfig config = config_named(family);
      config.hidden_size = 32;
      config.kv_channels = 8;
      config.ffn_hidden_size = 64;
      write_hugging_face(scratch_.path("read-back"), config, DType::f16);
      ConvertOptions options;
      options.dtype = dtype;
      options.verify = options.force = true;
      const ConvertReport report = convert("read-back", "gguf-back", "gguf", options);
      EXPECT_EQ(report.compared, report.rows) << family << dtype;
    }
}

// Types of llama.cpp's llama_tensor_get_type; layers, heads and experts as the rules ask.
TEST(GgufMixtures, ImportantTensorsHaveMoreBits) {
  ModelConfig config = config_named("llama");
  config.num_layers = 32;
  config.num_attention_heads = 32;
  config.num_query_groups = 8;
  config.untie_embeddings_and_output_weights = true;
  std::string_view architecture = "llama";
  const auto type = [&](const char* mixture, const std::string& tensor,
                        std::int64_t columns = 4096) {
    return name_of(
        gguf_type(*gguf_mixture(mixture), config, architecture, tensor + ".weight", columns));
  };
  const auto layers = [&](const char* mixture, const char* tensor) {
    std::string bits;
    for (int layer = 0; layer < 32; ++layer)
      bits += type(mixture, concat("blk.", layer, ".", tensor))[1];
    return bits;
  };
  EXPECT_EQ(layers("q4_k_m", "attn_v"), "66664464464464464464464464466666");
  EXPECT_EQ(layers("q5_k_m", "ffn_down"), "66665565565565565565565565566666");
  EXPECT_EQ(layers("q4_k_s", "attn_v"), "55554444444444444444444444444444");
  EXPECT_EQ(layers("q4_k_s", "ffn_down"), "55554444444444444444444444444444");
  EXPECT_EQ(layers("q3_k_m", "attn_v"), "55444444444444444444444444444444");
  EXPECT_EQ(layers("q3_k_m", "ffn_down"), "55444444444444444444444444444444");
  EXPECT_EQ(layers("q3_k_l", "attn_output"), std::string(32, '5'));
  EXPECT_EQ(layers("q2_k", "attn_v"), std::string(32, '4'));
  EXPECT_EQ(layers("q6_k", "ffn_down"), std::string(32, '6'));
  for (const auto& [mixture, tensor, expected] : {std::tuple("q4_k_m", "blk.9.ffn_up", "q4_k"),
                                                  {"q4_k_m", "output", "q6_k"},
                                                  {"q4_k_m", "token_embd", "q4_k"},
                                                  {"q4_k_m", "blk.0.attn_qkv", "q6_k"},
                                                  {"q5_k_m", "blk.5.attn_qkv", "q5_k"},
                                                  {"q3_k_m", "blk.9.attn_output", "q4_k"},
                                                  {"q3_k_s", "blk.0.attn_v", "q3_k"},
                                                  {"q2_k", "blk.9.attn_output", "q3_k"},
                                                  {"q2_k", "blk.9.ffn_down", "q3_k"},
                                                  {"q4_0", "output", "q6_k"},
                                                  {"q5_1", "blk.0.attn_v", "q5_1"},
                                                  {"q8_0", "output", "q8_0"}})
    EXPECT_EQ(type(mixture, tensor), expected) << mixture << " " << tensor;
  for (const auto& [mixture, expected] : {std::pair("q2_k", "q4_0"),
                                          {"q3_k_s", "q4_0"},
                                          {"q4_k_s", "q5_0"},
                                          {"q5_k_s", "q5_1"},
                                          {"q6_k", "q8_0"}})
    EXPECT_EQ(type(mixture, "blk.9.ffn_up", 4096 + 32), expected) << mixture;
  architecture = "falcon";
  EXPECT_EQ(layers("q4_k_m", "ffn_down"), "66554454454454454454454454455555");
  EXPECT_EQ(layers("q3_k_m", "ffn_down"), "55443343343343343343343343344444");
  EXPECT_EQ(type("q4_k_m", "output"), "q8_0");
  EXPECT_EQ(type("q2_k", "blk.9.attn_output"), "q2_k");
  architecture = "gpt-oss";
  EXPECT_EQ(type("mxfp4", "blk.9.ffn_up_exps"), "mxfp4");
  EXPECT_EQ(type("mxfp4", "blk.9.attn_q"), "q8_0");
  EXPECT_EQ(type("mxfp4", "output"), "q8_0");
  architecture = "llama";
  config.num_query_groups = 16;
  EXPECT_EQ(type("q2_k", "blk.9.attn_v"), "q3_k");
  config.untie_embeddings_and_output_weights = false;
  EXPECT_EQ(type("q4_k_m", "token_embd"), "q6_k");
  config.num_experts = 8;
  EXPECT_EQ(type("q4_k_m", "blk.9.attn_v"), "q8_0");
  EXPECT_EQ(type("q4_k_m", "blk.9.attn_k"), "q8_0");
  EXPECT_EQ(type("q4_k_m", "blk.9.attn_output"), "q5_k");
  EXPECT_EQ(type("q3_k_l", "blk.9.attn_output"), "q3_k");
  config.num_experts = 0;
  config.num_layers = 80;
  for (const char* mixture : {"q2_k", "q3_k_s", "q3_k_m", "q4_k_s"})
    EXPECT_EQ(type(mixture, "blk.41.attn_v"), "q5_k") << mixture;
  EXPECT_EQ(type("q4_0", "blk.41.attn_v"), "q4_0");
  config.num_query_groups = 32;  // Llama 1's 65B
  EXPECT_EQ(type("q4_k_s", "blk.41.attn_v"), "q4_k");
  EXPECT_EQ(gguf_mixture("q9_k"), nullptr);
}

TEST_F(Gg, WhatWasNotWrittenIsFound) {
  ModelConfig config = config_named("llama");
  config.hidden_size = 32;
  config.ffn_hidden_size = 64;
  config.kv_channels = 8;
  write_hugging_face(scratch_.path("hf"), config, DType::f32);
  const auto source = open_model(scratch_.path("hf"));
  const ParamTable table = model_rows(source->config());
  for (const char* dtype : {"fp32", "q8_0", "q4_k_m"}) {
    ConvertOptions options;
    options.dtype = dtype;
    options.force = true;
    convert("hf", "gguf", "gguf", options);
    const ModelTarget target{.path = scratch_.path("gguf"),
                             .source = *source,
                             .config = source->config(),
                             .dtype = DType::f32,
                             .mixture = gguf_mixture(dtype)};
    const std::string path = scratch_.path("gguf/model.gguf");
    const auto place = GgufReader(path).at("blk.1.attn_q.weight").chunks[0].place;
    const auto compare = [&] {
      const GgufReader file(path);
      check_gguf_tensors(target, table, file);
      for (const Param& row : table.rows()) {
        const HostTensor value(DType::f32, row.shape);
        source->read(row, "", value.view());
        compare_with_gguf(target, file, row, value.view());
      }
    };
    EXPECT_EQ(error_of(compare), "");
    std::string content = read_file(path);
    content[place.offset + 7] ^= 0x40;
    File::create(path).write(content);
    EXPECT_EQ(error_of(compare).substr(0, 2), "1 ");
    content.replace(content.find("blk.1.attn_q.weight"), 5, "blk.9");
    File::create(path).write(content);
    EXPECT_NE(error_of(compare).find("blk.9.attn_q.weight: is none of the model's"),
              std::string::npos);
  }
}

// Parts need not end where a tensor may begin.
TEST_F(Gg, PartsAreWrittenInAnyOrder) {
  const std::string path = scratch_.path("parts.gguf");
  GgufWriter writer(path, {}, {{"parts", GgufType::q8_0, {3, 1, 32}}, {"b", GgufType::f32, {8}}});
  const HostTensor part(DType::f32, {1, 32}), b(DType::f32, {8});
  fill_with(b, [](std::int64_t i) { return static_cast<double>(i); });
  writer.write("b", b.view());
  for (const std::int64_t i : {2, 0, 1}) {
    fill_with(part, [&](std::int64_t) { return static_cast<double>(i + 1); });
    writer.write_part("parts", i, part.view());
  }
  writer.close();
  const GgufReader reader(path);
  const HostTensor parts(DType::f32, {3, 1, 32});
  reader.read_original("parts", {0, 0, 0}, parts.view());
  for (std::int64_t i = 0; i < 96; ++i)
    EXPECT_NEAR(parts.view().as<float>()[i], static_cast<float>(i / 32 + 1), 2e-3);
  reader.read_original("b", {0}, b.view());
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(b.view().as<float>()[i], static_cast<float>(i));
}

// A tensor has all experts, one after another, and routers are float32.
TEST_F(Gg, ExpertsLieInOneTensor) {
  const Gguf file = made("qwen2_moe", "");
  for (const auto& [key, value] : {std::pair("general.architecture", "qwen2moe"),
                                   {"qwen2moe.feed_forward_length", "40"},
                                   {"qwen2moe.expert_count", "3"},
                                   {"qwen2moe.expert_used_count", "2"},
                                   {"qwen2moe.expert_feed_forward_length", "40"},
                                   {"qwen2moe.expert_shared_feed_forward_length", "24"}})
    EXPECT_EQ(file.values.at(key), value) << key;
  const auto& down = file.tensors.at("blk.1.ffn_down_exps.weight");
  EXPECT_EQ(down.extents, (std::vector<std::uint64_t>{40, 16, 3}));
  EXPECT_EQ(down.type, 30U);
  EXPECT_EQ(file.tensors.at("blk.0.ffn_gate_inp.weight").type, 0U);
  EXPECT_EQ(file.tensors.at("blk.0.ffn_gate_inp_shexp.weight").type, 0U);
  for (const std::string expert : {"0", "1", "2"}) {
    const std::vector<float> values =
        original("model.layers.1.mlp.experts." + expert + ".down_proj.weight");
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, down.data.data() + (std::stoul(expert) * values.size() + i) * 2, 2);
      ASSERT_EQ(std::bit_cast<float>(std::uint32_t{bits} << 16), values[i]);
    }
  }
}

TEST_F(Gg, WhatLlamaCppDoesNotComputeIsRefused) {
  for (const auto& [family, expected] :
       {std::pair("qwen3_moe_pre",
                  "--moe-router-pre-softmax: llama.cpp computes qwen3moe without it"),
        {"olmoe_post", "--moe-router-pre-softmax: llama.cpp computes olmoe with it"},
        {"qwen3_moe_dense",
         "--moe-layer-freq [0,1]: all layers of llama.cpp's qwen3moe have experts"},
        {"olmoe", "--group-query-attention: llama.cpp computes olmoe with another"},
        {"dots1", "--group-query-attention: llama.cpp computes dots1 with another"},
        {"gptj", "there is none for gptj"},
        {"olmo3", "--window-attn-skip-freq: llama.cpp computes olmo2 with another"},
        {"exaone4", "--window-size: llama.cpp computes exaone4 with another"},
        {"falcon_groups", "--disable-bias-linear: llama.cpp computes falcon with another"},
        {"falcon_in_turn", "--parallel-block: llama.cpp computes falcon with another"},
        {"gpt_neox_in_turn", "--disable-bias-linear: llama.cpp's gptneox has biases"},
        {"deepseek_v3", "--mscale: llama.cpp's deepseek2 has that of --mscale-all-dim, above 0"},
        {"phi_norms", "--qk-layernorm: llama.cpp's phi2 has no norms of heads"},
        {"stablelm_norms", "--qk-layernorm-per-head: llama.cpp computes stablelm with another"},
        {"cohere_norms", "--qk-layernorm-per-head: llama.cpp computes command-r with another"},
        {"seed_oss_biases", "--disable-bias-linear: llama.cpp computes seed_oss with another"},
        {"starcoder2_plain", "--disable-bias-linear: llama.cpp computes starcoder2 with another"},
        {"bert", "there is none for megatron-bert"}}) {
    fs::remove_all(scratch_.path("hf"));
    write_hugging_face(scratch_.path("hf"), config_named(family), DType::f32);
    EXPECT_NE(error("hf", "out", "gguf").find(expected), std::string::npos) << family;
    EXPECT_FALSE(fs::exists(scratch_.path("out")));
    ConvertOptions plan;
    plan.load = scratch_.path("hf");
    plan.save = scratch_.path("out");
    plan.saver = "gguf";
    EXPECT_NE(error_of([&] { describe_conversion(plan); }).find(expected), std::string::npos);
  }
  ConvertOptions optimizer, quantized;
  optimizer.with_optimizer = true;
  quantized.dtype = "q4_k_m";
  EXPECT_EQ(error("hf", "out", "gguf", optimizer), "64 --with-optimizer: GGUF has no place for it");
  EXPECT_EQ(error("hf", "out", "hf", quantized),
            "64 --dtype q4_k_m: is a type of GGUF files; see --saver");
}

// A vocabulary of 8 in a tokenizer.json, whose words are cut by `words`.
std::string tokenizer_json(const std::string& words, const std::string& model) {
  return R"({"added_tokens":[{"id":5,"content":"<s>","special":true},)"
         R"({"id":6,"content":"tag","special":false}],"normalizer":null,"pre_tokenizer":)" +
         words +
         R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":)"
         R"({"id":"<s>"}},{"Sequence":{"id":"A"}}]},"model":{"type":"BPE",)" +
         model + R"("vocab":{"a":0,"b":1,"ab":2,"<0x0A>":3,"abb":4},"merges":["a b",["ab","b"]]}})";
}

TEST_F(Gg, TokenizersTravel) {
  std::vector<Companion> companions;
  const auto put = [&](const char* name, const std::string& text) {
    File::create(scratch_.path(name)).write(text);
    std::erase_if(companions, [&](const Companion& file) { return file.name == name; });
    companions.push_back({name, scratch_.path(name)});
  };
  std::string problem;
  const auto tokenizer = [&](std::int64_t vocab_size = 21) {
    GgufKeyValues key_values;
    problem =
        add_gguf_tokenizer(key_values, companions, nullptr, R"({"eos_token_id":4})", vocab_size);
    GgufWriter(scratch_.path("model.gguf"), key_values, {}).close();
    return Gguf(scratch_.path("model.gguf")).values;
  };
  put("tokenizer_config.json", R"({"bos_token":{"content":"<s>"},"chat_template":"{{x}}"})");
  put("tokenizer.json",
      tokenizer_json(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})", ""));
  auto found = tokenizer();
  EXPECT_EQ(found.at("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(found.at("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_TRUE(found.at("tokenizer.ggml.tokens").starts_with("a|b|ab|<0x0A>|abb|<s>|tag|[PAD7]|"));
  EXPECT_TRUE(found.at("tokenizer.ggml.token_type").starts_with("1|1|1|1|1|3|4|5|5"));
  EXPECT_EQ(found.at("tokenizer.ggml.merges"), "a b|ab b");
  EXPECT_EQ(found.at("tokenizer.ggml.bos_token_id"), "5");
  EXPECT_EQ(found.at("tokenizer.ggml.eos_token_id"), "4");
  EXPECT_EQ(found.at("tokenizer.ggml.add_bos_token"), "true");
  EXPECT_EQ(found.at("tokenizer.chat_template"), "{{x}}");
  EXPECT_FALSE(found.contains("tokenizer.ggml.eot_token_id"));
  put("generation_config.json", R"({"eos_token_id":[4,2,2,99]})");
  found = tokenizer();
  EXPECT_EQ(found.at("tokenizer.ggml.eos_token_id"), "4");
  EXPECT_EQ(found.at("tokenizer.ggml.eot_token_id"), "2");
  EXPECT_FALSE(found.contains("tokenizer.ggml.eom_token_id"));
  EXPECT_EQ(problem, "");
  put("generation_config.json", R"({"eos_token_id":[2,5,4,0]})");
  found = tokenizer();
  EXPECT_EQ(found.at("tokenizer.ggml.eot_token_id"), "2");
  EXPECT_EQ(found.at("tokenizer.ggml.eom_token_id"), "5");
  EXPECT_EQ(problem, "GGUF has places for three tokens that end a text, and no more");
  put("generation_config.json", "{}");
  put("tokenizer.json",
      tokenizer_json(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first"})",
                     R"("byte_fallback":true,"unk_token":"b",)"));
  found = tokenizer();
  EXPECT_EQ(found.at("tokenizer.ggml.model"), "llama");
  EXPECT_TRUE(found.at("tokenizer.ggml.token_type").starts_with("1|2|1|6|1|3|4|5"));
  EXPECT_TRUE(found.at("tokenizer.ggml.scores").starts_with("0|0|-0|0|-1|0"));
  EXPECT_EQ(found.at("tokenizer.ggml.add_space_prefix"), "true");
  EXPECT_FALSE(found.contains("tokenizer.ggml.merges"));
  put("tokenizer.json", tokenizer_json(R"({"type":"Whitespace"})", ""));
  EXPECT_EQ(tokenizer().at("tokenizer.ggml.model"), "no_vocab");
  EXPECT_EQ(problem, concat("llama.cpp is told of no tokenizer: ", scratch_.path("tokenizer.json"),
                            ": pre_tokenizer: is none that llama.cpp is known to have"));
  tokenizer(4);
  EXPECT_NE(problem.find("token \"abb\" is 4, but the model knows ids below 4"), std::string::npos);
  fs::remove(scratch_.path("tokenizer.json"));
  std::erase_if(companions, [](const Companion& file) { return file.name == "tokenizer.json"; });
  put("vocab.json", R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})");
  put("merges.txt", "#version: 0.2\na b\n");
  found = tokenizer();
  EXPECT_EQ(found.at("tokenizer.ggml.merges"), "a b");
  EXPECT_EQ(found.at("tokenizer.ggml.eos_token_id"), "3");
  EXPECT_TRUE(found.at("tokenizer.ggml.token_type").starts_with("1|1|1|3|5"));
}

}  // namespace
}  // namespace mt
