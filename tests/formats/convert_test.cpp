// Checkpoints into other formats and back.
#include "formats/convert.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "ckpt/megatron_checkpoint.h"
#include "ckpt/safetensors.h"
#include "ckpt/torch_tensors.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/row_value.h"
#include "model/config/megatron_args.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

class Family : public Convert, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Of, Family,
    testing::Values(
        "gpt2", "llama", "tied", "mistral", "qwen2", "qwen3", "scaled", "stretched", "nemotron",
        "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_moe_pre", "qwen3_moe_dense", "qwen3_next",
        "qwen3_next_dense", "qwen3_5_text", "glm4_moe", "olmoe", "olmoe_post", "gpt_oss", "gemma",
        "gemma2", "gemma3_text", "olmo2", "phi3", "granite", "smollm3", "cohere", "cohere2",
        "gpt_neox", "gpt_neox_in_turn", "gptj", "gpt_neo", "bloom", "mpt", "hunyuan", "codegen",
        "gpt_bigcode", "gpt_bigcode_heads", "biogpt", "persimmon", "jais2", "phi_norms",
        "vaultgemma", "exaone", "internlm2", "minicpm", "hyperclovax", "cwm", "falcon",
        "falcon_groups", "falcon_in_turn", "phi", "opt", "stablelm", "stablelm_parallel",
        "starcoder2_plain", "stablelm_norms", "cohere_norms", "olmo_clipped", "seed_oss_biases",
        "apertus", "nanochat", "iquestcoder", "youtu", "granite_swa", "starcoder2", "olmo", "olmo3",
        "exaone4", "glm", "glm4", "ernie4_5", "seed_oss", "internlm3", "arcee", "helium",
        "ministral", "ministral3", "dots1", "granitemoe", "granitemoeshared",
        "granitemoeshared_alone", "flex_olmo", "flex_olmo_normalized", "minimax_m2",
        "minimax_m2_all_turn", "glm_lite", "solar_open", "exaone_moe", "exaone_moe_all_see",
        "hunyuan_moe", "hy_v3", "deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "kimi_k2",
        "glm4_moe_further", "deepseek_v3_further", "bert", "mamba", "hybrid", "hybrid_wide",
        "hybrid_experts", "hybrid_experts_latents", "bamba", "granitemoehybrid",
        "granitemoehybrid_dense", "granitemoehybrid_attention", "t5", "t5_gated", "t5_not_scaled",
        "bert_first", "bert_first_masked", "bert_first_pairs", "roberta", "roberta_masked",
        "camembert", "distilbert", "roberta_of_labels", "bert_of_labels", "bert_of_numbers",
        "bert_of_choices", "gpt2_of_labels", "llama_of_labels", "qwen3_of_numbers"),
    [](const auto& param) { return std::string(param.param); });

TEST_P(Family, ComesBackByteForByte) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string kind(name_of(dtype));
    const ModelConfig config = config_named(GetParam());
    write_hugging_face(scratch_.path("hf" + kind), config, dtype);
    ConvertOptions options;
    options.verify = true;
    if (config.mtp_num_layers > 0) options.source.further = config.mtp_num_layers;
    const ConvertReport report = convert("hf" + kind, "core" + kind, "core", options);
    EXPECT_EQ(report.compared, report.rows);
    convert("core" + kind, "back" + kind, "hf", options);
    EXPECT_EQ(content("back" + kind + "/model.safetensors"),
              content("hf" + kind + "/model.safetensors"));
    EXPECT_EQ(content("back" + kind + "/config.json"), content("hf" + kind + "/config.json"));
  }
}

TEST_P(Family, SettingsComeBack) {
  const ModelConfig c = config_named(GetParam());
  const HuggingFaceConfig found =
      parse_hugging_face_config(hugging_face_config(c, DType::bf16, ""), "config.json");
  EXPECT_EQ(found.dtype, DType::bf16);
  ModelConfig back = found.model;
  back.mtp_num_layers = found.further.value_or(0);
  back.make_vocab_size_divisible_by = 8;
  back.complete();
  const auto args_of = [](const ModelConfig& config) {
    PyValue args = PyValue::dict();
    add_model_args(config, DType::f32, args);
    return args;
  };
  const PyValue ours = args_of(c), theirs = args_of(back);
  const std::vector<PyValue>& entries = ours.entries("args");
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const std::string& name = entries[i].as_string("args");
    // Of no effect, or said in another way: a layer's window, query groups without sharing.
    if (name == "window_attn_skip_freq" || name == "num_query_groups" || name == "label_smoothing")
      continue;
    EXPECT_TRUE(*theirs.find(name) == entries[i + 1]) << name;
  }
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    EXPECT_EQ(back.window(layer), c.window(layer));
}

