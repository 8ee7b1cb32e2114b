// Checkpoints of Megatron-LM's models from before Megatron-Core.
#include "formats/megatron/legacy_classes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "ckpt/megatron_checkpoint.h"
#include "ckpt/torch_file.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

struct Old {
  const char* family;
  double version;
  std::int64_t tp, pp;
};

// Rows [heads, 3, D] as an older version has them.
void to_old_order(Tensor old, ConstTensor today, double version, std::int64_t heads) {
  const std::int64_t rows = today.shape()[0], d = rows / 3 / heads;
  const std::size_t row = today.bytes() / static_cast<std::size_t>(rows);
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t part = 0; part < 3; ++part)
      for (std::int64_t i = 0; i < d; ++i) {
        const std::int64_t from = (head * 3 + part) * d + i,
                           to = version == 0   ? (part * heads + head) * d + i
                                : version == 1 ? (head * d + i) * 3 + part
                                               : from;
        std::memcpy(
            static_cast<std::byte*>(old.data()) + static_cast<std::size_t>(to) * row,
            static_cast<const std::byte*>(today.data()) + static_cast<std::size_t>(from) * row,
            row);
      }
}

class Legacy : public Convert, public testing::WithParamInterface<Old> {
 protected:
  // What the ranks in "ranks/release" hold, as the older classes have it.
  void make_older() {
    const std::string folder = scratch_.path("ranks/release");
    fs::remove(folder + "/mt-manifest.json");
    for (const auto& entry : fs::directory_iterator(folder))
      if (fs::exists(entry.path() / "model_optim_rng.pt")) make_older(entry.path().string() + "/");
  }

  void make_older(const std::string& folder) {
    const std::string path = folder + "model_optim_rng.pt";
    std::string older;
    {
      const MappedFile mapped(path);
      const TorchReader file(mapped.bytes(), path);
      TorchWriter writer;
      PyValue state = PyValue::dict({{"args", older_args(file.value().at("args", path))},
                                     {"iteration", 0},
                                     {"model", older_model(file, writer)}});
      if (GetParam().version > 0) state.set_item("checkpoint_version", GetParam().version);
      writer.write(state, "model_optim_rng", [&](Bytes bytes) { older += as_text(bytes); });
    }
    File::create(path).write(older);
  }

