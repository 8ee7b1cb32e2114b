// Models out of GGUF files.
#include "formats/gguf/gguf_source.h"
#include "formats/differences.h"

#include <gtest/gtest.h>

#include <cmath>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "base/half.h"
#include "base/json_object.h"
#include "ckpt/gguf.h"
#include "formats/gguf/gguf_mamba.h"
#include "formats/gguf/gguf_patterns.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "model/checkpoint_tokenizer.h"
#include "tests/formats/convert_support.h"
#include "tests/text/hex.h"
#include "tests/text/hf_files.h"
#include "tests/text/sentencepiece_files.h"
#include "text/hf/hf_tokenizer.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
const std::string kTestdata = MT_TESTDATA "/";

class GgufModels : public Convert {
 protected:
  void SetUp() override { config_ = config_named("llama"); }

  // Rows are whole blocks of q8_0.
  void write(const std::string& family, DType dtype) {
    config_ = config_named(family);
    config_.hidden_size = 32;
    config_.kv_channels = 8;
    config_.ffn_hidden_size = 64;
    if (config_.gated_gelu) config_.embedding_mult = std::sqrt(32.0);  // a Gemma's
    if (config_.multi_latent_attention) {
      config_.kv_channels.reset();
      config_.mscale = config_.mscale_all_dim;
    }
    if (family == "olmoe") config_.num_query_groups = config_.num_attention_heads;
    if (config_.family == ModelFamily::mamba) config_.mamba_num_heads = 8;
    if (config_.has_layer('E')) std::ranges::replace(config_.hybrid_pattern, '-', 'M');
    if (family == "mamba") config_.num_attention_heads = config_.num_query_groups = 8;
    if (family == "scaled") config_.rotary_base = 5'000'000;  // one channel is as slow as they get
    fs::remove_all(scratch_.path("hf"));
    write_hugging_face(scratch_.path("hf"), config_, dtype);
  }
  ConvertReport make(const std::string& from, const std::string& to, const std::string& saver,
                     const std::string& dtype = "") {
    ConvertOptions options;
    options.dtype = dtype;
    options.force = options.verify = true;
    return convert(from, to, saver, options);
  }
  std::string difference(const std::string& a, const std::string& b) {
    std::string lines;
    print_differences({scratch_.path(a)}, scratch_.path(b), 0,
                      [&](const std::string& line) { lines += line + "\n"; });
    return lines;
  }

  // The file that was made of a model, with other settings and tensors of zeros.
  void rewrite(const std::function<void(GgufKeyValues&)>& settings,
               std::vector<GgufWriter::Entry> more = {}, std::string left_out = {}) {
    if (!fs::exists(scratch_.path("gguf"))) {
      write("llama", DType::f32);
      make("hf", "gguf", "gguf");
    }
    const GgufReader original(scratch_.path("gguf/model.gguf"));
    GgufKeyValues values;
    values.text("general.architecture", "llama");
    for (const auto& [key, value] : {std::pair("llama.block_count", 2),
                                     {"llama.context_length", 64},
                                     {"llama.embedding_length", 32},
                                     {"llama.feed_forward_length", 64},
                                     {"llama.attention.head_count", 4},
                                     {"llama.attention.head_count_kv", 2}})
      if (key != left_out) values.integer(key, static_cast<std::uint32_t>(value));
    values.real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    settings(values);
    std::vector<GgufWriter::Entry> entries = std::move(more);
    for (const auto& [name, tensor] : original.tensors())
      if (name != left_out) entries.push_back({name, GgufType::f32, tensor.shape});
    GgufWriter writer(scratch_.path("made.gguf"), values, entries);
    for (const GgufWriter::Entry& entry : entries) {
      const std::string zeros(static_cast<std::size_t>(entry.shape.numel()) * sizeof(float), '\0');
      writer.write(entry.name, {zeros.data(), DType::f32, entry.shape});
    }
    writer.close();
  }
  std::string refusal() {
    const std::string path = scratch_.path("made.gguf");
    std::string line = error("made.gguf", "out", "core");
    if (const std::size_t at = line.find(path); at != std::string::npos)
      line.erase(at, path.size() + 2);
    return line;
  }

  ModelConfig config_;
};

TEST_F(GgufModels, BecomeWhatTheyWereMadeOf) {
  for (const auto& [family, dtype] : {std::pair("gpt2", DType::f16),
                                      {"gpt2", DType::bf16},
                                      {"llama", DType::f32},
                                      {"tied", DType::bf16},
                                      {"mistral", DType::f16},
                                      {"qwen2", DType::bf16},
                                      {"qwen3", DType::bf16},
                                      {"mixtral", DType::f16},
                                      {"qwen2_moe", DType::bf16},
                                      {"qwen3_moe", DType::f32},
                                      {"olmoe", DType::bf16},
                                      {"scaled", DType::bf16},
                                      {"phi3", DType::f16},
                                      {"olmo2", DType::bf16},
                                      {"granite", DType::f32},
                                      {"smollm3", DType::bf16},
                                      {"deepseek_v2_lite", DType::bf16},
                                      {"deepseek_v3", DType::f16},
                                      {"kimi_k2", DType::bf16},
                                      {"cohere", DType::bf16},
                                      {"cohere2", DType::bf16},
                                      {"phi", DType::f16},
                                      {"starcoder2", DType::bf16},
                                      {"stablelm", DType::bf16},
                                      {"stablelm_parallel", DType::f32},
                                      {"olmo", DType::bf16},
                                      {"olmo_clipped", DType::f32},
                                      {"arcee_plain", DType::bf16},
                                      {"ernie4_5_plain", DType::bf16},
                                      {"phi_tied", DType::bf16},
                                      {"gpt_oss", DType::bf16},
                                      {"glm4_moe", DType::bf16},
                                      {"dots1_mha", DType::f32},
                                      {"granitemoe", DType::f16},
                                      {"olmo3_four", DType::bf16},
                                      {"exaone4_plain", DType::bf16},
                                      {"glm", DType::bf16},
                                      {"glm4", DType::f16},
                                      {"seed_oss", DType::bf16},
                                      {"internlm3_plain", DType::bf16},
                                      {"gpt_neox", DType::bf16},
                                      {"falcon", DType::bf16},
                                      {"falcon_two_norms", DType::f32}}) {
    write(family, dtype);
    make("hf", "gguf", "gguf");
    const ConvertReport report = make("gguf", "core", "core");
    EXPECT_EQ(report.from, "gguf");
    EXPECT_EQ(report.compared, report.rows);
    make("gguf/model.gguf", "back", "hf");
    make("back", "again/gguf", "gguf");
    EXPECT_EQ(content("again/gguf/model.gguf"), content("gguf/model.gguf")) << family;
    EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors")) << family;
    EXPECT_EQ(difference("gguf", "hf"), "");
    EXPECT_EQ(difference("core", "gguf/model.gguf"), "");
  }
}