// What Megatron-Core 0.12.1 keeps of them, by section 5 of its checkpoints' inventory, and its main
// of layers with the gated delta rule (core/ssm/gated_delta_net.py).
TEST_F(Convert, KeysOfOtherFamiliesAreMegatrons) {
  struct Key {
    const char *family, *key;
    Shape shape;
  };
  for (const auto& [family, key, shape] :
       {Key{"mixtral", "decoder.layers.mlp.experts.experts.linear_fc1.weight", {2, 4, 80, 16}},
        Key{"mixtral", "decoder.layers.mlp.experts.experts.linear_fc2.weight", {2, 4, 16, 40}},
        Key{"mixtral", "decoder.layers.mlp.router.weight", {2, 4, 16}},
        Key{"mixtral", "decoder.layers.pre_mlp_layernorm.weight", {2, 16}},
        Key{"bert", "encoder.layers.self_attention.linear_qkv.bias", {2, 48}},
        Key{"bert", "embedding.tokentype_embeddings.weight", {2, 16}},
        Key{"bert", "output_layer.bias", {128}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.in_proj.weight.query", {6, 16}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.in_proj.weight.z", {20, 16}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.in_proj.weight.alpha", {4, 16}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.in_proj.layer_norm_weight", {16}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.conv1d.weight.value", {20, 1, 3}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.A_log", {4}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.out_norm.weight", {5}},
        Key{"qwen3_next", "decoder.layers.0.self_attention.out_proj.weight", {16, 20}},
        Key{"qwen3_next", "decoder.layers.1.self_attention.linear_qkv.weight", {72, 16}},
        Key{"mamba", "decoder.layers.1.mixer.in_proj.weight.z", {32, 16}},
        Key{"mamba", "decoder.layers.1.mixer.in_proj.weight.dt", {4, 16}},
        Key{"mamba", "decoder.layers.0.mixer.conv1d.weight.B", {12, 1, 4}},
        Key{"mamba", "decoder.layers.0.mixer.conv1d.bias.x", {32}}}) {
    const std::string folder = concat("core_", family);
    if (!fs::exists(scratch_.path(folder))) {
      write_hugging_face(scratch_.path(concat("hf_", family)), config_named(family), DType::f32);
      convert(concat("hf_", family), folder, "core");
    }
    EXPECT_EQ(DistReader(scratch_.path(folder + "/release")).at(key).shape, shape) << key;
  }
}

// As transformers' class does.
TEST_F(Convert, WhatPredictsAFurtherTokenOfAQwen3NextIsPassedOver) {
  write_hugging_face(scratch_.path("hf"), config_named("qwen3_next"), DType::bf16);
  const auto source = open_tensors(scratch_.path("hf"));
  std::vector<SafetensorsWriter::Entry> entries = {{"mtp.fc.weight", DType::bf16, {16, 32}},
                                                   {"mtp.norm.weight", DType::bf16, {16}}};
  const std::size_t more = entries.size();
  for (const auto& [name, tensor] : source->tensors())
    entries.push_back({name, *tensor.dtype, tensor.shape});
  fs::create_directory(scratch_.path("more"));
  SafetensorsWriter writer(scratch_.path("more"), entries, 1 << 30);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const HostTensor value(entries[i].dtype, entries[i].shape);
    if (i >= more)
      source->read_original(entries[i].name, origin_of(value.view().shape().rank()), value);
    writer.write(entries[i].name, value);
  }
  writer.close();
  fs::copy(scratch_.path("hf/config.json"), scratch_.path("more/config.json"));
  EXPECT_EQ(open_model(scratch_.path("more"))->notes(),
            std::vector{concat(scratch_.path("more"),
                               ": passed over: mtp.*, a layer that predicts a further token")});
  convert("more", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
}

TEST_F(Convert, WhatIsRoundedOfAQwen3NextIsTold) {
  write_hugging_face(scratch_.path("hf"), config_named("qwen3_next"), DType::bf16);
  const auto source = open_tensors(scratch_.path("hf"));
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : source->tensors())
    entries.push_back({name, *tensor.dtype, tensor.shape});
  fs::create_directory(scratch_.path("small"));
  SafetensorsWriter writer(scratch_.path("small"), entries, 1 << 30);
  for (const auto& entry : entries) {
    const HostTensor value(entry.dtype, entry.shape);
    source->read_original(entry.name, origin_of(entry.shape.rank()), value);
    if (entry.name.ends_with("linear_attn.norm.weight"))  // 2^-9 is the last bit of a third
      fill_narrow(value, [](std::int64_t i) { return i < 2 ? 171.0 / 512 : 172.0 / 512; });
    writer.write(entry.name, value);
  }
  writer.close();
  fs::copy(scratch_.path("hf/config.json"), scratch_.path("small/config.json"));
  EXPECT_EQ(open_model(scratch_.path("small"))->notes(),
            std::vector{concat(scratch_.path("small"),
                               ": 2 weights of norms behind the gated delta rule are rounded, as "
                               "Megatron-LM keeps them less 1")});
}

TEST_F(Convert, LayersThatPredictFurtherTokensComeAlongWhereAsked) {
  write_hugging_face(scratch_.path("hf"), config_named("glm4_moe_further"), DType::bf16);
  EXPECT_EQ(open_model(scratch_.path("hf"))->notes(),
            std::vector{concat(scratch_.path("hf"),
                               ": passed over: model.layers.2.*, a layer that predicts a further "
                               "token; see --mtp-num-layers")});
  write_hugging_face(scratch_.path("two"), config_named("deepseek_v3_further"), DType::bf16);
  const std::vector<std::string> notes = open_model(scratch_.path("two"))->notes();
  EXPECT_EQ(std::ranges::count_if(
                notes, [](const std::string& n) { return n.find("passed over") < n.size(); }),
            2);
  convert("two", "two_core", "core");
  write_hugging_face(scratch_.path("plain"), config_named("glm4_moe"), DType::bf16);
  convert("hf", "without", "hf");
  EXPECT_EQ(content("without/config.json"), content("plain/config.json"));
  ConvertOptions options;
  options.source.further = 1;
  convert("hf", "core", "core", options);
  const DistReader core(scratch_.path("core/release"));
  EXPECT_EQ(core.at("mtp.layers.0.eh_proj.weight").shape, Shape({16, 32}));
  EXPECT_EQ(core.at("mtp.layers.0.transformer_layer.mlp.experts.experts.linear_fc2.weight").shape,
            Shape({4, 16, 24}));
  options.source.further = 0;
  convert("core", "left", "hf", options);
  EXPECT_EQ(content("left/model.safetensors"), content("without/model.safetensors"));
  options.source.further = 2;
  EXPECT_EQ(error("hf", "new", "core", options),
            concat("78 ", scratch_.path("hf/config.json"),
                   ": has 1 layers that predict further tokens, expected 2"));
  EXPECT_EQ(error("core", "new", "core", options),
            concat("78 --mtp-num-layers 2: ", scratch_.path("core/release"), " has 1"));
  write_hugging_face(scratch_.path("llama"), config_named("llama"), DType::bf16);
  EXPECT_EQ(error("llama", "new", "core", options),
            concat("78 ", scratch_.path("llama/config.json"),
                   ": has 0 layers that predict further tokens, expected 2"));
}

TEST_F(Convert, WordsOfLayersThatPredictFurtherTokensAreTheModels) {
  write_hugging_face(scratch_.path("hf"), config_named("deepseek_v3_further"), DType::f32);
  std::string file = content("hf/model.safetensors");
  const std::size_t at = file.find("model.layers.3.embed_tokens.weight"),
                    begin = file.find("\"data_offsets\":[", at) + 16;
  const std::size_t offset = std::stoul(file.substr(begin));
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  file[8 + header + offset] ^= 1;
  File::create(scratch_.path("hf/model.safetensors")).write(file);
  ConvertOptions options;
  options.source.further = 2;
  EXPECT_EQ(error("hf", "core", "core", options),
            concat("65 ", scratch_.path("hf"),
                   ": tensor model.layers.3.embed_tokens.weight differs from "
                   "model.embed_tokens.weight, though config.json says that they are one"));
}

TEST_F(Convert, SameBytesForAnyNumberOfThreads) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  for (const int threads : {1, 2, 7}) {
    ConvertOptions options;
    options.threads = threads;
    convert("hf", concat("core", threads), "core", options);
    for (const char* file : {"__0_0.distcp", "__0_3.distcp", "common.pt", ".metadata"})
      EXPECT_EQ(content(concat("core", threads, "/release/", file)),
                content(concat("core1/release/", file)));
  }
}