  static PyValue older_args(const PyValue& args) {
    PyValue older = PyValue::dict();
    const std::vector<PyValue>& entries = args.entries("args");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
      std::string name = entries[i].as_string("args");
      if (GetParam().version < 3 && name == "tensor_model_parallel_size")
        name = "model_parallel_size";
      if (name == "norm_epsilon") name = "layernorm_epsilon";
      older.set_item(name, entries[i + 1]);
    }
    return PyValue::make(PyValue::global("argparse", "Namespace"), older);
  }

  // {language_model: {embedding: {word_embeddings: {weight}}, encoder: {...}}, ...}
  static PyValue older_model(const TorchReader& file, TorchWriter& writer) {
    const bool oldest = GetParam().version == 0;
    PyValue words = PyValue::dict(), positions = PyValue::dict(), types = PyValue::dict(),
            encoder = PyValue::dict(), pooler = PyValue::dict(), output = PyValue::dict(),
            head = PyValue::dict(), binary = PyValue::dict(), copy = PyValue::dict();
    const std::vector<PyValue>& entries = file.value().at("model", "").entries("");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
      const std::string& name = entries[i].as_string("");
      if (!TorchReader::is_tensor(entries[i + 1])) continue;  // extra states
      const StoredTensor stored = file.tensor(entries[i + 1]);
      const HostTensor today(stored.dtype, stored.shape), old(stored.dtype, stored.shape);
      stored.copy_to(today.view());
      const bool reordered =
          name.find("linear_qkv.") != std::string::npos && GetParam().version < 2;
      if (reordered) to_old_order(old.view(), today.view(), GetParam().version, 4 / GetParam().tp);
      const PyValue tensor = writer.tensor(reordered ? old.view() : today.view());
      const std::string last = name.substr(name.rfind('.') + 1);
      if (name.find("word_embeddings") != std::string::npos) words.set_item(last, tensor);
      if (name.find("position_embeddings") != std::string::npos) positions.set_item(last, tensor);
      if (name.find("tokentype") != std::string::npos) types.set_item(last, tensor);
      if (name.starts_with("pooler.")) pooler.set_item(name.substr(7), tensor);
      if (name.starts_with("binary_head.")) binary.set_item(last, tensor);
      if (name == "output_layer.bias") head.set_item("bias", tensor);
      if (name == "output_layer.weight")
        (GetParam().pp > 1 && std::strcmp(GetParam().family, "llama") != 0 ? copy : output)
            .set_item("weight", tensor);
      if (name.starts_with("lm_head."))
        head.set_item(renamed(name.substr(8), {{"layer_norm", oldest ? "layernorm" : "norm"}}),
                      tensor);
      if (const std::size_t dot = name.find("coder."); dot == 2)
        encoder.set_item(
            renamed(name.substr(8), {{"input_layernorm", oldest ? "input_layernorm" : "input_norm"},
                                     {"pre_mlp_layernorm",
                                      oldest ? "post_attention_layernorm" : "post_attention_norm"},
                                     {"final_layernorm", oldest ? "final_layernorm" : "final_norm"},
                                     {"linear_qkv", "query_key_value"},
                                     {"linear_proj", "dense"},
                                     {"linear_fc1", "dense_h_to_4h"},
                                     {"linear_fc2", "dense_4h_to_h"},
                                     {"self_attention", oldest ? "attention" : "self_attention"}}),
            tensor);
    }
    PyValue embedding = PyValue::dict(), language = PyValue::dict(), model = PyValue::dict();
    const auto add = [](PyValue& to, const char* key, const PyValue& value) {
      if (!value.entries("").empty()) to.set_item(key, value);
    };
    add(embedding, "word_embeddings", words);
    add(embedding, "position_embeddings", positions);
    add(embedding, "tokentype_embeddings", types);
    add(language, "embedding", embedding);
    add(language, oldest ? "transformer" : "encoder", encoder);
    add(language, "pooler", pooler);
    add(language, "output_layer", output);
    add(model, "language_model", language);
    add(model, "word_embeddings_for_head", copy);
    add(model, "lm_head", head);
    add(model, "binary_head", binary);
    return model;
  }

  static std::string renamed(std::string name,
                             const std::vector<std::pair<std::string, std::string>>& names) {
    for (const auto& [from, to] : names)
      if (const std::size_t at = name.find(from); at != std::string::npos)
        name.replace(at, from.size(), to);
    return name;
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, Legacy,
                         testing::Values(Old{"tied", 0, 1, 1}, Old{"gpt2", 0, 2, 1},
                                         Old{"gpt2", 1, 2, 1}, Old{"gpt2", 2, 4, 1},
                                         Old{"gpt2", 3, 2, 2}, Old{"llama", 3, 2, 2},
                                         Old{"bert", 0, 2, 1}, Old{"bert", 3, 2, 2}),
                         [](const auto& p) {
                           return concat(p.param.family, "_version", p.param.version, "_",
                                         p.param.tp, "_", p.param.pp);
                         });