TEST_F(GgufModels, SettingsAreTheModels) {
  for (const char* family : {"gpt2",
                             "llama",
                             "tied",
                             "qwen2",
                             "qwen2_moe",
                             "qwen3_moe",
                             "olmoe",
                             "scaled",
                             "gemma",
                             "gemma2",
                             "gemma3_text",
                             "phi3",
                             "olmo2",
                             "granite",
                             "smollm3",
                             "cohere",
                             "cohere2",
                             "deepseek_v2_lite",
                             "deepseek_v3",
                             "gpt_oss",
                             "glm4_moe",
                             "dots1_mha",
                             "granitemoe",
                             "olmo3_four",
                             "exaone4_plain",
                             "glm",
                             "glm4",
                             "seed_oss",
                             "gpt_neox",
                             "falcon",
                             "falcon_two_norms"}) {
    write(family, DType::bf16);
    make("hf", "gguf", "gguf");
    const auto found = open_model(scratch_.path("gguf"));
    const ModelConfig usual;  // what no GGUF file says
    config_.init_method_std = usual.init_method_std;
    if (config_.num_experts > 0)
      config_.moe_aux_loss_coeff = {std::string_view(family) == "olmoe" ? 0.01
                                                                        : 0.001};  // usual ones
    if (config_.multi_latent_attention) {
      config_.moe_router_load_balancing_type = {"seq_aux_loss"};
      config_.moe_aux_loss_coeff = {0};
    }
    if (config_.position_embedding_type == "learned_absolute")
      config_.attention_dropout = config_.hidden_dropout = usual.hidden_dropout;
    EXPECT_EQ(found->dtype(), DType::bf16);
    EXPECT_EQ(hugging_face_config(found->config(), DType::bf16, ""),
              hugging_face_config(config_, DType::bf16, ""));
  }
}

// Queries, keys and values may be one tensor, as in files of a ChatGLM's own folder.
TEST_F(GgufModels, JoinedQueriesKeysAndValuesAreRead) {
  write("glm", DType::f32);
  make("hf", "gguf", "gguf");
  const GgufReader file(scratch_.path("gguf/model.gguf"));
  GgufKeyValues values;
  values.text("general.architecture", "chatglm");
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "rope.dimension_count"})
    values.integer(concat("chatglm.", key),
                   static_cast<std::uint32_t>(file.value(concat("chatglm.", key)).as_integer("")));
  values.real("chatglm.attention.layer_norm_rms_epsilon", static_cast<float>(config_.norm_epsilon));
  std::vector<GgufWriter::Entry> entries;
  const auto is_joined = [](const std::string& name) {
    return name.find("attn_q.") != name.npos || name.find("attn_k.") != name.npos ||
           name.find("attn_v.") != name.npos;
  };
  for (const auto& [name, tensor] : file.tensors())
    if (!is_joined(name)) entries.push_back({name, GgufType::f32, tensor.shape});
  for (const char* layer : {"blk.0.", "blk.1."})
    for (const auto& [end, shape] : {std::pair(".weight", Shape{64, 32}), {".bias", Shape{64}}})
      entries.push_back({concat(layer, "attn_qkv", end), GgufType::f32, shape});
  GgufWriter writer(scratch_.path("made.gguf"), values, entries);
  for (const GgufWriter::Entry& entry : entries) {
    const HostTensor all(DType::f32, entry.shape);
    std::int64_t row = 0;
    const std::size_t at = entry.name.find("attn_qkv");
    for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
      const std::string name =
          at == entry.name.npos
              ? entry.name
              : entry.name.substr(0, at) + part + entry.name.substr(at + std::strlen("attn_qkv"));
      const Shape& shape = file.at(name).shape;
      file.read_original(name, origin_of(shape.rank()), all.view().rows(row, row + shape[0]));
      if (at == entry.name.npos) break;
      row += shape[0];
    }
    writer.write(entry.name, all.view());
  }
  writer.close();
  make("made.gguf", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
}