TEST_F(Convert, WithoutCommonFileNothingIsLost) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  ConvertOptions options;
  options.verify = options.no_common_file = true;
  convert("hf", "core", "core", options);
  EXPECT_FALSE(fs::exists(scratch_.path("core/release/common.pt")));
  convert("core", "back", "hf");
  for (const char* file : {"/model.safetensors", "/config.json"})
    EXPECT_EQ(content(concat("back", file)), content(concat("hf", file)));
  const std::string refused =
      "64 --no-common-pt: torch_dist alone has one; see --saver and --ckpt-format";
  EXPECT_EQ(error("hf", "new", "hf", options), refused);
  options.ckpt_format = "torch";
  EXPECT_EQ(error("hf", "new", "core", options), refused);
}

TEST_F(Convert, VocabularyIsPaddedAnew) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  ConvertOptions options;
  options.make_vocab_size_divisible_by = 5;
  options.target_tensor_parallel = 4;
  convert("hf", "core", "core", options);
  const DistReader reader(scratch_.path("core/release"));
  EXPECT_EQ(reader.at("output_layer.weight").shape, (Shape{40, 16}));
  const HostTensor padding(DType::f32, {19, 16});
  reader.read("output_layer.weight", {21, 0}, padding);
  for (const float value : padding.span<float>()) EXPECT_EQ(value, 0);
  const auto source = open_model(scratch_.path("core"));
  EXPECT_EQ(source->config().vocab_size, 21);
  EXPECT_EQ(source->config().padded_vocab_size, 40);
}

// Each table of a family has as many rows more, all of zeros, and a Hugging Face's folder has none
// of them: tied or not, a bias beside it, of an encoder and a decoder; for ranks, for a divisor
// that nothing else knows, and not at all.
TEST_F(Convert, VocabulariesOfAllFamiliesArePaddedAnew) {
  struct Case {
    const char* family;
    std::int64_t divisor, ranks, rows;
    std::vector<const char*> tables;
  };
  constexpr auto kWords = "embedding.word_embeddings.weight", kOutput = "output_layer.weight",
                 kBias = "output_layer.bias";
  for (const auto& [family, divisor, ranks, rows, tables] :
       {Case{"gpt2", 7, 4, 28, {kWords}}, Case{"tied", 32, 1, 32, {kWords}},
        Case{"llama", 1, 1, 21, {kWords, kOutput}}, Case{"gemma2", 1, 2, 22, {kWords}},
        Case{"bert", 16, 2, 32, {kWords, kBias}}, Case{"mixtral", 128, 1, 128, {kWords, kOutput}},
        Case{"mamba", 25, 1, 25, {kWords}}, Case{"t5", 11, 2, 22, {kWords}}}) {
    SCOPED_TRACE(family);
    const std::string hf = concat("hf_", family), core = concat("core_", family),
                      back = concat("back_", family);
    write_hugging_face(scratch_.path(hf), config_named(family), DType::f32);
    ConvertOptions options;
    options.make_vocab_size_divisible_by = divisor;
    options.target_tensor_parallel = ranks;
    convert(hf, core, "core", options);
    const DistReader reader(scratch_.path(core + "/release"));
    for (const char* table : tables) {
      const Shape shape = reader.at(table).shape;
      EXPECT_EQ(shape[0], rows) << table;
      if (rows == 21) continue;
      const bool is_bias = shape.rank() == 1;
      const HostTensor padding(DType::f32, is_bias ? Shape{rows - 21} : Shape{rows - 21, shape[1]});
      reader.read(table, is_bias ? Shape{21} : Shape{21, 0}, padding);
      for (const float value : padding.span<float>()) EXPECT_EQ(value, 0) << table;
    }
    const auto source = open_model(scratch_.path(core));
    EXPECT_EQ(source->config().vocab_size, 21);
    EXPECT_EQ(source->config().padded_vocab_size, rows);
    convert(core, back, "hf");
    EXPECT_EQ(content(back + "/model.safetensors"), content(hf + "/model.safetensors"));
  }
}

TEST_F(Convert, TheVocabularyIsWhatMegatronGivesTheRanks) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);  // 21 tokens
  ConvertOptions options;
  options.make_vocab_size_divisible_by = 8;
  convert("hf", "core", "core", options);
  options.make_vocab_size_divisible_by.reset();
  const auto rows = [&](const std::string& from, const std::string& to, const char* format,
                        std::int64_t ranks) {
    options.ckpt_format = format;
    options.target_tensor_parallel = ranks;
    options.verify = true;
    convert(from, to, "core", options);
    return open_model(scratch_.path(to))->config().padded_vocab_size;
  };
  EXPECT_EQ(rows("core", "two", "torch", 2), 32);
  EXPECT_EQ(rows("two", "one", "torch", 1), 24);
  EXPECT_EQ(rows("two", "plain", "torch_dcp", 1), 24);
  EXPECT_EQ(rows("two", "back", "torch_dist", 1), 24);
  EXPECT_EQ(rows("one", "more", "torch_dist", 2), 32);
  EXPECT_EQ(rows("more", "kept", "torch_dist", 1), 32);  // what was trained there
}

TEST_F(Convert, OtherTypesRound) {
  write_hugging_face(scratch_.path("hf"), config_named("gpt2"), DType::f32);
  ConvertOptions options;
  options.bf16 = options.verify = true;
  convert("hf", "core", "core", options);
  const DistReader reader(scratch_.path("core/release"));
  EXPECT_EQ(reader.at("decoder.final_layernorm.weight").dtype, DType::bf16);
  EXPECT_EQ(open_model(scratch_.path("core"))->dtype(), DType::bf16);
}

TEST_F(Convert, ShardsAreReadAndWritten) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  const auto source = open_tensors(scratch_.path("hf"));
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : source->tensors())
    entries.push_back({name, *tensor.dtype, tensor.shape});
  fs::create_directory(scratch_.path("shards"));
  SafetensorsWriter writer(scratch_.path("shards"), entries, 4000);
  for (const auto& [name, tensor] : source->tensors()) {
    const HostTensor value(*tensor.dtype, tensor.shape);
    source->read_original(name, origin_of(tensor.shape.rank()), value);
    writer.write(name, value);
  }
  writer.close();
  fs::copy(scratch_.path("hf/config.json"), scratch_.path("shards/config.json"));
  convert("shards", "core", "core");
  convert("core", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
}

