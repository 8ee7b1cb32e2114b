// Megatron's torch format: a file for each rank.
#include "formats/megatron/rank_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "ckpt/megatron_checkpoint.h"
#include "ckpt/safetensors.h"
#include "ckpt/te_state.h"
#include "ckpt/torch_tensors.h"
#include "formats/megatron/megatron_common.h"
#include "formats/megatron/rank_layout.h"
#include "formats/model_source.h"
#include "tests/ckpt/support.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

struct Layout {
  const char* name;
  std::int64_t tp, pp, encoder = 0;
};

class RankFiles : public Convert, public testing::WithParamInterface<Layout> {
 protected:
  static ConvertOptions options(std::int64_t tp, std::int64_t pp, std::int64_t encoder = 0) {
    ConvertOptions o;
    o.ckpt_format = "torch";
    o.target_encoder_pipeline_parallel = encoder;
    o.target_tensor_parallel = tp;
    o.target_pipeline_parallel = pp;
    o.verify = true;
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Layouts, RankFiles,
    testing::Values(Layout{"gpt2", 4, 1}, Layout{"tied", 2, 2}, Layout{"qwen3", 2, 1},
                    Layout{"qwen2", 1, 2}, Layout{"mixtral", 2, 2}, Layout{"bert", 2, 2},
                    Layout{"mamba", 2, 2}, Layout{"hybrid", 2, 1}, Layout{"t5", 2, 1},
                    Layout{"t5_gated", 1, 1}, Layout{"t5", 2, 3, 2}, Layout{"t5_gated", 1, 1, 1},
                    Layout{"t5_gated", 2, 3, 1}),
    [](const auto& p) {
      return concat(p.param.name, "_", p.param.tp, "_", p.param.pp, "_", p.param.encoder);
    });

TEST_P(RankFiles, EveryLayoutComesBack) {
  const auto [name, tp, pp, encoder] = GetParam();
  write_hugging_face(scratch_.path("hf"), config_named(name), DType::bf16);
  convert("hf", "ranks", "core", options(tp, pp, encoder));
  convert("ranks", "other", "core", options(tp == 1 ? 2 : 1, 1));
  convert("other", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  EXPECT_EQ(content("back/config.json"), content("hf/config.json"));
}

TEST_F(Convert, ExpertsAreSharedOut) {
  write_hugging_face(scratch_.path("hf"), config_named("mixtral"), DType::bf16);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.verify = true;
  options.target_expert_parallel = 2;
  options.target_tensor_parallel = 2;
  convert("hf", "ranks", "core", options);  // mp_rank_01_001 has no stage in its name
  const RankTensors ranks(scratch_.path("ranks/release"));
  const std::string layer = "/model.decoder.layers.1.", expert = "mlp.experts.local_experts.";
  const auto has = [&](const std::string& rest) {
    return ranks.find("mp_rank_01_001" + layer + rest) != nullptr;
  };
  EXPECT_TRUE(has("mlp.router.weight"));
  EXPECT_TRUE(has(expert + "1.linear_fc1.weight"));
  EXPECT_FALSE(has(expert + "2.linear_fc1.weight"));
  options.target_pipeline_parallel = 2;
  options.target_tensor_parallel = 1;
  options.target_expert_parallel = 4;
  convert("ranks", "more", "core", options);
  EXPECT_TRUE(fs::exists(scratch_.path("more/release/mp_rank_00_001_003")));
  convert("more/release", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  ModelConfig many = config_named("mixtral");
  many.num_layers = many.num_experts = 512;
  EXPECT_EQ(error_of([&] { many.complete(); }),
            "78 --num-experts of all layers: 262144: expected 1 to 65536");
  options.target_expert_parallel = 3;
  EXPECT_EQ(error("hf", "out", "core", options),
            "78 --target-expert-parallel-size 3: does not divide 4 experts");
}

// Megatron-Core cuts eh_proj by rows, and has the words on the last stage, too.
TEST_F(Convert, LayersThatPredictFurtherTokensAreOnTheLastStage) {
  write_hugging_face(scratch_.path("hf"), config_named("glm4_moe_further"), DType::bf16);
  ConvertOptions options;
  options.source.further = 1;
  options.ckpt_format = "torch";
  options.verify = true;
  options.target_tensor_parallel = options.target_pipeline_parallel = 2;
  options.target_expert_parallel = 2;
  convert("hf", "ranks", "core", options);
  const RankTensors ranks(scratch_.path("ranks/release"));
  const std::string last = "mp_rank_01_001_001/model.", layer = "mtp.layers.0.";
  EXPECT_EQ(ranks.at(last + layer + "eh_proj.weight").shape, Shape({8, 32}));
  EXPECT_EQ(ranks.at(last + "embedding.word_embeddings.weight").shape,
            ranks.at(last + "output_layer.weight").shape);
  const std::string experts = layer + "transformer_layer.mlp.experts.local_experts.";
  EXPECT_NE(ranks.find(last + experts + "1.linear_fc2.weight"), nullptr);
  EXPECT_EQ(ranks.find(last + experts + "2.linear_fc2.weight"), nullptr);
  EXPECT_EQ(ranks.find("mp_rank_01_000_001/model." + layer + "eh_proj.weight"), nullptr);
  ConvertOptions back;
  back.verify = true;
  convert("ranks", "core", "core", back);
  convert("ranks", "back", "hf", back);
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  options.source.further = {};
  convert("core", "again", "core", options);
  EXPECT_EQ(content("again/release/mp_rank_01_001_001/model_optim_rng.pt"),
            content("ranks/release/mp_rank_01_001_001/model_optim_rng.pt"));
  back.source.further = 0;
  convert("ranks", "left", "hf", back);
  EXPECT_EQ(open_model(scratch_.path("left"))->notes(), std::vector<std::string>());
}

TEST_F(Convert, StagesHoldWhatTheLayoutSays) {
  write_hugging_face(scratch_.path("hf"), config_named("tied"), DType::bf16);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.verify = true;
  options.target_pipeline_parallel = 2;
  options.pipeline.layout = "E|tt||L";  // of stage 0: E, and a chunk without anything
  convert("hf", "ranks", "core", options);
  const RankTensors ranks(scratch_.path("ranks/release"));
  EXPECT_NE(ranks.find("mp_rank_00_000/model0.embedding.word_embeddings.weight"), nullptr);
  EXPECT_NE(ranks.find("mp_rank_00_001/model0.decoder.layers.1.mlp.linear_fc2.weight"), nullptr);
  EXPECT_NE(ranks.find("mp_rank_00_001/model1.decoder.final_layernorm.weight"), nullptr);
  EXPECT_EQ(ranks.tensors().lower_bound("mp_rank_00_000/model1")->first.substr(0, 14),
            "mp_rank_00_001");
  convert("ranks", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  options.target_pipeline_parallel = 3;
  EXPECT_EQ(error("hf", "out", "core", options),
            "78 --pipeline-model-parallel-layout E|tt||L: 4 stages are not a multiple of "
            "--target-pipeline-parallel-size 3");
}

TEST_F(Convert, RanksAreReadWithoutACopyOfTheRow) {
  ModelConfig c = config_named("llama");
  c.vocab_size = c.padded_vocab_size = 1 << 18;
  write_hugging_face(scratch_.path("hf"), c, DType::f32);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.target_tensor_parallel = 2;
  convert("hf", "ranks", "core", options);
  const auto source = open_model(scratch_.path("ranks"));
  const ParamTable table = model_rows(source->config());
  const HostTensor words(DType::f32, table.rows().front().shape);  // 16 MiB
  std::memset(words.view().data(), 1, words.view().bytes());
  File::create("/proc/self/clear_refs").write("5");  // the peak is what there is now
  const std::size_t before = test::peak_memory();
  source->read(table.rows().front(), "", words);
  EXPECT_LT(test::peak_memory() - before, 8u << 20);
  EXPECT_EQ(std::memcmp(words.view().data(),
                        HuggingFaceSource(scratch_.path("hf"), ModelSourceOptions())
                            .view(table.rows().front(), "")
                            ->tensor.data(),
                        words.view().bytes()),
            0);
}

// Row i of each weight is all i, of o_proj column i: what a rank has says where it was cut.
TEST_F(Convert, RanksHoldWhatMegatronCuts) {
  const ModelConfig c = config_named("llama");  // 4 heads of 4 channels, 2 groups; ffn 40
  write_hugging_face(scratch_.path("hf"), c, DType::f32);
  const std::string hf = scratch_.path("hf");
  const auto tensors = open_tensors(hf);
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : tensors->tensors())
    entries.push_back({name, DType::f32, tensor.shape});
  fs::create_directory(scratch_.path("numbered"));
  SafetensorsWriter writer(scratch_.path("numbered"), entries, 1 << 30);
  for (const auto& entry : entries) {
    const HostTensor numbers(DType::f32, entry.shape);
    const std::int64_t width = entry.shape.numel() / entry.shape[0];
    const bool columns = entry.name.find("o_proj") != std::string::npos;
    fill_with(numbers,
              [&](std::int64_t i) { return static_cast<double>(columns ? i % width : i / width); });
    writer.write(entry.name, numbers);
  }
  writer.close();
  fs::copy(hf + "/config.json", scratch_.path("numbered/config.json"));
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.target_tensor_parallel = options.target_pipeline_parallel = 2;
  options.make_vocab_size_divisible_by = 8;
  convert("numbered", "ranks", "core", options);
  const RankTensors ranks(scratch_.path("ranks/release"));
  const auto first_column = [&](const std::string& key) {
    const Shape shape = ranks.at(key).shape;
    const HostTensor column(DType::f32, {shape[0], 1});
    ranks.read_original(key, {0, 0}, column);
    return std::vector<float>(column.span<float>().begin(), column.span<float>().end());
  };
  const std::string rank = "mp_rank_01_001/model.decoder.layers.0.";
  // The second group: 8 rows of queries from row 8 on, its key's and its value's 4 from 4 on.
  EXPECT_EQ(first_column(rank + "self_attention.linear_qkv.weight"),
            (std::vector<float>{8, 9, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7, 4, 5, 6, 7}));
  const std::vector<float> fc1 = first_column(rank + "mlp.linear_fc1.weight");
  ASSERT_EQ(fc1.size(), 40u);
  EXPECT_EQ(fc1[0], 20);   // gate
  EXPECT_EQ(fc1[20], 20);  // up
  EXPECT_EQ(ranks.at(rank + "self_attention.linear_proj.weight").shape, (Shape{16, 8}));
  const HostTensor proj(DType::f32, {1, 8});
  ranks.read_original(rank + "self_attention.linear_proj.weight", {0, 0}, proj);
  EXPECT_EQ(proj.span<float>()[0], 8);
  EXPECT_EQ(first_column("mp_rank_01_000/model.embedding.word_embeddings.weight").front(), 16);
  EXPECT_EQ(ranks.find("mp_rank_00_001/model.embedding.word_embeddings.weight"), nullptr);
  EXPECT_NE(ranks.find("mp_rank_00_001/model.output_layer.weight"), nullptr);
}

TEST_F(Convert, NormsAreCalledAsTheSpecificationDoes) {
  write_hugging_face(scratch_.path("hf"), config_named("gpt2"), DType::f32);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.transformer_impl = "local";
  options.verify = true;
  convert("hf", "ranks", "core", options);
  const RankTensors ranks(scratch_.path("ranks/release"));
  EXPECT_NE(ranks.find("mp_rank_00/model.decoder.layers.1.input_layernorm.bias"), nullptr);
  EXPECT_NE(ranks.find("mp_rank_00/model.decoder.layers.1.pre_mlp_layernorm.weight"), nullptr);
}

TEST_F(Convert, RanksMustDivideTheModel) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.target_pipeline_parallel = 3;
  EXPECT_EQ(error("hf", "ranks", "core", options),
            "78 --target-pipeline-parallel-size 3: Number of layers should be divisible by the "
            "pipeline-model-parallel size");
  options.target_pipeline_parallel = 1;
  options.target_tensor_parallel = 4;
  EXPECT_EQ(error("hf", "ranks", "core", options),
            "78 --target-tensor-parallel-size 4: "
            "decoder.layers.0.self_attention.linear_qkv.weight: 2 parts of qkv "
            "cannot be divided among 4 tensor-parallel ranks");
  EXPECT_FALSE(fs::exists(scratch_.path("ranks/release")));
}

TEST_F(Convert, DamagedRankFilesAreNamed) {
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.target_tensor_parallel = 2;
  convert("hf", "ranks", "core", options);
  const std::string file = scratch_.path("ranks/release/mp_rank_01/model_optim_rng.pt");
  const std::string whole = read_file(file);
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  const auto put = [&](const std::string& bytes) { File::create(file).write(bytes); };
  put(flipped);
  EXPECT_NE(error("ranks", "out", "hf").find("mp_rank_01/model_optim_rng.pt: hash"),
            std::string::npos);
  fs::remove(scratch_.path("ranks/release/mt-manifest.json"));
  for (const std::size_t size : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    put(whole.substr(0, size));
    EXPECT_NE(error("ranks", "out", "hf").find("mp_rank_01/model_optim_rng.pt"), std::string::npos);
  }
  fs::remove(file);
  EXPECT_TRUE(error("ranks", "out", "hf").starts_with("66 " + file));
}

// --- Experts ------------------------------------------------------------------------------------

TEST_F(Convert, GroupedExpertsHaveTransformerEnginesNames) {
  write_hugging_face(scratch_.path("hf"), config_named("mixtral"), DType::bf16);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.verify = options.moe_grouped_gemm = true;
  options.target_expert_parallel = 2;
  options.target_tensor_parallel = 2;
  convert("hf", "ranks", "core", options);
  const std::string path = scratch_.path("ranks/release/mp_rank_01_001/model_optim_rng.pt");
  const MappedFile file(path);
  const TorchReader reader(file.bytes(), path);
  EXPECT_TRUE(reader.value().at("args", "").at("moe_grouped_gemm", "").as_bool(""));
  const std::string experts = "decoder.layers.1.mlp.experts.";
  std::vector<std::string> found;
  const PyValue model = reader.value().at("model", "");
  const std::vector<PyValue>& entries = model.entries("");
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (const std::string& name = entries[i].as_string(""); name.starts_with(experts))
      found.push_back(name.substr(experts.size()));
  EXPECT_EQ(found, (std::vector<std::string>{"linear_fc1.weight0", "linear_fc1._extra_state",
                                             "linear_fc1.weight1", "linear_fc2.weight0",
                                             "linear_fc2._extra_state", "linear_fc2.weight1"}));
  convert("ranks", "back", "hf");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  options.transformer_impl = "local";
  EXPECT_EQ(error("hf", "out", "core", options).substr(0, 23), "64 --moe-grouped-gemm: ");
  options.transformer_impl = {};
  write_hugging_face(scratch_.path("dense"), config_named("llama"), DType::bf16);
  EXPECT_EQ(error("dense", "out", "core", options),
            "78 --target-expert-parallel-size 2: does not divide 0 experts");
  options.target_expert_parallel = 1;
  EXPECT_EQ(error("dense", "out", "core", options),
            "78 --moe-grouped-gemm: " + scratch_.path("dense") + " has no experts");
}

// Puts what a module remembers into a rank's file.
void remember(const std::string& path, const std::string& name, const std::string& state) {
  std::string written;
  {
    const MappedFile file(path);
    const TorchReader reader(file.bytes(), path);
    TorchWriter writer;
    const KeepTensor keep = [&](ConstTensor tensor) { return writer.tensor(tensor); };
    PyValue root = copied_value(reader.value(), reader, keep),
            model = PyValue::call(PyValue::global("collections", "OrderedDict"), {});
    const std::vector<PyValue>& entries = reader.value().at("model", "").entries("");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
      if (entries[i].as_string("") == name) continue;
      PyValue value = entries[i + 1];
      if (TorchReader::is_tensor(value)) {
        const StoredTensor stored = reader.tensor(value);
        const HostTensor copy(stored.dtype, stored.shape);
        stored.copy_to(copy.view());
        value = writer.tensor(copy.view());
      }
      model.set_item(entries[i], value);
    }
    model.set_item(name, te_state_value(state, keep));
    root.set_item("model", model);
    writer.write(root, "model_optim_rng", [&](Bytes bytes) { written += as_text(bytes); });
  }
  File::create(path).write(written);
}

// What an expert remembers of its scales goes along, and a grouped module's is said to stay behind.
TEST_F(Convert, ExpertsRememberScales) {
  write_hugging_face(scratch_.path("hf"), config_named("mixtral"), DType::bf16);
  ConvertOptions options;
  options.ckpt_format = "torch";
  options.target_expert_parallel = 2;
  convert("hf", "ranks", "core", options);
  fs::remove(scratch_.path("ranks/release/mt-manifest.json"));
  const std::string file = scratch_.path("ranks/release/mp_rank_00_001/model_optim_rng.pt"),
                    experts = "decoder.layers.1.mlp.experts.";
  const std::string state = encode_te_state({}, {{64, 112, 3584}, {{{7}, {4}, {16}}}});
  remember(file, experts + "local_experts.1.linear_fc2._extra_state", state);
  convert("ranks", "core", "core");
  options.target_expert_parallel = 1;
  convert("core", "one", "core", options);
  for (const char* folder : {"ranks", "core", "one"}) {
    const std::unique_ptr<ModelSource> source = open_model(scratch_.path(folder));
    EXPECT_TRUE(source->notes().empty()) << folder;
    const ParamTable table = model_rows(source->config());
    for (const Param& row : table.rows()) {
      const RowPlace& place = row.place;
      const bool remembers = place.layer == 1 && place.expert == 3 && place.module == "linear_fc2";
      if (!place.expert) continue;
      EXPECT_EQ(source->extra_state(row), remembers ? state : "") << row.name();
    }
  }
  options.moe_grouped_gemm = true;
  testing::internal::CaptureStderr();
  convert("core", "grouped", "core", options);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("scales is left behind"),
            std::string::npos);
  options.target_tensor_parallel = options.target_pipeline_parallel =
      options.target_expert_parallel = 2;
  testing::internal::CaptureStderr();
  convert("core", "parts", "core", options);  // of which the last rank has it
  EXPECT_NE(testing::internal::GetCapturedStderr().find("scales is left behind"),
            std::string::npos);
  fs::remove(scratch_.path("grouped/release/mt-manifest.json"));
  remember(scratch_.path("grouped/release/mp_rank_00/model_optim_rng.pt"),
           experts + "linear_fc2._extra_state", state);
  const std::vector<std::string> notes = open_model(scratch_.path("grouped"))->notes();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].ends_with("remember of scales is left behind")) << notes[0];
}