// A pooler is left out, and so are the positions in front of a RoBERTa's first token.
TEST_F(GgufModels, BertsBecomeWhatTheyWereMadeOf) {
  write("bert_first", DType::bf16);
  make("hf", "gguf", "gguf");
  make("gguf/model.gguf", "back", "hf");
  make("back", "again/gguf", "gguf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  EXPECT_EQ(content("again/gguf/model.gguf"), content("gguf/model.gguf"));
  const GgufReader file(scratch_.path("gguf/model.gguf"));
  EXPECT_EQ(file.value("bert.attention.causal").json(), "false");
  EXPECT_EQ(file.value("tokenizer.ggml.token_type_count").json(), "2");
  EXPECT_EQ(file.at("blk.0.layer_output_norm.bias").shape, (Shape{32}));
  EXPECT_EQ(file.at("token_types.weight").dtype, DType::f32);
  config_.bert_pooler = true;
  fs::remove_all(scratch_.path("hf"));
  write_hugging_face(scratch_.path("hf"), config_, DType::bf16);
  make("hf", "gguf", "gguf");
  EXPECT_FALSE(open_model(scratch_.path("gguf"))->config().bert_pooler);
  write("roberta", DType::bf16);
  make("hf", "gguf", "gguf");
  const GgufReader roberta(scratch_.path("gguf/model.gguf"));
  const std::int64_t positions = config_.max_position_embeddings;
  EXPECT_EQ(roberta.value("bert.context_length").json(), std::to_string(positions));
  EXPECT_EQ(roberta.at("position_embd.weight").shape, (Shape{positions, 32}));
  const SafetensorsReader was(scratch_.path("hf/model.safetensors"));
  const HostTensor a(DType::f32, {positions, 32}), b(DType::f32, {positions, 32});
  roberta.read_original("position_embd.weight", {0, 0}, a.view());
  was.read_original("embeddings.position_embeddings.weight", {2, 0}, b.view());
  EXPECT_EQ(std::memcmp(a.view().data(), b.view().data(), a.view().bytes()), 0);
  write("bert_first_masked", DType::bf16);
  EXPECT_EQ(error("hf", "out", "gguf").find("78 a BERT's head: llama.cpp's bert has none"), 0U);
}

// Numbers that blocks have stay to the bit.
TEST_F(GgufModels, ExpertsInMxfp4StayWhatTheyAre) {
  write("gpt_oss", DType::f32);
  make("hf", "gguf", "gguf", "mxfp4");
  const GgufReader file(scratch_.path("gguf/model.gguf"));
  EXPECT_EQ(file.value("general.file_type").json(), "38");
  EXPECT_EQ(file.at("blk.1.ffn_up_exps.weight").dtype_name, "mxfp4");
  EXPECT_EQ(file.at("blk.1.attn_q.weight").dtype_name, "q8_0");
  make("gguf", "numbers", "hf");
  make("numbers", "again/gguf", "gguf", "mxfp4");
  const GgufReader again(scratch_.path("again/gguf/model.gguf"));
  for (const char* name : {"gate", "up", "down"}) {
    const std::string key = concat("blk.0.ffn_", name, "_exps.weight");
    const Shape& shape = file.at(key).shape;
    const HostTensor a(DType::f32, shape), b(DType::f32, shape);
    file.read_original(key, origin_of(3), a.view());
    again.read_original(key, origin_of(3), b.view());
    EXPECT_EQ(std::memcmp(a.view().data(), b.view().data(), a.view().bytes()), 0) << key;
  }
}

// What lies in A is -exp(A_log), which has no place for all bits of numbers near 0.
TEST_F(GgufModels, HybridsBecomeWhatTheyWereMadeOf) {
  for (const auto& [family, architecture] : {std::pair("mamba", "mamba2"),
                                             {"hybrid", "nemotron_h"},
                                             {"hybrid_experts", "nemotron_h_moe"},
                                             {"hybrid_experts_latents", "nemotron_h_moe"},
                                             {"granitemoehybrid", "granitehybrid"},
                                             {"granitemoehybrid_dense", "granitehybrid"}}) {
    write(family, DType::bf16);
    make("hf", "gguf", "gguf");
    make("gguf/model.gguf", "back", "hf");
    make("back", "again/gguf", "gguf");
    EXPECT_EQ(GgufReader(scratch_.path("gguf/model.gguf")).value("general.architecture").json(),
              concat("\"", architecture, "\""));
    EXPECT_EQ(content("again/gguf/model.gguf"), content("gguf/model.gguf")) << family;
    const SafetensorsReader was(scratch_.path("hf/model.safetensors")),
        is(scratch_.path("back/model.safetensors"));
    EXPECT_EQ(was.tensors().size(), is.tensors().size());
    for (const auto& [name, tensor] : was.tensors()) {
      ASSERT_EQ(tensor.shape, is.at(name).shape) << name;
      EXPECT_EQ(is.at(name).dtype, DType::bf16) << name;
      if (name.ends_with("A_log")) continue;
      const HostTensor a(DType::bf16, tensor.shape), b(DType::bf16, tensor.shape);
      was.read_original(name, origin_of(tensor.shape.rank()), a.view());
      is.read_original(name, origin_of(tensor.shape.rank()), b.view());
      EXPECT_EQ(std::memcmp(a.view().data(), b.view().data(), a.view().bytes()), 0) << name;
    }
    make("gguf", "gguf-q8", "gguf", "q8_0");
    EXPECT_EQ(open_model(scratch_.path("gguf-q8"))->config().hybrid_pattern,
              config_.hybrid_pattern);
  }
  for (int i = 1; i <= 2000; ++i) {  // of 16 bits they come back
    const float log{Bf16(static_cast<float>(i) / 640)};
    EXPECT_EQ(Bf16(log_of_decay(decay_of(log))).bits, Bf16(log).bits);
  }
}

// By its own numbers, where llama.cpp has no tensor of factors for the architecture.
TEST_F(GgufModels, YarnTravels) {
  write("qwen2", DType::bf16);
  const auto scale = [&](const std::string& words) {
    std::string config = content("hf/config.json");
    const std::string none = R"("rope_scaling":null)";
    ASSERT_NE(config.find(none), config.npos);
    config.replace(config.find(none), none.size(), R"("rope_scaling":{"rope_type":"yarn")" + words);
    File::create(scratch_.path("hf/config.json")).write(config);
  };
  const std::string plain = content("hf/config.json");
  scale(R"(,"factor":4.0,"original_max_position_embeddings":16,"beta_fast":3.5})");
  make("hf", "gguf", "gguf");
  const GgufReader file(scratch_.path("gguf/model.gguf"));
  for (const auto& [key, value] : {std::pair("type", "\"yarn\""),
                                   {"factor", "4"},
                                   {"original_context_length", "16"},
                                   {"yarn_beta_fast", "3.5"},
                                   {"yarn_beta_slow", "1"}})
    EXPECT_EQ(file.value(concat("qwen2.rope.scaling.", key)).json(), value) << key;
  EXPECT_EQ(file.find(kGgufFrequencies), nullptr);
  EXPECT_EQ(open_model(scratch_.path("gguf"))->config().rope_frequency_factors,
            open_model(scratch_.path("hf"))->config().rope_frequency_factors);
  File::create(scratch_.path("hf/config.json")).write(plain);
  scale(R"(,"factor":4.0,"attention_factor":1.5})");
  EXPECT_EQ(error("hf", "out", "gguf"),
            "78 --rope-frequency-factors: llama.cpp has that for Llamas, Phi-3 and EXAONE 4 only, "
            "and of qwen2 YaRN with its usual attention_factor");
}

// llama.cpp wants an output layer of these even where it is the words.
TEST_F(GgufModels, TiedOutputLayersAreThereAndReadAsTied) {
  for (const char* family : {"olmo2", "olmoe", "nemotron", "qwen2_moe", "phi_tied", "stablelm",
                             "gpt_neox", "gpt_oss", "dots1_mha"}) {
    config_ = config_named(family);
    config_.hidden_size = 32;
    config_.kv_channels = 8;
    config_.ffn_hidden_size = 64;
    config_.untie_embeddings_and_output_weights = false;
    if (std::string(family) == "olmoe") config_.num_query_groups = config_.num_attention_heads;
    fs::remove_all(scratch_.path("hf"));
    write_hugging_face(scratch_.path("hf"), config_, DType::bf16);
    for (const char* dtype : {"", "q8_0", "q4_k_m"}) {
      make("hf", "gguf", "gguf", dtype);
      const GgufReader file(scratch_.path("gguf/model.gguf"));
      const DistTensor &words = file.at(kGgufWords), &output = file.at(kGgufOutput);
      EXPECT_EQ(words.shape, output.shape);
      const auto found = open_model(scratch_.path("gguf"));
      EXPECT_EQ(found->config().untie_embeddings_and_output_weights,
                words.dtype_name != output.dtype_name)
          << family << dtype;
      found->check_all_used(model_rows(found->config()));
    }
    make("hf", "gguf", "gguf");
    make("gguf", "back", "hf");
    const bool whole = std::string(family) != "nemotron";  // whose norms lose bits
    EXPECT_EQ(content("back/model.safetensors") == content("hf/model.safetensors"), whole)
        << family;
  }
}

// Of each head what makes keys is transposed, and what makes values is not.
TEST_F(GgufModels, LatentsAreMultipliedByHeads) {
  write("deepseek_v3", DType::f32);
  make("hf", "gguf", "gguf");
  const GgufReader file(scratch_.path("gguf/model.gguf"));
  const SafetensorsReader folder(scratch_.path("hf/model.safetensors"));
  const std::int64_t heads = config_.num_attention_heads, rank = config_.kv_lora_rank,
                     k = config_.qk_head_dim, v = config_.v_head_dim;
  const auto read = [](const TensorSource& from, const std::string& name, const Shape& shape) {
    EXPECT_EQ(from.at(name).shape, shape);
    HostTensor all(DType::f32, shape);
    from.read_original(name, origin_of(shape.rank()), all.view());
    return all;
  };
  const HostTensor up = read(folder, "model.layers.1.self_attn.kv_b_proj.weight",
                             {heads * (k + v), rank}),
                   keys = read(file, "blk.1.attn_k_b.weight", {heads, rank, k}),
                   values = read(file, "blk.1.attn_v_b.weight", {heads, v, rank});
  const auto at = [](const HostTensor& all, std::int64_t i) { return all.view().as<float>()[i]; };
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t row = 0; row < k + v; ++row)
      for (std::int64_t c = 0; c < rank; ++c)
        EXPECT_EQ(at(up, (head * (k + v) + row) * rank + c),
                  row < k ? at(keys, (head * rank + c) * k + row)
                          : at(values, (head * v + row - k) * rank + c));
  const auto value = [&](const char* key) { return file.value(key).json(); };
  EXPECT_EQ(value("deepseek2.attention.head_count_kv"), "1");
  EXPECT_EQ(value("deepseek2.attention.key_length"), std::to_string(rank + 4));
  EXPECT_EQ(value("deepseek2.expert_gating_func"), "2");
}