// Files of BERT's first days call scales and shifts of norms gamma and beta, and hold what was
// trained beside their words, for which a class has no place.
TEST_F(Convert, BertsOfOldAreRead) {
  struct Old {
    const char* family;
    std::vector<SafetensorsWriter::Entry> more;
    std::string passed_over;
  };
  const Old olds[] = {
      {"bert_first_masked",
       {{"bert.embeddings.position_ids", DType::i64, {1, 8}},
        {"bert.pooler.dense.bias", DType::f32, {16}},
        {"bert.pooler.dense.weight", DType::f32, {16, 16}},
        {"cls.seq_relationship.bias", DType::f32, {2}},
        {"cls.seq_relationship.weight", DType::f32, {2, 16}}},
       "bert.pooler.dense.bias, bert.pooler.dense.weight, cls.seq_relationship.bias, "
       "cls.seq_relationship.weight"},
      {"bert_first_pairs", {}, ""},
      {"bert_first", {{"embeddings.position_ids", DType::i64, {1, 8}}}, ""},
      {"roberta_masked",
       {{"roberta.embeddings.position_ids", DType::i64, {1, 8}},
        {"roberta.pooler.dense.weight", DType::f32, {16, 16}}},
       "roberta.pooler.dense.weight"},
      {"roberta_of_labels",
       {{"roberta.pooler.dense.weight", DType::f32, {16, 16}}},
       "roberta.pooler.dense.weight"}};
  const auto old_name = [](std::string name) {
    for (const auto& [now, then] :
         {std::pair<std::string, std::string>("LayerNorm.weight", "LayerNorm.gamma"),
          {"LayerNorm.bias", "LayerNorm.beta"},
          {"cls.predictions.bias", "cls.predictions.decoder.bias"}})
      if (name.ends_with(now)) return name.replace(name.size() - now.size(), now.size(), then);
    return name;
  };
  for (const auto& [family, more, passed_over] : olds) {
    for (const char* folder : {"hf", "old", "back"}) fs::remove_all(scratch_.path(folder));
    write_hugging_face(scratch_.path("hf"), config_named(family), DType::f32);
    const auto source = open_tensors(scratch_.path("hf"));
    std::vector<SafetensorsWriter::Entry> entries = more;
    for (const auto& [name, tensor] : source->tensors())
      entries.push_back({old_name(name), *tensor.dtype, tensor.shape});
    fs::create_directory(scratch_.path("old"));
    SafetensorsWriter writer(scratch_.path("old"), entries, 1 << 30);
    for (const auto& entry : more) writer.write(entry.name, HostTensor(entry.dtype, entry.shape));
    for (const auto& [name, tensor] : source->tensors()) {
      const HostTensor value(*tensor.dtype, tensor.shape);
      source->read_original(name, origin_of(tensor.shape.rank()), value);
      writer.write(old_name(name), value);
    }
    writer.close();
    fs::copy(scratch_.path("hf/config.json"), scratch_.path("old/config.json"));
    const auto old = open_model(scratch_.path("old"));
    std::string noted;
    for (const std::string& note : old->notes())
      if (note.find("passed over") < note.size()) noted += note;
    EXPECT_EQ(noted, passed_over.empty()
                         ? ""
                         : concat(scratch_.path("old"),
                                  ": passed over, of heads that its class has not: ", passed_over))
        << family;
    convert("old", "back", "hf");
    EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors")) << family;
  }
}

// Writes the tensors of `from` into a folder, under other names and with one of what reads images.
// All experts of each layer as one tensor, by its name: transposed, or as they are.
std::map<std::string, HostTensor> fused_experts(const TensorSource& source, bool transposed) {
  std::map<std::string, HostTensor> fused;
  for (const auto& [name, tensor] : source.tensors()) {
    const std::size_t at = name.find(".experts.");
    if (at == std::string::npos) continue;
    const std::size_t begin = at + std::strlen(".experts."), end = name.find('.', begin);
    const std::string module = name.substr(end + 1);
    const bool down = module.starts_with("down_proj");
    const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1],
                       all = down ? rows : 2 * rows,
                       first = module.starts_with("up_proj") ? rows : 0, experts = 4,
                       expert = std::stoi(name.substr(begin, end - begin));
    const Shape shape = transposed ? Shape{experts, columns, all} : Shape{experts, all, columns};
    const auto entry = fused.try_emplace(
        concat(name.substr(0, begin), down ? "down_proj" : "gate_up_proj"), DType::f32, shape);
    const HostTensor one(DType::f32, tensor.shape);
    source.read_original(name, origin_of(2), one);
    const auto* const from = static_cast<const float*>(one.view().data());
    auto* const to =
        static_cast<float*>(entry.first->second.view().data()) + expert * all * columns;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        to[transposed ? c * all + first + r : (first + r) * columns + c] = from[r * columns + c];
  }
  return fused;
}

// fuses: whether, and how, experts of a layer are one tensor.
void write_image_reader(const std::string& from, const std::string& folder, const std::string& body,
                        const std::string& output, const std::string& images,
                        std::optional<bool> fuses) {
  const auto source = open_tensors(from);
  const std::map<std::string, HostTensor> fused =
      fuses ? fused_experts(*source, *fuses) : std::map<std::string, HostTensor>();
  const auto is_fused = [&](const std::string& name) {
    return fuses && name.find(".experts.") != std::string::npos;
  };
  const auto renamed = [&](const std::string& name) {
    return name == "lm_head.weight" ? output : body + name.substr(std::strlen("model."));
  };
  std::vector<SafetensorsWriter::Entry> entries = {{images, DType::f32, {3}}};
  for (const auto& [name, tensor] : source->tensors())
    if (!is_fused(name)) entries.push_back({renamed(name), *tensor.dtype, tensor.shape});
  for (const auto& [name, tensor] : fused)
    entries.push_back({renamed(name), DType::f32, tensor.view().shape()});
  fs::create_directory(folder);
  SafetensorsWriter writer(folder, entries, 1 << 30);
  writer.write(images, HostTensor(DType::f32, {3}));
  for (const auto& [name, tensor] : fused) writer.write(renamed(name), tensor);
  for (const auto& [name, tensor] : source->tensors()) {
    if (is_fused(name)) continue;
    const HostTensor value(*tensor.dtype, tensor.shape);
    source->read_original(name, origin_of(tensor.shape.rank()), value);
    writer.write(renamed(name), value);
  }
  writer.close();
}