TEST_P(Legacy, BecomesCore) {
  const auto [family, version, tp, pp] = GetParam();
  ModelConfig config = config_named(family);
  if (version < 3) config.group_query_attention = false;  // which is younger
  config.complete();
  write_hugging_face(scratch_.path("hf"), config, DType::bf16);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.transformer_impl = "local";
  options.target_tensor_parallel = tp;
  options.target_pipeline_parallel = pp;
  convert("hf", "ranks", "core", options);
  make_older();
  options = {};
  options.verify = true;
  options.loader = version < 3 ? "megatron" : "legacy";
  const ConvertReport report = convert("ranks", "core", "core", options);
  EXPECT_EQ(report.from, "legacy");
  EXPECT_EQ(report.compared, report.rows);
  convert("core", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  EXPECT_EQ(content("back/config.json"), content("hf/config.json"));
  options.loader = "mcore";  // core, in convert.py
  EXPECT_TRUE(error("ranks", "out", "core", options)
                  .ends_with("is of Megatron's legacy classes, but --loader is core"));
}

// As the ranks of version 3 above have them.
TEST_F(Convert, LegacyClassesAreWritten) {
  for (const auto& [family, tp, pp] :
       {std::tuple("gpt2", 2, 2), {"tied", 1, 2}, {"llama", 2, 1}, {"bert", 2, 2}}) {
    SCOPED_TRACE(family);
    write_hugging_face(scratch_.path("hf"), config_named(family), DType::bf16);
    ConvertOptions options;
    options.target_tensor_parallel = tp;
    options.target_pipeline_parallel = pp;
    options.verify = true;
    const ConvertReport report = convert("hf", "old", "legacy", options);
    EXPECT_EQ(report.to, "legacy");
    EXPECT_EQ(report.compared, report.rows);
    options = {};
    options.loader = "legacy";
    convert("old", "back", "hf", options);
    EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
    for (const char* folder : {"hf", "old", "back"}) fs::remove_all(scratch_.path(folder));
  }
}

TEST_F(Convert, LegacyClassesNestTheirTensors) {
  write_hugging_face(scratch_.path("hf"), config_named("bert"), DType::bf16);
  ConvertOptions options;
  options.target_pipeline_parallel = 2;
  convert("hf", "old", "megatron", options);
  const auto names = [&](const char* rank, std::initializer_list<const char*> dicts) {
    const std::string path = scratch_.path(concat("old/release/", rank, "/model_optim_rng.pt"));
    const MappedFile file(path);
    const TorchReader reader(file.bytes(), path);
    EXPECT_EQ(reader.value().at("checkpoint_version", "").as_real(""), 3);
    EXPECT_TRUE(reader.value().at("args", "").at("use_legacy_models", "").as_bool(""));
    PyValue dict = reader.value().at("model", "");
    for (const char* key : dicts) dict = PyValue(dict.at(key, ""));
    std::string found;
    const std::vector<PyValue>& entries = dict.entries("");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) found += entries[i].as_string("") + ' ';
    return found;
  };
  const char *first = "mp_rank_00_000", *last = "mp_rank_00_001";
  EXPECT_EQ(names(first, {}), "language_model ");
  EXPECT_EQ(names(first, {"language_model", "embedding"}),
            "word_embeddings position_embeddings tokentype_embeddings ");
  EXPECT_EQ(names(first, {"language_model", "encoder"}),
            "layers.0.input_norm.weight layers.0.input_norm.bias "
            "layers.0.self_attention.dense.weight layers.0.self_attention.dense._extra_state "
            "layers.0.self_attention.dense.bias layers.0.self_attention.query_key_value.weight "
            "layers.0.self_attention.query_key_value._extra_state "
            "layers.0.self_attention.query_key_value.bias "
            "layers.0.post_attention_norm.weight layers.0.post_attention_norm.bias "
            "layers.0.mlp.dense_h_to_4h.weight layers.0.mlp.dense_h_to_4h._extra_state "
            "layers.0.mlp.dense_h_to_4h.bias layers.0.mlp.dense_4h_to_h.weight "
            "layers.0.mlp.dense_4h_to_h._extra_state layers.0.mlp.dense_4h_to_h.bias ");
  EXPECT_EQ(names(last, {}), "language_model lm_head word_embeddings_for_head binary_head ");
  EXPECT_EQ(names(last, {"lm_head"}), "dense.weight dense.bias norm.weight norm.bias bias ");
}