TEST_F(GgufModels, WhatLatentsHaveNotThereIsRefused) {
  const auto write_again = [&] {
    fs::remove_all(scratch_.path("hf"));
    write_hugging_face(scratch_.path("hf"), config_, DType::f32);
  };
  write("deepseek_v2_lite", DType::f32);
  config_.moe_router_num_groups = config_.moe_router_group_topk = 2;
  config_.moe_router_group_score = "max";
  write_again();
  EXPECT_EQ(
      error("hf", "out", "gguf"),
      "78 --moe-router-group-score max: llama.cpp's deepseek2 has sums of a group's best two");
  write("deepseek_v3", DType::f32);
  ConvertOptions options;
  options.dtype = "q8_0";
  EXPECT_EQ(error("hf", "out", "gguf", options),
            "78 --dtype: blocks of 32 numbers do not divide --qk-head-dim 3");
  config_.mscale = 0.5;
  write_again();
  EXPECT_EQ(error("hf", "out", "gguf"),
            "78 --mscale: llama.cpp's deepseek2 has that of --mscale-all-dim, above 0");
  write("deepseek_v3_further", DType::f32);
  options = {};
  options.source.further = 2;
  EXPECT_EQ(
      error("hf", "out", "gguf", options).find("78 --mtp-num-layers: llama.cpp's deepseek2 has no"),
      0U);
  write("glm4_moe_further", DType::f32);
  options.source.further = 1;
  EXPECT_EQ(
      error("hf", "out", "gguf", options).find("78 --mtp-num-layers: llama.cpp's glm4moe has no"),
      0U);
}

// A vector that is no bf16 keeps its float32, and the others become what they were.
TEST_F(GgufModels, VectorsLoseNothing) {
  write("llama", DType::bf16);
  make("hf", "gguf", "gguf");
  const std::string path = scratch_.path("gguf/model.gguf");
  std::string bytes = read_file(path);
  bytes[GgufReader(path).at("blk.1.ffn_norm.weight").chunks[0].place.offset] ^= 1;
  File::create(path).write(bytes);
  make("gguf", "back", "hf");
  const SafetensorsReader back(scratch_.path("back/model.safetensors"));
  for (const auto& [name, tensor] : back.tensors())
    EXPECT_EQ(tensor.dtype,
              name == "model.layers.1.post_attention_layernorm.weight" ? DType::f32 : DType::bf16)
        << name;
}

TEST_F(GgufModels, BlocksAreDequantized) {
  write("llama", DType::bf16);
  make("hf", "gguf", "gguf", "q8_0");
  const auto source = open_model(scratch_.path("gguf"));
  ASSERT_EQ(source->notes().size(), 1U);
  EXPECT_NE(source->notes()[0].find("16 tensors of q8_0 are dequantized"), std::string::npos)
      << source->notes()[0];
  make("gguf", "back", "hf");
  const GgufReader file(scratch_.path("gguf/model.gguf"));
  const SafetensorsReader back(scratch_.path("back/model.safetensors"));
  const Shape& shape = file.at("blk.0.ffn_up.weight").shape;
  const HostTensor a(DType::f32, shape), b(DType::f32, shape);
  file.read_original("blk.0.ffn_up.weight", {0, 0}, a.view());
  EXPECT_EQ(back.at("model.layers.0.mlp.up_proj.weight").dtype, DType::f32);
  back.read_original("model.layers.0.mlp.up_proj.weight", {0, 0}, b.view());
  EXPECT_EQ(std::memcmp(a.view().data(), b.view().data(), a.view().bytes()), 0);
  make("gguf", "again", "gguf", "q8_0");  // the same blocks
  EXPECT_EQ(difference("gguf", "again"), "");
}

TEST_F(GgufModels, WhatNoScaleHoldsIsRefused) {
  write("llama", DType::f32);
  const std::string path = scratch_.path("hf/model.safetensors"), whole = read_file(path);
  for (const float number : {NAN, INFINITY, 1e7F}) {  // the last element
    std::string file = whole;
    std::memcpy(file.data() + file.size() - sizeof number, &number, sizeof number);
    File::create(path).write(file);
    EXPECT_NE(error_of([&] {
                make("hf", "out", "gguf", "q8_0");
              }).find("1 numbers are not finite, or too large for q8_0"),
              std::string::npos)
        << number;
  }
}

// What Hugging Face's tokenizers were given for goldens.
std::vector<std::string> texts() {
  std::vector<std::string> found;
  std::ifstream cases(kTestdata + "huggingface/cases.txt");
  for (std::string line; std::getline(cases, line);) {
    std::istringstream columns(line);
    std::string kind, hex;
    columns >> kind >> hex;
    if (kind == "gpt2") found.push_back(from_hex(hex));
  }
  return found;
}

// Its tokenizer goes into a GGUF file and comes back, as files of another tokenizer of that type.
class GgufTokenizers : public GgufModels {
 protected:
  std::unique_ptr<Tokenizer> back(
      const std::string& name, const std::string& path, std::int64_t vocab_size,
      const std::string& config,
      const std::vector<std::pair<std::string, std::string>>& beside = {}) {
    ModelConfig model = config_named("llama");
    model.vocab_size = vocab_size;
    model.padded_vocab_size = 0;
    model.complete();
    fs::remove_all(scratch_.path("hf"));
    write_hugging_face(scratch_.path("hf"), model, DType::f32);
    fs::copy_file(path, scratch_.path("hf/" + name));
    File::create(scratch_.path("hf/tokenizer_config.json")).write(config);
    for (const auto& [file, content] : beside) {
      fs::create_directories(fs::path(scratch_.path("hf/" + file)).parent_path());
      File::create(scratch_.path("hf/" + file)).write(content);
    }
    make("hf", "gguf", "gguf");
    make("gguf", "core", "core");
    const auto core = open_model(scratch_.path("core"));
    auto tokenizer = core->make_tokenizer({});
    EXPECT_EQ(tokenizer->identity(), tokenizer_identity(core->manifest_extra()));
    EXPECT_EQ(open_model(scratch_.path("gguf"))->make_tokenizer({})->identity(),
              tokenizer->identity());
    return tokenizer;
  }
};