TEST(RankLayout, RowsOfExpertsLieInTensorsOfEitherModule) {
  const std::string layer = "decoder.layers.3.", mlp = layer + "mlp.experts.";
  const auto tensors = [&](RowPlace place) {
    place.stack = "decoder";
    place.layer = 3;
    std::vector<std::string> found;
    for (const RowTensor& tensor : tensors_of(place, 2))
      found.push_back(tensor.transposed ? concat(tensor.name, " ", tensor.number, "/", tensor.parts)
                                        : tensor.name);
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(tensors({.expert = 1, .module = "linear_fc1", .param = "weight"}),
            (Names{mlp + "local_experts.1.linear_fc1.weight", mlp + "linear_fc1.weight1",
                   mlp + "weight1 1/2"}));
  EXPECT_EQ(tensors({.expert = 0, .module = "linear_fc2", .param = "weight"}),
            (Names{mlp + "local_experts.0.linear_fc2.weight", mlp + "linear_fc2.weight0",
                   mlp + "weight2 0/2"}));
  EXPECT_EQ(tensors({.module = "mlp.router", .param = "weight"}),
            Names{layer + "mlp.router.weight"});
  EXPECT_EQ(tensors({.module = "mlp.linear_fc1", .param = "layer_norm_bias"}),
            (Names{layer + "mlp.linear_fc1.layer_norm_bias", layer + "pre_mlp_layernorm.bias"}));
}

// --- T5 -----------------------------------------------------------------------------------------

class T5Stages : public Convert {
 protected:
  void SetUp() override {
    write_hugging_face(scratch_.path("hf"), config_named("t5"), DType::bf16);
  }
  static ConvertOptions stages(std::int64_t encoder, std::int64_t decoder) {
    ConvertOptions o;
    o.ckpt_format = "torch";
    o.transformer_impl = "local";
    o.target_encoder_pipeline_parallel = encoder;
    o.target_pipeline_parallel = decoder;
    return o;
  }
  std::string file(int stage) {
    return scratch_.path(concat("ranks/release/mp_rank_00_00", stage, "/model_optim_rng.pt"));
  }
  // Puts a number below 256 for another one in a file's args.
  void set_arg(int stage, const std::string& name, char number) {
    std::string bytes = read_file(file(stage));
    bytes[bytes.find('K', bytes.find(name)) + 1] = number;
    File::create(file(stage)).write(bytes);
  }
  // A stage's, in the order of its state_dict().
  std::vector<std::string> names(int stage) {
    const MappedFile mapped(file(stage));
    const TorchReader reader(mapped.bytes(), file(stage));
    const PyValue model = reader.value().at("model", "");
    std::vector<std::string> found;
    const std::vector<PyValue>& entries = model.entries("");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
      if (TorchReader::is_tensor(entries[i + 1])) found.push_back(entries[i].as_string(""));
    return found;
  }
};

// As Megatron-LM's get_model() and T5Model make them.
TEST_F(T5Stages, HoldTheirStack) {
  convert("hf", "ranks", "core", stages(2, 3));
  const std::string encoder = "encoder_relative_pos_emb.relative_attention_bias.weight",
                    decoder = "decoder_relative_pos_emb.relative_attention_bias.weight";
  const std::vector<std::string> layer = {"encoder.layers.0.input_layernorm.weight",
                                          "encoder.layers.0.self_attention.linear_proj.weight",
                                          "encoder.layers.0.self_attention.linear_proj.bias",
                                          "encoder.layers.0.self_attention.linear_qkv.weight",
                                          "encoder.layers.0.self_attention.linear_qkv.bias",
                                          "encoder.layers.0.pre_mlp_layernorm.weight",
                                          "encoder.layers.0.mlp.linear_fc1.weight",
                                          "encoder.layers.0.mlp.linear_fc1.bias",
                                          "encoder.layers.0.mlp.linear_fc2.weight",
                                          "encoder.layers.0.mlp.linear_fc2.bias"};
  const auto with_layer = [&](std::vector<std::string> first,
                              const std::vector<std::string>& last) {
    for (const std::string& name : layer)
      if (!name.ends_with("bias")) first.push_back(name);
    first.insert(first.end(), last.begin(), last.end());
    return first;
  };
  EXPECT_EQ(names(0), with_layer({"embedding.word_embeddings.weight", encoder, decoder}, {}));
  EXPECT_EQ(names(1),
            with_layer({encoder, decoder},
                       {"encoder.final_layernorm.weight", "lm_head.output_layer.weight",
                        "lm_head.output_layer.bias", "output_layer.weight", "output_layer.bias"}));
  EXPECT_EQ(names(2)[0], "embedding.word_embeddings.weight");  // a copy
  EXPECT_EQ(names(2)[3], "decoder.layers.0.input_layernorm.weight");
  EXPECT_EQ(names(3)[0], encoder);
  EXPECT_EQ(names(4).back(), "output_layer.bias");
  convert("hf", "ranks", "core", [] {
    ConvertOptions o = stages(1, 1);
    o.force = true;
    return o;
  }());
  EXPECT_EQ(names(0).back(), "output_layer.bias");  // without weights, as where it begins
  EXPECT_EQ(std::ranges::count(names(0), "output_layer.weight"), 0);
  EXPECT_EQ(names(1)[0], "embedding.word_embeddings.weight");
}

TEST_F(T5Stages, WhatMegatronDoesNotMakeIsRefused) {
  const auto refusal = [&](ConvertOptions o) { return error("hf", "out", "core", o); };
  EXPECT_EQ(refusal(stages(0, 3)),
            "78 --target-pipeline-parallel-size 3: are the stages of a T5's decoder; its encoder "
            "needs --target-encoder-pipeline-parallel-size");
  EXPECT_EQ(
      refusal(stages(3, 1)),
      "78 --target-encoder-pipeline-parallel-size 3: does not divide 2 layers of the encoder");
  const auto uneven = [&](const char* flag, const auto& change) {
    ConvertOptions o = stages(1, 3);
    change(o.pipeline);
    EXPECT_EQ(refusal(o), concat("78 ", flag,
                                 ": Megatron-LM gives each stage of a T5 as many of its stack's "
                                 "layers, in one chunk"));
  };
  uneven("--decoder-first-pipeline-num-layers", [](PipelineOptions& p) { p.first_layers = 1; });
  uneven("--num-virtual-stages-per-pipeline-rank",
         [](PipelineOptions& p) { p.virtual_stages_per_rank = 1; });
  uneven("--pipeline-model-parallel-layout", [](PipelineOptions& p) { p.layout = "Et|t|tL"; });
  write_hugging_face(scratch_.path("gpt"), config_named("gpt2"), DType::bf16);
  EXPECT_EQ(error("gpt", "out", "core", stages(1, 1)),
            "78 --target-encoder-pipeline-parallel-size: " + scratch_.path("gpt") + " is no T5");
}

TEST_F(T5Stages, ArgsMustBeOfStagesThatMegatronMakes) {
  convert("hf", "ranks", "core", stages(2, 1));
  fs::remove(scratch_.path("ranks/release/mt-manifest.json"));
  EXPECT_EQ(error("ranks", "out", "hf"), "");
  set_arg(0, "encoder_tensor_model_parallel_size", 2);
  EXPECT_EQ(error("ranks", "out2", "hf"),
            "65 " + file(0) +
                ": args.encoder_tensor_model_parallel_size 2: a T5's encoder and decoder share "
                "their embeddings, for which Megatron-LM wants 1 of both");
  set_arg(0, "encoder_tensor_model_parallel_size", 1);
  set_arg(0, "encoder_pipeline_model_parallel_size", 1);
  EXPECT_TRUE(error("ranks", "out2", "hf").starts_with("65 "));  // another stage is the decoder's
}

TEST_F(T5Stages, EachHasThePositionsOfItsStack) {
  convert("hf", "ranks", "core", stages(2, 1));
  fs::remove(scratch_.path("ranks/release/mt-manifest.json"));
  const auto change = [&](const char* stack) {
    const std::string name = concat(stack, "_relative_pos_emb.relative_attention_bias.weight");
    std::string bytes = read_file(file(1));
    const MappedFile mapped(file(1));
    const TorchReader reader(mapped.bytes(), file(1));
    const StoredTensor stored = reader.tensor(reader.value().at("model", "").at(name, ""));
    bytes[static_cast<std::size_t>(stored.bytes.data() - mapped.bytes().data())] ^= 1;
    File::create(file(1)).write(bytes);
    return name;
  };
  change("decoder");  // the encoder's second stage has no use for them
  EXPECT_EQ(error("ranks", "out", "hf"), "");
  const std::string name = change("encoder");
  EXPECT_EQ(error("ranks", "out2", "hf"),
            "65 " + file(1) + ": " + name +
                ": is another than stage 0's: Megatron-LM trains one for each stage, and no model "
                "of one stage has several");
}

}  // namespace
}  // namespace mt