TEST_F(Convert, LegacyClassesHaveNotEveryModel) {
  const auto refusal = [&](const char* name) {
    return error_of([&] { check_legacy(config_named(name)); });
  };
  const std::string begin = "78 --saver legacy: Megatron's models from before its core ";
  EXPECT_EQ(refusal("gpt2"), "");
  EXPECT_EQ(refusal("llama"), "");
  for (const char* name : {"t5", "mixtral", "mamba"})
    EXPECT_EQ(refusal(name), begin +
                                 "are converted of GPT and BERT, which is what convert.py's "
                                 "legacy saver knows");
  EXPECT_EQ(refusal("qwen3"), begin + "have no --qk-layernorm");
  EXPECT_EQ(refusal("gemma"), begin + "have no --embedding-mult");
  EXPECT_EQ(refusal("mistral"), begin + "have no --window-size");
  EXPECT_EQ(refusal("scaled"), begin + "have no --rotary-base but 10000");
  ConvertOptions options;
  options.with_optimizer = true;
  EXPECT_EQ(error("hf", "old", "legacy", options),
            "64 --with-optimizer: a checkpoint that convert.py's legacy saver writes has no place "
            "for it");
  options = {};
  options.transformer_impl = "transformer_engine";
  EXPECT_EQ(error("hf", "old", "legacy", options),
            "64 --saver-transformer-impl transformer_engine: means nothing with --saver legacy");
}

// What Megatron-LM itself made of one model, in the form of three versions (testdata/legacy).
TEST_F(Convert, LegacyCheckpointsOfMegatron) {
  ConvertOptions options;
  options.source.vocab_size = 61;
  options.verify = true;
  for (const char* version : {"0", "1", "2"}) {
    options.load = concat(MT_TESTDATA, "/legacy/gpt-", version);
    options.save = scratch_.path(concat("hf", version));
    options.saver = "hf";
    options.complete();
    convert_checkpoint(options, Log({.level = Log::Level::quiet}), [] {});
    EXPECT_EQ(content(concat("hf", version, "/model.safetensors")),
              content("hf0/model.safetensors"));
  }
}

TEST(LegacyTensors, WhatIsNotReadIsRefusedByName) {
  TorchWriter writer;
  const float number = 1;
  const PyValue weight = PyValue::dict({{"weight", writer.tensor({&number, DType::f32, {1}})}});
  const auto refusal = [&](const char* part, const char* name) {
    const PyValue model = PyValue::dict(
        {{"language_model", PyValue::dict({{part, PyValue::dict({{name, weight}})}})}});
    return error_of([&] { legacy_tensors(model, "x"); });
  };
  EXPECT_EQ(refusal("encoder", "layers.0.mlp.dense_h_to_4h"), "");
  EXPECT_EQ(refusal("encoder", "layers.0.mlp.local_experts.1.dense_h_to_4h"),
            "65 x: language_model.encoder.layers.0.mlp.local_experts.1.dense_h_to_4h.weight: is of "
            "Megatron's legacy classes, and of a SwitchMLP; experts are read of Megatron-Core's "
            "classes only");
  EXPECT_NE(refusal("encoder", "layers.0.mlp.router").find("SwitchMLP"), std::string::npos);
  EXPECT_NE(refusal("encoder", "layers.0.self_attention.layernorm_qkv").find("--transformer-impl"),
            std::string::npos);
  EXPECT_NE(refusal("decoder", "layers.0.self_attention.dense").find("GPT and BERT are read"),
            std::string::npos);
}

TEST(LegacyArgs, WhatChangesTheModelIsRefused) {
  const PyValue args = PyValue::dict({{"apply_residual_connection_post_layernorm", true}});
  EXPECT_EQ(error_of([&] { legacy_args(args, "x"); }),
            "65 x: args.apply_residual_connection_post_layernorm: is set, which is not supported");
}

TEST(LegacyQkv, QueryGroupsAreYoungerThanItsOrders) {
  ModelConfig config;
  config.num_attention_heads = 4;
  config.group_query_attention = true;
  config.num_query_groups = 2;
  EXPECT_EQ(error_of([&] { legacy_qkv(1, config, 1, "x"); }),
            "65 x: args.num_query_groups 2: checkpoint_version 1 has as many as heads");
  EXPECT_TRUE(legacy_qkv(2, config, 1, "x").empty());
}

}  // namespace
}  // namespace mt