// Names of other models that cut alike are known too, and no others.
TEST(GgufPatterns, OfOtherModels) {
  for (const auto& [name, same] : {std::pair("starcoder", "smollm"),
                                   {"command-r", "smollm"},
                                   {"olmo", "gpt-2"},
                                   {"llama-v3", "llama-bpe"},
                                   {"stablelm2", "qwen2"},
                                   {"glm4", "dbrx"},
                                   {"megrez", "qwen2"},
                                   {"hunyuan-dense", "deepseek-v3"},
                                   {"poro-chat", "bloom"},
                                   {"kanana2", "gpt-4o"},
                                   {"gpt-2", "gpt-2"}})
    EXPECT_EQ(find_gguf_pattern(name)->name, same) << name;
  EXPECT_EQ(find_gguf_pattern("unheard-of"), nullptr);
}

// Each is found again in what is made of it, and the tokenizer of Hugging Face's reads it.
TEST(GgufPatterns, AreOfTokenizerJson) {
  for (const char* name :
       {"gpt-2",  "smollm",      "llama-bpe",  "dbrx",           "qwen2",    "qwen35",   "tekken",
        "gpt-4o", "deepseek-v3", "spark2_5",   "deepseek-coder", "falcon",   "default",  "bloom",
        "viking", "superbpe",    "bailingmoe", "seed-coder",     "tiny_aya", "youtu",    "kimi-k2",
        "jais-2", "exaone-moe",  "minicpm5",   "ufakzeka",       "laguna",   "chameleon"}) {
    const std::string made = pre_tokenizer_of(*find_gguf_pattern(name));
    HfParts parts;
    parts.pre_tokenizer = made;
    const HfFiles file(parts.text());
    EXPECT_EQ(file.load_error(), "") << name;
    simdjson::dom::parser parser;
    EXPECT_EQ(
        gguf_pattern_of({parser.parse(made).value(), ""}, find_gguf_pattern(name)->ignore_merges),
        name);
  }
}

TEST_F(GgufTokenizers, OfBytesAreTheSame) {
  for (const auto& [kind, pre, bos] : {std::tuple("gpt2", "gpt-2", ""),
                                       {"llama3", "llama-bpe", "<|begin_of_text|>"},
                                       {"qwen2", "qwen2", ""},
                                       {"nemo", "tekken", "<|endoftext|>"},
                                       {"o200k", "gpt-4o", "<|endoftext|>"},
                                       {"deepseek", "deepseek-v3", ""},
                                       {"falcon", "falcon", ""},
                                       {"starcoder", "smollm", ""}}) {
    const std::string path = concat(kTestdata, "huggingface/", kind, ".json"),
                      config =
                          concat(R"({"tokenizer_class":"PreTrainedTokenizerFast")",
                                 *bos == '\0' ? "" : concat(R"(,"bos_token":")", bos, "\""), "}");
    const HfTokenizer original(path);
    const auto tokenizer = back("tokenizer.json", path, original.vocab_size() + 3, config);
    EXPECT_EQ(GgufReader(scratch_.path("gguf/model.gguf")).values().at("tokenizer.ggml.pre").json(),
              concat('"', pre, '"'));
    EXPECT_EQ(tokenizer->vocab_size(), original.vocab_size()) << kind;
    EXPECT_EQ(tokenizer->bos() >= 0, *bos != '\0');
    int same = 0;
    for (const std::string& text : texts()) {
      // An added token that is found in what the normalizer makes of a text is not in GGUF files.
      if (text.find("\u00e9") != text.npos || text.find("\u0301") != text.npos) continue;
      std::vector<std::int32_t> expected, ids;
      original.encode(text, expected);
      tokenizer->encode(text, ids);
      EXPECT_EQ(ids, expected) << kind << " " << text;
      ++same;
    }
    EXPECT_GT(same, 20);
  }
}

// What llama.cpp's keys cannot say is in a whole tokenizer.json, and the keys say what they can.
TEST_F(GgufTokenizers, OfAllKindsComeBack) {
  HfParts parts;
  const std::string bytes =
      R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"\u0120":4,"\u0120ab":5,"<s>":6},)"
      R"("merges":["a b","\u0120 ab"]})";
  const std::string words = R"({"type":"WordPiece","unk_token":"?","vocab":{"?":0,"a":1,"##b":2,)"
                            R"("b":3,"c":4},"continuing_subword_prefix":"##",)"
                            R"("max_input_chars_per_word":100})";
  const auto byte_level = [](bool prefix) {
    return concat(R"({"type":"ByteLevel","add_prefix_space":)", prefix ? "true" : "false",
                  R"(,"trim_offsets":true,"use_regex":true})");
  };
  const auto comes_back = [&](const std::string& name, const std::string& config, bool whole,
                              const std::string& model) {
    SCOPED_TRACE(name);
    const HfFiles files(parts.text(), config);
    const HfTokenizer original(files.folder());
    const auto tokenizer = back("tokenizer.json", files.json(), original.vocab_size() + 1, config);
    for (const std::string text : {"ab ab", " ab<s>  c", "<s> b", "abc", "c <x> a", ""}) {
      std::vector<std::int32_t> expected, ids;
      original.encode(text, expected);
      tokenizer->encode(text, ids);
      EXPECT_EQ(ids, expected) << text;
    }
    EXPECT_EQ(tokenizer->eod(), original.eod());
    const GgufReader file(scratch_.path("gguf/model.gguf"));
    EXPECT_EQ(file.find_value(kGgufHuggingFace) != nullptr, whole);
    EXPECT_EQ(file.value("tokenizer.ggml.model").json(), concat('"', model, '"'));
  };
  const std::string fast = R"({"tokenizer_class":"PreTrainedTokenizerFast","eos_token":"<s>")";
  parts.model = bytes;
  parts.pre_tokenizer = parts.decoder = byte_level(false);
  parts.added_tokens = concat("[", hf_added(6, "<s>", "special"), "]");
  comes_back("control token last", fast + "}", false, "gpt2");
  comes_back("token of the configuration",
             fast + R"(,"added_tokens_decoder":{"7":{"content":"<x>","special":true}}})", false,
             "gpt2");
  comes_back("class that puts tokens",
             R"({"tokenizer_class":"GPT2Tokenizer","add_bos_token":true,"bos_token":"<s>",)"
             R"("eos_token":"<s>","unk_token":"<s>"})",
             false, "gpt2");
  parts.added_tokens = concat("[", hf_added(6, "<s>", "special lstrip"), "]");
  comes_back("token that takes spaces", fast + "}", true, "gpt2");
  parts.added_tokens = concat("[", hf_added(6, "<s>", "special"), "]");
  parts.pre_tokenizer = byte_level(true);
  comes_back("prefix", fast + R"(,"add_prefix_space":true})", true, "no_vocab");
  parts.pre_tokenizer = R"({"type":"Whitespace"})";
  parts.model = words;
  parts.decoder = "null";
  parts.added_tokens = "[]";
  comes_back("words", R"({"tokenizer_class":"PreTrainedTokenizerFast","eos_token":"c"})", true,
             "bert");
}