// Of a model that reads images, too, the part that reads texts: under the names of transformers 4,
// of its later releases, and of a Qwen's first ones, whose config.json says all in one.
TEST_F(Convert, PartsThatReadTexts) {
  struct Part {
    const char *type, *text_type, *decoder, *body, *output, *images;
    std::optional<bool> fuses = {};
  };
  const Part parts[] = {
      {"gemma3", "gemma3_text", "gemma3_text", "language_model.model.", "", "vision_tower.w"},
      {"gemma3", "gemma3_text", "gemma3_text", "model.language_model.", "", "model.vision_tower.w"},
      {"gemma3", "gemma3_text", "gemma3_text", "language_model.model.",
       "language_model.lm_head.weight", "vision_tower.w"},
      {"mistral3", "mistral", "mistral", "language_model.model.", "language_model.lm_head.weight",
       "multi_modal_projector.w"},
      {"mistral3", "mistral", "mistral", "model.language_model.", "lm_head.weight",
       "model.vision_tower.w"},
      {"qwen2_vl", nullptr, "qwen2", "model.", "lm_head.weight", "visual.w"},
      {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2", "model.language_model.", "lm_head.weight",
       "model.visual.w"},
      {"qwen3_vl", "qwen3_vl_text", "qwen3", "model.language_model.", "lm_head.weight",
       "model.visual.w"},
      {"qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_moe", "model.language_model.", "lm_head.weight",
       "model.visual.w", true},
      {"qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_moe", "model.language_model.", "lm_head.weight",
       "model.visual.w", false},
      {"glm4v_moe", "glm4v_moe_text", "glm4_moe", "model.language_model.", "lm_head.weight",
       "model.visual.w"},
      {"qwen3_5", "qwen3_5_text", "qwen3_5_text", "model.language_model.", "lm_head.weight",
       "model.visual.w"}};
  int count = 0;
  for (const Part& part : parts) {
    const std::string hf = concat("hf", count), whole = concat("whole", count),
                      text = concat("text", count++);
    ModelConfig config = config_named(part.decoder);
    config.untie_embeddings_and_output_weights = *part.output != '\0';
    if (part.type == std::string_view("glm4v_moe")) config.qk_layernorm = false;
    write_hugging_face(scratch_.path(hf), config, DType::f32);
    write_image_reader(scratch_.path(hf), scratch_.path(whole), part.body, part.output, part.images,
                       part.fuses);
    std::string json = content(hf + "/config.json");
    const std::string own = concat(R"("model_type":")", part.decoder, '"');
    ASSERT_NE(json.find(own), std::string::npos) << json;
    const char* const type = part.text_type == nullptr ? part.type : part.text_type;
    json.replace(json.find(own), own.size(), concat(R"("model_type":")", type, '"'));
    // What is stored counts, not what is said.
    if (const std::string untied = R"("tie_word_embeddings":false)"; *part.output != '\0')
      json.replace(json.find(untied), untied.size(), R"("tie_word_embeddings":true)");
    if (const std::size_t classes = json.find("\"architectures\":"); part.text_type == nullptr)
      json.replace(classes, json.find(']') + 2 - classes, "");
    if (const std::string none = R"("rope_scaling":null)"; json.find(none) != std::string::npos)
      if (std::string_view(type).find("_vl") != std::string_view::npos ||
          std::string_view(type).starts_with("glm4v") || type == std::string_view("qwen3_5_text"))
        json.replace(json.find(none), none.size(),
                     R"("rope_scaling":{"type":"mrope","mrope_section":[1,1,2]})");
    if (part.text_type != nullptr)
      json = concat(R"({"model_type":")", part.type, R"(","text_config":)", json,
                    R"(,"vision_config":{},"image_token_id":3})");
    File::create(scratch_.path(whole + "/config.json")).write(json);
    convert(whole, text, "hf");
    EXPECT_EQ(content(text + "/model.safetensors"), content(hf + "/model.safetensors")) << whole;
    EXPECT_EQ(content(text + "/config.json"), content(hf + "/config.json")) << whole;
    const auto source = open_model(scratch_.path(whole));
    ASSERT_FALSE(source->notes().empty());
    EXPECT_EQ(source->notes().front(),
              concat(scratch_.path(whole + "/config.json"), ": of a ", part.type,
                     " the part that reads texts is the model; what reads images is passed over"));
  }
}

// As to transformers, whatever an index beside it was left of.
TEST_F(Convert, OneFileGoesBeforeAnIndex) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  const std::string index = scratch_.path("hf/model.safetensors.index.json");
  File::create(index).write(R"({"weight_map":{"lm_head.weight":"gone.safetensors"}})");
  convert("hf", "core", "core");
  convert("core", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
}

// Of tensors that are one a writer keeps which it likes.
TEST_F(Convert, TiedWordsMayBeUnderAnotherName) {
  const std::string words = "\"model.embed_tokens.weight\":", output = "\"lm_head.weight\":",
                    file = scratch_.path("hf/model.safetensors");
  write_hugging_face(scratch_.path("hf"), config_named("tied"), DType::f32);
  const std::string usual = content("hf/model.safetensors");
  std::string other = usual;
  const std::string same_size = output + std::string(words.size() - output.size(), ' ');
  other.replace(other.find(words), words.size(), same_size);
  write_file_atomically(file, other, true);
  convert("hf", "core", "core");
  convert("core", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), usual);
  write_hugging_face(scratch_.path("untied"), config_named("llama"), DType::f32);
  other = content("untied/model.safetensors");
  other.replace(other.find(words) + words.find("tokens"), 6, "tokenz");
  const std::string none = scratch_.path("untied/model.safetensors");
  write_file_atomically(none, other, true);
  EXPECT_EQ(error("untied", "core2", "core"),
            concat("65 ", none, ": has no tensor model.embed_tokens.weight"));
}

TEST(RowMemory, HoldsRowsBackUntilThereIsPlace) {
  RowMemory memory(100);
  std::atomic<int> held = 0, most = 0;
  const auto hold = [&](int bytes) {
    for (int i = 0; i < 200; ++i) {
      const RowMemory::Place place(memory, static_cast<std::uint64_t>(bytes));
      const int now = held += bytes;
      for (int known = most; now > known && !most.compare_exchange_weak(known, now);) {
      }
      std::this_thread::yield();
      held -= bytes;
    }
  };
  std::vector<std::thread> threads;
  for (const int bytes : {30, 40, 50, 100}) threads.emplace_back(hold, bytes);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 100);
  const RowMemory::Place alone(memory, 1000);  // of any size
}

TEST(RowMemory, BuffersAreUsedAgain) {
  RowMemory memory(1 << 20);
  Buffer first = memory.take_buffer(5000);
  const void* const address = first.data();
  memory.give_buffer(std::move(first));
  first = memory.take_buffer(5000);
  EXPECT_EQ(first.data(), address);
  memory.give_buffer(std::move(first));
  EXPECT_EQ(memory.take_buffer(4000).bytes(), 4000u);
  EXPECT_GE(memory.take_buffer(6000).bytes(), 6000u);
}