// As gguf's writer calls those of a tokenizer_config.json that has several, and of files beside it.
TEST_F(GgufTokenizers, BringAllChatTemplates) {
  using Files = std::vector<std::pair<std::string, std::string>>;
  const std::string path = kTestdata + "huggingface/gpt2.json";
  const auto size = HfTokenizer(path).vocab_size();
  const auto chats = [&](const std::string& config, const Files& beside = {}) {
    back("tokenizer.json", path, size, config, beside);
    const GgufReader file(scratch_.path("gguf/model.gguf"));
    for (const Companion& made : read_gguf_tokenizer(file.values(), "made", size).files)
      if (made.name == "tokenizer_config.json" &&
          made.content.find("chat_template") != std::string::npos)
        return made.content.substr(made.content.find("\"chat_template"));
    return std::string("none");
  };
  const auto key = [&](const std::string& name) {
    return GgufReader(scratch_.path("gguf/model.gguf")).value("tokenizer." + name).json();
  };
  EXPECT_EQ(chats("{}"), "none");
  EXPECT_EQ(chats(R"({"chat_template":null})"), "none");
  EXPECT_EQ(chats(R"({"chat_template":"A"})"), R"("chat_template":"A"})");
  EXPECT_EQ(chats(R"({"chat_template":[{"name":"tool_use","template":"B"},)"
                  R"({"name":"default","template":"A"}]})"),
            R"("chat_template":[{"name":"default","template":"A"},)"
            R"({"name":"tool_use","template":"B"}]})");
  EXPECT_EQ(key("chat_template.tool_use"), "\"B\"");
  EXPECT_EQ(chats(R"({"chat_template":[{"name":"rag","template":"C"}]})"),
            R"("chat_template":[{"name":"rag","template":"C"}]})");
  // Lines, quotes and characters of any language stay as they are.
  const std::string odd = R"("{{ \"\u00e9\" }}\n\t'\\n' \u6f22")";
  EXPECT_EQ(chats(concat(R"({"chat_template":)", odd, "}")),
            "\"chat_template\":\"{{ \\\"\u00e9\\\" }}\\n\\t'\\\\n' \u6f22\"}");
  // Newer folders have them in files, before which tokenizer_config.json's does not count.
  EXPECT_EQ(chats("{}", {{"chat_template.jinja", "A\n"}}), R"("chat_template":"A\n"})");
  EXPECT_EQ(chats(R"({"chat_template":"old"})", {{"chat_template.jinja", "A"}}),
            R"("chat_template":"A"})");
  EXPECT_EQ(chats("{}", {{"chat_template.jinja", "A"},
                         {"additional_chat_templates/tool_use.jinja", "B"},
                         {"additional_chat_templates/rag.jinja", "C"}}),
            R"("chat_template":[{"name":"default","template":"A"},)"
            R"({"name":"rag","template":"C"},{"name":"tool_use","template":"B"}]})");
  EXPECT_EQ(key("chat_template"), "\"A\"");
  EXPECT_EQ(key("chat_template.rag"), "\"C\"");
}

// Also of a model without its dummy prefix, which a folder's class would put otherwise; and where
// one is put, that stays too.
TEST_F(GgufTokenizers, KeepThatNoSpaceIsPutInFront) {
  HfParts parts;
  const std::string spaces = R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})",
                    prepend = R"({"type":"Prepend","prepend":"\u2581"})";
  const auto sequence = [](const char* member, const std::string& a, const std::string& b) {
    return concat(R"({"type":"Sequence",")", member, "\":[", a, ",", b, "]}");
  };
  const auto metaspace = [](const char* scheme) {
    return concat(R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":")", scheme,
                  R"(","split":false})");
  };
  parts.decoder =
      R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},)"
      R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"}]})";
  parts.added_tokens = "[" + hf_added(0, "<unk>", "special") + "," + hf_added(1, "<s>", "special") +
                       "," + hf_added(2, "</s>", "special") + "]";
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    const char* const digits = "0123456789ABCDEF";
    bytes += concat(",\"<0x", digits[i / 16], digits[i % 16], ">\":", i + 3);
  }
  parts.model = concat(R"({"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,)",
                       R"("vocab":{"<unk>":0,"<s>":1,"</s>":2)", bytes,
                       R"(,"\u2581":259,"a":260,"b":261,"ab":262},"merges":["a b"]})");
  const auto keeps = [&](const char* class_name, const std::string& more, bool prefix) {
    const std::string config =
        concat(R"({"tokenizer_class":")", class_name, R"(","bos_token":"<s>","eos_token":"</s>",)",
               R"("unk_token":"<unk>","pad_token":"<unk>")", more, "}");
    SCOPED_TRACE(config + parts.normalizer + parts.pre_tokenizer);
    const HfFiles files(parts.text(), config);
    const HfTokenizer original(files.folder());
    const auto tokenizer = back("tokenizer.json", files.json(), original.vocab_size(), config);
    fs::remove_all(scratch_.path("again"));
    make("gguf", "again", "hf");
    const HfTokenizer again(scratch_.path("again"));
    for (const std::string text : {"ab", "ab  a", " b"}) {
      std::vector<std::int32_t> expected, ids, others;
      original.encode(text, expected);
      tokenizer->encode(text, ids);
      again.encode(text, others);
      EXPECT_EQ(ids, expected) << text;
      EXPECT_EQ(others, expected) << text;
      EXPECT_EQ(std::ranges::count(expected, 259) > std::ranges::count(text, ' '), prefix) << text;
    }
    EXPECT_EQ(GgufReader(scratch_.path("gguf/model.gguf"))
                  .value("tokenizer.ggml.add_space_prefix")
                  .json(),
              prefix ? "true" : "false");
  };
  parts.normalizer = spaces;
  keeps("GemmaTokenizer", "", false);
  keeps("PreTrainedTokenizerFast", "", false);
  parts.normalizer = sequence("normalizers", prepend, spaces);
  keeps("PreTrainedTokenizerFast", "", true);
  keeps("LlamaTokenizer", "", true);
  keeps("LlamaTokenizer", R"(,"add_prefix_space":false)", false);
  parts.normalizer = "null";
  parts.pre_tokenizer = metaspace("never");
  keeps("PreTrainedTokenizerFast", "", false);
  parts.pre_tokenizer = metaspace("always");
  keeps("LlamaTokenizer", R"(,"legacy":false,"add_prefix_space":false)", false);
}

// Nor does SentencePiece's own model, where it says so.
TEST_F(GgufTokenizers, KeepThatAModelOfPiecesPutsNoSpace) {
  using Type = SentencePieceModel::Type;
  std::vector<SentencePieceModel::Piece> pieces;
  for (int i = 0; i < 256; ++i) {
    const char* const digits = "0123456789ABCDEF";
    pieces.push_back({concat("<0x", digits[i / 16], digits[i % 16], ">"), 0, Type::byte});
  }
  float score = 0;
  for (const char* piece : {"ab", "\u2581", "a", "b"})
    pieces.push_back({piece, --score, Type::normal});
  for (const bool prefix : {false, true}) {
    const Scratch folder;
    const std::string path = folder.path("tokenizer.model");
    File::create(path).write(small_model(
        SentencePieceModel::Algorithm::bpe, pieces, proto_integer(35, 1),
        proto_bytes(1, "identity") + proto_integer(3, prefix ? 1 : 0) + proto_integer(4, 0)));
    const HfTokenizer original(folder.path(""));
    const auto tokenizer = back("tokenizer.model", path, original.vocab_size(),
                                R"({"tokenizer_class":"LlamaTokenizer","add_prefix_space":)" +
                                    std::string(prefix ? "true}" : "false}"));
    for (const std::string text : {"ab", "ab  a", " b"}) {
      std::vector<std::int32_t> ids, expected;
      tokenizer->encode(text, ids);
      const SentencePieceModelTokenizer pieces_of("Llama2Tokenizer", path);
      pieces_of.encode(text, expected);
      EXPECT_EQ(ids, expected) << text << prefix;
    }
    EXPECT_EQ(GgufReader(scratch_.path("gguf/model.gguf"))
                  .value("tokenizer.ggml.add_space_prefix")
                  .json(),
              prefix ? "true" : "false");
  }
}

TEST_F(GgufTokenizers, OfPiecesAreTheSame) {
  const std::string path = kTestdata + "sentencepiece/bpe.model";
  const SentencePieceModelTokenizer original("Llama2Tokenizer", path);
  const auto tokenizer = back("tokenizer.model", path, original.vocab_size() + 1, "{}");
  EXPECT_EQ(tokenizer->type(), "Llama2Tokenizer");
  EXPECT_EQ(tokenizer->vocab_size(), original.vocab_size());
  EXPECT_EQ(tokenizer->eod(), original.eod());
  for (const std::string& text : texts()) {
    std::vector<std::int32_t> expected, ids;
    original.encode(text, expected);
    tokenizer->encode(text, ids);
    EXPECT_EQ(ids, expected) << text;
  }
}

TEST_F(GgufTokenizers, ThoseThatAreNotKnownStayBehind) {
  const auto problem = [&](const std::function<void(GgufKeyValues&)>& add) {
    GgufKeyValues values;
    add(values);
    GgufWriter(scratch_.path("made.gguf"), values, {}).close();
    const GgufReader file(scratch_.path("made.gguf"));
    const GgufTokenizer found = read_gguf_tokenizer(file.values(), file.path(), 2);
    EXPECT_TRUE(found.files.empty());
    const std::size_t at = found.problem.find("ggml.");
    return at == std::string::npos ? found.problem : found.problem.substr(at);
  };
  const auto tokenizer = [](const char* model, const char* pre, std::vector<std::string> tokens) {
    return [=](GgufKeyValues& to) {
      to.text("tokenizer.ggml.model", model);
      to.text("tokenizer.ggml.pre", pre);
      to.texts("tokenizer.ggml.tokens", tokens);
      to.reals("tokenizer.ggml.scores", {0, 0});
    };
  };
  EXPECT_EQ(problem([](GgufKeyValues&) {}), "");
  EXPECT_EQ(problem(tokenizer("no_vocab", "", {})), "");
  EXPECT_EQ(problem(tokenizer("rwkv", "", {"a", "b"})),
            "ggml.model: is \"rwkv\", expected gpt2, llama or bert");
  EXPECT_EQ(problem(tokenizer("gpt2", "afmoe", {"a", "b"})),
            "ggml.pre: is \"afmoe\", of which no pattern is known");
  EXPECT_EQ(problem(tokenizer("gpt2", "gpt-2", {"a"})), "ggml.tokens: are 1, but the model has 2");
  EXPECT_EQ(problem(tokenizer("gpt2", "gpt-2", {"a", "b"})), "ggml.merges: is not there");
  EXPECT_EQ(problem(tokenizer("gpt2", "gpt-2", {"a", "\xff"})), "ggml.tokens: one is not UTF-8");
  EXPECT_NE(problem(tokenizer("llama", "", {"a", "a"})), "");
  rewrite(tokenizer("rwkv", "", std::vector<std::string>(21, "a")));
  const auto source = open_model(scratch_.path("made.gguf"));
  ASSERT_EQ(source->notes().size(), 1U);
  EXPECT_NE(source->notes()[0].find("gpt2, llama or bert: OUTPUT is left without its tokenizer"),
            std::string::npos);
}

// A model in files as llama.cpp's gguf-split writes them: the key-values are the first's, and only
// what says that they belong together is in each.
class GgufFiles : public GgufModels {
 protected:
  static constexpr int kFiles = 3;
  void SetUp() override {
    GgufModels::SetUp();
    rewrite([](GgufKeyValues&) {});
    for (int i = 0; i < kFiles; ++i) write_file(i);
  }
  std::string name(int i) const { return concat("made-0000", i + 1, "-of-00003.gguf"); }

  // `number`: what the file says that it is.
  void write_file(int i, std::optional<int> number = {}, std::vector<GgufWriter::Entry> more = {},
                  std::optional<std::uint32_t> tensors = {}) {
    const GgufReader original(scratch_.path("made.gguf"));
    GgufKeyValues values;
    values.integer("split.no", static_cast<std::uint32_t>(number.value_or(i)));
    values.integer("split.count", kFiles);
    if (tensors) values.integer("split.tensors.count", *tensors);
    if (i == 0) {
      values.text("general.architecture", "llama");
      for (const auto& [key, value] : original.values())
        if (key.starts_with("llama.") && key != "llama.attention.layer_norm_rms_epsilon")
          values.integer(key, static_cast<std::uint32_t>(value.as_integer(key)));
      values.real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    }
    std::vector<GgufWriter::Entry> entries = std::move(more);
    int k = 0;
    for (const auto& [tensor, stored] : original.tensors())
      if (k++ % kFiles == i) entries.push_back({tensor, GgufType::f32, stored.shape});
    GgufWriter writer(scratch_.path(name(i)), values, entries);
    for (const GgufWriter::Entry& entry : entries) {
      const std::string zeros(static_cast<std::size_t>(entry.shape.numel()) * sizeof(float), '\0');
      writer.write(entry.name, {zeros.data(), DType::f32, entry.shape});
    }
    writer.close();
  }
  std::string problem(int i = 0) {
    std::string line = error_of([&] { GgufReader(scratch_.path(name(i))); });
    while (line.find(scratch_.path("")) != std::string::npos)
      line.erase(line.find(scratch_.path("")), scratch_.path("").size());
    return line;
  }
};

TEST_F(GgufFiles, AreOneModel) {
  make("made.gguf", "one", "core");
  make(name(0), "several", "core");
  EXPECT_EQ(difference("one", "several"), "");
  write_file(0, {}, {},
             static_cast<std::uint32_t>(GgufReader(scratch_.path("made.gguf")).tensors().size()));
  EXPECT_EQ(problem(), "");
}