// --- What is refused ----------------------------------------------------------------------------

// Writes the folder's tensors again, as `change` leaves them.
void rewrite(const std::string& folder,
             const std::function<void(std::vector<SafetensorsWriter::Entry>&)>& change) {
  std::vector<SafetensorsWriter::Entry> entries;
  const std::map<std::string, DistTensor> tensors = open_tensors(folder)->tensors();
  for (const auto& [name, tensor] : tensors) entries.push_back({name, *tensor.dtype, tensor.shape});
  change(entries);
  SafetensorsWriter writer(folder, entries, 1 << 30);
  for (const auto& entry : entries) writer.write(entry.name, HostTensor(entry.dtype, entry.shape));
  writer.close();
}

TEST_F(Convert, TensorsMustBeTheModels) {
  const std::string hf = scratch_.path("hf"), core = scratch_.path("core");
  write_hugging_face(hf, config_named("tied"), DType::f32);
  rewrite(hf, [](auto& entries) { entries.push_back({"score.weight", DType::f32, {2, 16}}); });
  EXPECT_EQ(error("hf", "core", "core"),
            concat("65 ", hf,
                   ": tensor score.weight has no place in the model that its settings describe"));
  rewrite(hf, [](auto& entries) {
    std::erase_if(entries, [](const auto& entry) { return entry.name == "score.weight"; });
    entries.push_back({"lm_head.weight", DType::f32, {21, 16}});
  });
  EXPECT_EQ(error("hf", "core", "core"), "");
  rewrite(hf, [](auto& entries) {
    std::erase_if(entries, [](const auto& entry) { return entry.name == "lm_head.weight"; });
    entries.push_back({"lm_head.weight", DType::f32, {20, 16}});
  });
  EXPECT_EQ(error("hf", "core2", "core"),
            concat("65 ", hf,
                   ": tensor lm_head.weight differs from model.embed_tokens.weight, "
                   "though config.json says that they are one"));
  rewrite(hf, [](auto& entries) {
    std::erase_if(entries, [](const auto& entry) { return entry.name == "model.norm.weight"; });
  });
  EXPECT_EQ(error("hf", "core2", "core"),
            concat("65 ", hf, "/model.safetensors: has no tensor model.norm.weight"));
  EXPECT_FALSE(fs::exists(scratch_.path("core2")));
}

TEST_F(Convert, ShapesMustBeTheModels) {
  const std::string hf = scratch_.path("hf");
  write_hugging_face(hf, config_named("llama"), DType::f32);
  rewrite(hf, [](auto& entries) { entries.back().shape = {17}; });
  EXPECT_EQ(error("hf", "core", "core"),
            concat("65 ", hf, ": tensor model.norm.weight is [17], expected [16]"));
  EXPECT_FALSE(fs::exists(scratch_.path("core")));
}

TEST_F(Convert, LayoutsAreOfFormatsThatHaveThem) {
  const auto refusal = [&](const std::string& saver, auto ConvertOptions::*option, auto value) {
    ConvertOptions options;
    options.*option = value;
    return error("hf", "out", saver, options);
  };
  EXPECT_EQ(refusal("hf", &ConvertOptions::ckpt_format, "torch"),
            "64 --ckpt-format torch: means nothing with --saver hf");
  EXPECT_EQ(refusal("gguf", &ConvertOptions::target_tensor_parallel, 2),
            "64 --target-tensor-parallel-size 2: means nothing with --saver gguf");
  EXPECT_EQ(refusal("meta", &ConvertOptions::target_pipeline_parallel, 2),
            "64 --target-pipeline-parallel-size 2: means nothing with --saver meta");
  EXPECT_EQ(refusal("meta", &ConvertOptions::target_expert_parallel, 2),
            "64 --target-expert-parallel-size 2: means nothing with --saver meta");
  EXPECT_EQ(refusal("hf", &ConvertOptions::transformer_impl, "local"),
            "64 --saver-transformer-impl local: means nothing with --saver hf");
  EXPECT_EQ(refusal("meta", &ConvertOptions::shard_megabytes, 5),
            "64 --shard-size 5: means nothing with --saver meta");
  EXPECT_EQ(refusal("hf", &ConvertOptions::make_vocab_size_divisible_by, 64),
            "64 --make-vocab-size-divisible-by: means nothing with --saver hf");
  PipelineOptions stages;
  stages.layout = "Et|tL";
  EXPECT_EQ(refusal("gguf", &ConvertOptions::pipeline, stages),
            "64 --pipeline-model-parallel-layout: means nothing with --saver gguf");
  stages = {.account_for_loss = true};
  EXPECT_EQ(refusal("gguf", &ConvertOptions::pipeline, stages),
            "64 --account-for-loss-in-pipeline-split: means nothing with --saver gguf");
}

// Another program makes OUTPUT while this one is at work.
TEST_F(Convert, NothingIsSaidTwiceOrForNothing) {
  ConvertOptions options;
  options.input = "a";
  EXPECT_EQ(error("hf", "out", "core", options),
            concat("64 --load-dir ", scratch_.path("hf"), ": not with a, which says the same"));
  options.input.clear();
  options.seed = 5;
  EXPECT_EQ(error("hf", "out", "core", options),
            "64 --seed: is of --mock, --upcycle, --hybrid-layer-pattern and --vision-tower");
  options.mock = true;
  options.source.vocab_size = 5;
  EXPECT_EQ(error("hf", "out", "core", options),
            "64 --true-vocab-size: not with --mock, which knows of INPUT's config.json alone");
}

TEST_F(Convert, NumbersTooLargeForFloat16AreRefused) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  ConvertOptions options;
  options.fp16 = true;
  EXPECT_EQ(error("hf", "core", "core", options), "");
  std::string file = content("hf/model.safetensors");
  const float large = 65520;  // the last element; 65519 would be rounded to 65504
  std::memcpy(file.data() + file.size() - sizeof large, &large, sizeof large);
  File::create(scratch_.path("hf/model.safetensors")).write(file);
  EXPECT_EQ(error("hf", "out", "core", options),
            concat("78 ", scratch_.path("hf"),
                   ": output_layer.weight: 1 numbers are infinite or too large for "
                   "float16, which ends at 65504; see --dtype"));
  EXPECT_FALSE(fs::exists(scratch_.path("out")));
  options.fp16 = false;
  EXPECT_EQ(error("hf", "out", "core", options), "");
}