TEST_F(GgufFiles, MustBeTheModels) {
  EXPECT_EQ(problem(1),
            "65 made-00002-of-00003.gguf: is number 2 of 3 files; expected the first, "
            "-00001-of-00003.gguf");
  write_file(2, 1);
  EXPECT_EQ(problem(), "65 made-00003-of-00003.gguf: split.no: is not 2");
  const std::string first = GgufReader(scratch_.path("made.gguf")).tensors().begin()->first;
  write_file(2, {}, {{first, GgufType::f32, {2, 2}}});
  EXPECT_EQ(problem(), concat("65 made-00003-of-00003.gguf: tensor ", first,
                              ": is in another of the files too"));
  write_file(2);
  write_file(0, {}, {}, 2);
  EXPECT_EQ(problem().substr(0, 66),
            "65 made-00001-of-00003.gguf: split.tensors.count: is 2, but the fi");
  fs::rename(scratch_.path(name(0)), scratch_.path("first.gguf"));
  EXPECT_NE(error_of([&] {
              GgufReader(scratch_.path("first.gguf"));
            }).find("is the first of 3 files, but its name does not end in -00001-of-00003.gguf"),
            std::string::npos);
  write_file(0);
  fs::remove(scratch_.path(name(1)));
  EXPECT_EQ(problem().substr(0, 32), "66 made-00002-of-00003.gguf: can");
}

TEST_F(GgufModels, ChannelsThatTurnOtherwiseAreKept) {
  write("scaled", DType::f32);
  make("hf", "gguf", "gguf");
  const std::string path = scratch_.path("gguf/model.gguf");
  std::string bytes = read_file(path);
  bytes[GgufReader(path).at(kGgufFrequencies).chunks[0].place.offset + 2] ^= 1;
  File::create(path).write(bytes);
  const std::unique_ptr<ModelSource> changed = open_model(path);
  EXPECT_FALSE(changed->config().use_rope_scaling);
  EXPECT_FALSE(changed->config().rope_frequency_factors.empty());
  EXPECT_EQ(error("gguf", "core", "core"), "");
  EXPECT_EQ(error("core", "again", "gguf"), "");
  EXPECT_EQ(GgufReader(scratch_.path("again/model.gguf")).find(kGgufFrequencies) != nullptr, true);
  EXPECT_EQ(open_model(scratch_.path("again"))->config().rope_frequency_factors,
            changed->config().rope_frequency_factors);
}

TEST_F(GgufModels, WhatAnOlmosConfigDoesNotSayIsRefused) {
  const auto write_olmo = [&](float epsilon, float bound) {
    GgufKeyValues to;
    to.text("general.architecture", "olmo");
    for (const auto& [key, value] : {std::pair("block_count", 1),
                                     {"context_length", 64},
                                     {"embedding_length", 32},
                                     {"feed_forward_length", 64},
                                     {"attention.head_count", 4}})
      to.integer(concat("olmo.", key), static_cast<std::uint32_t>(value));
    to.real("olmo.attention.layer_norm_epsilon", epsilon);
    to.real("olmo.attention.clamp_kqv", bound);
    GgufWriter writer(scratch_.path("made.gguf"), to,
                      {{"token_embd.weight", GgufType::f32, {8, 32}}});
    writer.write("token_embd.weight", HostTensor(DType::f32, {8, 32}));
    writer.close();
  };
  write_olmo(1e-6F, 0);
  EXPECT_EQ(refusal(), "78 olmo.attention.layer_norm_epsilon: is 1e-06, expected 1e-05");
  write_olmo(1e-5F, -1);
  EXPECT_TRUE(refusal().starts_with("65 has no tensor blk.0.")) << refusal();
}

TEST_F(GgufModels, WhatIsNotAModelOfOursIsRefused) {
  const auto none = [](GgufKeyValues&) {};
  rewrite(none);
  EXPECT_EQ(refusal(), "");
  fs::remove_all(scratch_.path("out"));
  rewrite(none, {}, "llama.block_count");
  EXPECT_EQ(refusal(), "65 llama.block_count: is not there");
  rewrite([](GgufKeyValues& to) { to.integer("llama.block_count", 1 << 30); }, {},
          "llama.block_count");
  EXPECT_EQ(refusal(), "65 llama.block_count: is 1073741824 in a file of 21 tensors");
  rewrite([](GgufKeyValues& to) { to.integer("llama.expert_count", 8); });
  EXPECT_EQ(refusal(), "65 llama.expert_used_count: is not there");
  rewrite([](GgufKeyValues& to) { to.integer("llama.rope.dimension_count", 4); });
  EXPECT_EQ(refusal(),
            "78 llama.rope.dimension_count: is 4, expected 8 as of all channels of a head");
  rewrite([](GgufKeyValues& to) { to.text("llama.rope.scaling.type", "yarn"); });
  EXPECT_EQ(refusal(), "65 llama.rope.scaling.factor: is not there");
  rewrite([](GgufKeyValues& to) { to.text("llama.rope.scaling.type", "longrope"); });
  EXPECT_EQ(refusal(),
            "78 llama.rope.scaling.type: is \"longrope\", expected none, linear or yarn");
  rewrite([](GgufKeyValues& to) { to.text("llama.rope.scaling.type", "linear"); },
          {{kGgufFrequencies, GgufType::f32, {4}}});
  EXPECT_EQ(refusal(),
            "78 llama.rope.scaling.type: is linear, but channels are slowed by rope_freqs.weight "
            "too");
  rewrite(none, {{kGgufFrequencies, GgufType::f32, {4}}});
  EXPECT_EQ(refusal(), "65 --rope-scaling-factor 0: expected a positive number");
  rewrite(none, {{"blk.0.attn_sinks", GgufType::f32, {4}}});
  EXPECT_EQ(refusal(),
            "65 tensor blk.0.attn_sinks has no place in the model that its settings describe");
  rewrite(none, {}, "blk.1.ffn_up.weight");
  EXPECT_EQ(refusal(), "65 has no tensor blk.1.ffn_up.weight");
  const GgufKeyValues other = [] {
    GgufKeyValues to;
    to.text("general.architecture", "rwkv7");
    return to;
  }();
  GgufWriter(scratch_.path("made.gguf"), other, {}).close();
  EXPECT_EQ(refusal(),
            concat("78 is of architecture \"rwkv7\", expected one of ", gguf_architectures()));
  File::create(scratch_.path("made.gguf")).write("a text");
  EXPECT_EQ(refusal(), "66 is a file, but no GGUF file; expected one, or a model's folder");
  ConvertOptions loader;
  write("llama", DType::f32);
  make("hf", "gguf", "gguf");
  loader.loader = "hf";
  EXPECT_NE(error("gguf", "out", "core", loader).find("is a GGUF file, but --loader is hf"),
            std::string::npos);
  loader.loader = "gguf";
  EXPECT_NE(error("hf", "out", "core", loader).find("but --loader is gguf"), std::string::npos);
}

}  // namespace
}  // namespace mt