TEST_F(Convert, LoaderMustBeWhatIsThere) {
  write_hugging_face(scratch_.path("hf"), config_named("gpt2"), DType::f32);
  ConvertOptions options;
  options.loader = "core";
  EXPECT_EQ(error("hf", "core", "core", options),
            concat("78 ", scratch_.path("hf"), ": is Hugging Face's, but --loader is core"));
  options.loader = "hf";
  options.model_type = "BERT";
  EXPECT_EQ(error("hf", "core", "core", options),
            concat("78 ", scratch_.path("hf"), ": is no BERT, but --model-type is BERT"));
}

struct Refusal {
  const char *json, *error;
};

TEST(HuggingFaceConfigTest, WhatGptHasNotIsRefused) {
  const std::string llama =
      R"("model_type":"llama","hidden_size":16,"num_attention_heads":2,"num_hidden_layers":1,)"
      R"("intermediate_size":8,"max_position_embeddings":8,"vocab_size":9)";
  const Refusal refusals[] = {
      {R"({"model_type":"bert","position_embedding_type":"relative_key"})",
       "\"position_embedding_type\" is \"relative_key\", expected \"absolute\""},
      {R"({"model_type":"roberta","architectures":["RobertaForQuestionAnswering"]})",
       "architecture \"RobertaForQuestionAnswering\" is not supported, but RobertaModel, "
       "RobertaForMaskedLM, RobertaForSequenceClassification and RobertaForMultipleChoice are"},
      {R"({"model_type":"mpnet"})",
       "model_type \"mpnet\" is an encoder that is not supported; bert, roberta, xlm-roberta, "
       "camembert, distilbert are"},
      {R"({"model_type":"bloom","apply_residual_connection_post_layernorm":true})",
       "\"apply_residual_connection_post_layernorm\" is true, which is not supported"},
      {R"({"model_type":"phimoe"})",
       "model_type \"phimoe\" has routers that choose one expert after another among few "
       "(sparsemixer), which is not supported"},
      {R"({"model_type":"longcat_flash"})",
       "model_type \"longcat_flash\" has experts that compute nothing, and layers with two "
       "attentions, which is not supported"},
      {R"({"model_type":"glm_moe_dsa"})",
       "model_type \"glm_moe_dsa\" has attention to keys that an indexer chooses, which is not "
       "supported"},
      {R"({"model_type":"minicpm3"})",
       "model_type \"minicpm3\" has latent attention with longrope, which is not supported"},
      {R"({"model_type":"ernie4_5_moe"})",
       "model_type \"ernie4_5_moe\" has biases that choose experts by a softmax, which is not "
       "supported"},
      {R"({"model_type":"xglm"})",
       "model_type \"xglm\" is not known; expected gpt2, llama, mistral, mixtral, gemma, gemma2, "
       "vaultgemma, gemma3_text, olmo2, olmo3, exaone, exaone4, glm, glm4, ernie4_5, seed_oss, "
       "internlm2, internlm3, arcee, helium, ministral, ministral3, phi3, apertus, nanochat, "
       "iquestcoder, granite, granite_swa, "
       "hunyuan_v1_dense, "
       "hyperclovax, minicpm, cwm, smollm3, cohere, cohere2, qwen2, qwen3, qwen2_moe, qwen3_moe, "
       "qwen3_next, qwen3_5_text, glm4_moe, dots1, granitemoe, granitemoeshared, olmoe, flex_olmo, "
       "minimax_m2, gpt_oss, deepseek_v2, "
       "deepseek_v3, "
       "kimi_k2, glm4_moe_lite, solar_open, exaone_moe, hunyuan_v1_moe, hy_v3, youtu, nemotron, "
       "gpt_neox, gptj, codegen, gpt_bigcode, gpt_neo, bloom, mpt, falcon, phi, opt, biogpt, "
       "persimmon, jais2, stablelm, starcoder2, olmo, megatron-bert, bert, roberta, xlm-roberta, "
       "camembert, distilbert, mamba2, nemotron_h, bamba, granitemoehybrid, t5, vit, "
       "clip_vision_model, "
       "siglip_vision_model, internvl_vision, radio, llava or internvl"},
      {R"({"model_type":"gemma3","text_config":{"model_type":"gemma2"}})",
       "text_config: model_type \"gemma2\" is not supported in a gemma3; expected gemma3_text"},
      {R"({"model_type":"gemma3","architectures":["Gemma3ForSequenceClassification"]})",
       "architecture \"Gemma3ForSequenceClassification\" is not supported, but "
       "...ForConditionalGeneration is"},
      {R"({"model_type":"qwen2_5_vl","text_config":{}})", "text_config: no \"vocab_size\""},
      {R"({"model_type":"internvl_chat"})",
       "model_type \"internvl_chat\" is InternVL in the form of its makers; transformers' own is "
       "read, internvl"},
      {R"({"model_type":"intern_vit_6b"})",
       "model_type \"intern_vit_6b\" is InternViT in the form of its makers; transformers' own is "
       "read, internvl_vision"},
      {R"({"model_type":"clip"})",
       "model_type \"clip\" reads texts, too: of its parts the tower of images is read, "
       "clip_vision_model"},
      {R"({"model_type":"llava_next"})",
       "model_type \"llava_next\" cuts an image into several by its sides, which is not supported; "
       "llava is"},
      {R"({"model_type":"falcon_h1"})",
       "model_type \"falcon_h1\" has layers of a kind that Megatron's hybrids have not"},
      {R"({"model_type":"granitemoehybrid"})",
       "\"rms_norm_eps\" is 1e-06 where it is not said, expected 1e-05"},
      {R"({"model_type":"granitemoehybrid","rms_norm_eps":1e-5,"num_experts_per_tok":1})",
       "\"num_experts_per_tok\" is 1, expected more"},
      {R"({"model_type":"granitemoehybrid","num_hidden_layers":1,"layer_types":["mlp"]})",
       "\"layer_types\": expected mamba or attention for each of 1 layers"},
      {R"({"model_type":"deepseek_v3","rope_interleave":false})",
       "\"rope_interleave\" is false, which is not supported"},
      {R"({"model_type":"deepseek_v3","num_key_value_heads":2})",
       "\"num_key_value_heads\" is 2, expected 128, as many as heads"},
      {R"({"model_type":"deepseek_v3","rope_scaling":{"type":"linear","factor":2}})",
       "rope_scaling: rope_type \"linear\": expected default or yarn"},
      {R"({"model_type":"deepseek_v2","num_experts_per_tok":2,"norm_topk_prob":true})",
       "\"norm_topk_prob\" is true, which is not supported"},
      {R"({"model_type":"glm4_moe","n_group":2})",
       "\"topk_group\" is 1 for 8 experts, expected half as many: a group's score is the sum of "
       "its "
       "best two"},
      {R"({"model_type":"gpt_oss","swiglu_alpha":1.5})", "\"swiglu_alpha\" is 1.5, expected 1.702"},
      {R"({"model_type":"gpt_oss","attention_bias":false})",
       "\"attention_bias\" is false, which is not supported"},
      {R"({"model_type":"olmoe","clip_qkv":8.0})",
       "\"clip_qkv\": expected null: no bound is known of queries"},
      {R"({"model_type":"glm4_moe","norm_topk_prob":false})",
       "\"norm_topk_prob\" is false, which is not supported"},
      {R"({"model_type":"qwen3_moe","decoder_sparse_step":0})",
       "\"decoder_sparse_step\" is 0, expected at least 1"},
      {R"({"model_type":"qwen3_moe","mlp_only_layers":["a"]})",
       "\"mlp_only_layers\": expected a list of layers"},
      {R"({})", "no \"model_type\""},
      {R"(,"hidden_act":"gelu"})", "\"hidden_act\" is \"gelu\", expected \"silu\""},
      {R"(,"rope_theta":0.5})", "\"rope_theta\" is 0.5, expected at least 1"},
      {R"(,"num_key_value_heads":1.5})",
       "\"num_key_value_heads\": expected a number from 0 to 2147483647"},
      {R"(,"rope_scaling":{"type":"ntk","factor":2}})",
       "rope_scaling: rope_type \"ntk\": expected default, linear, dynamic, llama3, yarn or "
       "longrope"},
      {R"(,"rope_parameters":{"sliding_attention":{}}})",
       "rope_parameters: \"sliding_attention\" is not supported"},
      {R"(,"torch_dtype":"float8_e4m3fn"})",
       "\"torch_dtype\" is \"float8_e4m3fn\", expected a floating-point type"},
      {R"(,"vocab_size":10})", "\"vocab_size\" is there twice"},
      {R"({"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":2,"n_positions":8,"vocab_size":9,)"
       R"("scale_attn_by_inverse_layer_idx":true})",
       "\"scale_attn_by_inverse_layer_idx\" is true, which is not supported"},
      {R"({"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":2,"n_positions":8,"vocab_size":9,)"
       R"("activation_function":"relu"})",
       "\"activation_function\" is \"relu\", expected \"gelu\""},
  };
  for (const Refusal& refusal : refusals) {
    const std::string json =
        refusal.json[0] == ',' ? concat("{", llama, refusal.json) : refusal.json;
    EXPECT_EQ(error_of([&] { parse_hugging_face_config(json, "c"); }),
              concat("65 c: ", refusal.error))
        << json;
  }
}

// The 4th generation of transformers writes Infinity into what it says of Mamba-2 and Nemotron-H.
TEST_F(Convert, NumbersThatPythonWritesTravel) {
  write_hugging_face(scratch_.path("hf"), config_named("mamba"), DType::f32);
  const std::string config = content("hf/config.json");
  const auto limited = [&](const std::string& limit) {
    const std::string more =
        concat(",\"time_step_limit\":[0.0,", limit, "],\"note\":\"\\\"Infinity\"}\n");
    File::create(scratch_.path("hf/config.json")).write(config.substr(0, config.rfind('}')) + more);
    for (const char* folder : {"core", "back"}) fs::remove_all(scratch_.path(folder));
    const std::string refused = error("hf", "core", "core");
    if (!refused.empty()) return refused;
    convert("core", "back", "hf");
    return content("back/config.json").ends_with(more) ? std::string()
                                                       : content("back/config.json");
  };
  for (const char* limit : {"Infinity", "{\"__float__\":\"Infinity\"}", "1e+30"})
    EXPECT_EQ(limited(limit), "") << limit;
  for (const char* limit : {"0.1", "-Infinity", "NaN", "null"})
    EXPECT_EQ(limited(limit), concat("65 ", scratch_.path("hf"),
                                     "/config.json: \"time_step_limit\" bounds the time "
                                     "steps, which Megatron does not do"))
        << limit;
}

TEST(HuggingFaceConfigTest, ModelsThatTransformersHasNotAreRefused) {
  const auto refusal = [](const std::function<void(ModelConfig&)>& change) {
    ModelConfig c = config_named("llama");
    change(c);
    return error_of([&] { hugging_face_config(c, DType::f32, ""); });
  };
  const std::string end = ": no model of transformers has that";
  EXPECT_EQ(refusal([](ModelConfig& c) { c.rotary_interleaved = true; }),
            "78 --rotary-interleaved" + end);
  EXPECT_EQ(refusal([](ModelConfig& c) { c.position_embedding_type = "none"; }),
            "78 --position-embedding-type none" + end);
  EXPECT_EQ(refusal([](ModelConfig& c) {
              c.rotary_percent = 0.5;
              c.qk_layernorm = true;
            }),
            "78 --qk-layernorm: no phi3 of transformers has that");
  EXPECT_EQ(refusal([](ModelConfig& c) {
              c = config_named("gemma2");
              c.embedding_mult = 5;
            }),
            "78 --embedding-mult: no gemma2 of transformers has that");
  EXPECT_EQ(refusal([](ModelConfig& c) {
              c = config_named("nemotron");
              c.final_logit_softcapping = 5;
            }),
            "78 --final-logit-softcapping" + end);
  EXPECT_EQ(refusal([](ModelConfig& c) { c.position_embedding_type = "learned_absolute"; }),
            "78 learned positions without GeLU" + end);
  EXPECT_EQ(refusal([](ModelConfig& c) { c.swiglu = false; }),
            "78 rotary positions without --swiglu and plain RMSNorm" + end);
}

TEST(HuggingFaceConfigTest, OtherMembersAreKept) {
  const std::string json =
      hugging_face_config(config_named("llama"), DType::f32,
                          R"({"model_type":"llama","bos_token_id":7,"vocab_size":1,"x":{"y": 1}})");
  EXPECT_NE(json.find(R"("bos_token_id":7,"x":{"y":1}})"), std::string::npos) << json;
  EXPECT_EQ(json.find(R"("vocab_size":1,)"), std::string::npos) << json;
  const std::string other = hugging_face_config(config_named("llama"), DType::f32,
                                                R"({"model_type":"gpt2","bos_token_id":7})");
  EXPECT_EQ(other.find("bos_token_id"), std::string::npos) << other;
}

}  // namespace
}  // namespace mt
