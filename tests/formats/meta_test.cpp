// Llamas as Meta publishes them.
#include "formats/differences.h"
#include "formats/meta/meta_source.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ckpt/torch_file.h"
#include "formats/inspect.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

class Meta : public Convert {
 protected:
  // What the folder "hf" holds, as so many ranks of Meta's have it.
  void write_meta(std::int64_t ranks, bool words_by_rows) {
    const auto source = open_tensors(scratch_.path("hf"));
    fs::create_directory(scratch_.path("meta"));
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      TorchWriter writer;
      PyValue state = PyValue::dict();
      for (const auto& [name, tensor] : source->tensors()) {
        const HostTensor whole(*tensor.dtype, tensor.shape);
        source->read_original(name, origin_of(tensor.shape.rank()), whole);
        const auto [theirs, axis] = meta_name(name, words_by_rows);
        const bool alternates = theirs.ends_with(".wq.weight") || theirs.ends_with(".wk.weight");
        const HostTensor ordered = alternating(whole.view());
        state.set_item(
            theirs, part_of(alternates ? ordered.view() : whole.view(), axis, rank, ranks, writer));
      }
      const HostTensor one(DType::f32, {1}), scalar(DType::f32, Shape{});
      for (const char* name : {"rope.freqs", "layers.0.attention.inner_attention.rope.freqs"})
        state.set_item(name, writer.tensor(one.view()));
      if (!stranger_.empty()) state.set_item(stranger_, writer.tensor(scalar.view()));
      std::string archive;
      writer.write(state, "consolidated.00", [&](Bytes bytes) { archive += as_text(bytes); });
      File::create(scratch_.path(concat("meta/consolidated.0", rank, ".pth"))).write(archive);
    }
    File::create(scratch_.path("meta/params.json"))
        .write(R"({"dim":16,"n_layers":2,"n_heads":4,"n_kv_heads":2,"norm_eps":1e-5,)"
               R"("multiple_of":8,"vocab_size":-1})");
  }

  std::string stranger_;  // a number of this name, which no Llama has

  // Its name there, and the axis that ranks divide, or -1.
  static std::pair<std::string, int> meta_name(const std::string& name, bool words_by_rows) {
    if (name == "model.embed_tokens.weight")
      return {"tok_embeddings.weight", words_by_rows ? 0 : 1};
    if (name == "lm_head.weight") return {"output.weight", 0};
    if (name == "model.norm.weight") return {"norm.weight", -1};
    const std::string layer = name.substr(std::strlen("model."), std::strlen("layers.0."));
    const std::string rest = name.substr(std::strlen("model.layers.0."));
    const std::map<std::string, std::pair<std::string, int>> names = {
        {"self_attn.q_proj.weight", {"attention.wq.weight", 0}},
        {"self_attn.k_proj.weight", {"attention.wk.weight", 0}},
        {"self_attn.v_proj.weight", {"attention.wv.weight", 0}},
        {"self_attn.o_proj.weight", {"attention.wo.weight", 1}},
        {"mlp.gate_proj.weight", {"feed_forward.w1.weight", 0}},
        {"mlp.down_proj.weight", {"feed_forward.w2.weight", 1}},
        {"mlp.up_proj.weight", {"feed_forward.w3.weight", 0}},
        {"input_layernorm.weight", {"attention_norm.weight", -1}},
        {"post_attention_layernorm.weight", {"ffn_norm.weight", -1}}};
    const auto& [theirs, axis] = names.at(rest);
    return {layer + theirs, axis};
  }

  // Rows 0, 2, 1, 3 of each head of four: those of the halves take turns.
  static HostTensor alternating(const Tensor& whole) {
    HostTensor ordered(whole.dtype(), whole.shape());
    if (whole.shape()[0] % 4 != 0) return ordered;  // no heads
    for (std::int64_t row = 0; row < whole.shape()[0]; ++row) {
      const std::int64_t from =
          row / 4 * 4 + std::array{0, 2, 1, 3}[static_cast<std::size_t>(row % 4)];
      std::memcpy(ordered.view().rows(row, row + 1).data(), whole.rows(from, from + 1).data(),
                  whole.rows(from, from + 1).bytes());
    }
    return ordered;
  }

  static PyValue part_of(const Tensor& whole, int axis, std::int64_t rank, std::int64_t ranks,
                         TorchWriter& writer) {
    if (axis < 0) return writer.tensor(whole);
    const std::int64_t rows = whole.shape()[0], each = whole.shape()[axis] / ranks;
    if (axis == 0) return writer.tensor(whole.rows(rank * each, (rank + 1) * each));
    const HostTensor part(whole.dtype(), {rows, each});
    for (std::int64_t row = 0; row < rows; ++row) {
      const Tensor to = part.view().rows(row, row + 1);
      std::memcpy(to.data(),
                  static_cast<std::byte*>(whole.rows(row, row + 1).data()) +
                      static_cast<std::size_t>(rank * each) * size_of(whole.dtype()),
                  to.bytes());
    }
    return writer.tensor(part.view());
  }

  static ModelConfig llama() {
    ModelConfig c = config_named("llama");
    c.vocab_size = 22;
    c.padded_vocab_size = 0;
    c.complete();
    return c;
  }
};

TEST_F(Meta, RanksBecomeOneModel) {
  for (const auto& [ranks, words_by_rows] : {std::pair(1, false), {2, false}, {2, true}}) {
    write_hugging_face(scratch_.path("hf"), llama(), DType::bf16);
    write_meta(ranks, words_by_rows);
    ConvertOptions options;
    options.verify = true;
    options.loader = "llama_mistral";
    EXPECT_EQ(convert("meta", "core", "core", options).from, "meta");
    convert("core", "back", "hf");
    EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors")) << ranks;
    for (const char* other : {"hf", "meta"})
      EXPECT_FALSE(print_differences({.path = scratch_.path("meta")}, scratch_.path(other), 0,
                                     [](const std::string& line) { ADD_FAILURE() << line; }));
    EXPECT_TRUE(verify_checkpoint({.path = scratch_.path("meta")}, [](const std::string&) {}));
    EXPECT_NE(open_tensors(scratch_.path("meta"))
                  ->find(concat("consolidated.0", ranks - 1, "/layers.1.attention.wq.weight")),
              nullptr);
    const auto source = open_model(scratch_.path("core"));
    EXPECT_EQ(source->config().vocab_size, 22);
    EXPECT_EQ(source->config().ffn(), 40);
    EXPECT_EQ(source->config().max_position_embeddings, 4096);
    for (const char* folder : {"hf", "meta", "core", "back"}) fs::remove_all(scratch_.path(folder));
  }
}

// As its ranks have it, and back.
TEST_F(Meta, OneModelBecomesRanks) {
  for (const std::int64_t ranks : {1, 2}) {
    write_hugging_face(scratch_.path("hf"), llama(), DType::bf16);
    write_meta(ranks, false);
    ConvertOptions options;
    options.verify = true;
    options.target_tensor_parallel = ranks;
    convert("hf", "core", "core", {});
    EXPECT_EQ(convert("core", "ours", "meta", options).to, "meta");
    const auto ours = open_tensors(scratch_.path("ours")),
               theirs = open_tensors(scratch_.path("meta"));
    EXPECT_EQ(theirs->tensors().size() - ours->tensors().size(), 2 * ranks);  // frequencies
    for (const auto& [name, tensor] : ours->tensors()) {
      ASSERT_EQ(tensor.shape, theirs->at(name).shape) << name;
      const HostTensor a(*tensor.dtype, tensor.shape), b(*tensor.dtype, tensor.shape);
      ours->read_original(name, origin_of(tensor.shape.rank()), a);
      theirs->read_original(name, origin_of(tensor.shape.rank()), b);
      EXPECT_EQ(std::memcmp(a.view().data(), b.view().data(), a.view().bytes()), 0) << name;
    }
    EXPECT_EQ(
        content("ours/params.json"),
        R"({"dim":16,"n_layers":2,"n_heads":4,"n_kv_heads":2,"vocab_size":22,)"
        R"("norm_eps":1e-05,"rope_theta":10000,"multiple_of":8,"ffn_dim_multiplier":0.9642857142857143})"
        "\n");
    convert("ours", "back", "hf");
    EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors")) << ranks;
    for (const char* folder : {"hf", "meta", "core", "ours", "back"})
      fs::remove_all(scratch_.path(folder));
  }
}

// A tied model stays one, and so does what Llama 3.1 stretches.
TEST_F(Meta, KeepsSettings) {
  for (const char* name : {"tied", "scaled"}) {
    ModelConfig config = config_named(name);
    config.vocab_size = 22;
    config.padded_vocab_size = 0;
    config.complete();
    write_hugging_face(scratch_.path("hf"), config, DType::f32);
    ConvertOptions options;
    options.verify = true;
    options.target_tensor_parallel = 2;
    convert("hf", "meta", "meta", options);
    const auto source = open_model(scratch_.path("meta"));
    EXPECT_EQ(source->config().untie_embeddings_and_output_weights,
              config.untie_embeddings_and_output_weights);
    EXPECT_EQ(source->config().use_rope_scaling, config.use_rope_scaling);
    EXPECT_EQ(source->config().rope_scaling_factor, config.rope_scaling_factor);
    EXPECT_EQ(source->config().rotary_base, config.rotary_base);
    convert("meta", "back", "hf");
    EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors")) << name;
    for (const char* folder : {"hf", "meta", "back"}) fs::remove_all(scratch_.path(folder));
  }
}

// What params.json says beyond a Llama's sizes, and what it does not say.
TEST_F(Meta, WhatParamsMean) {
  write_hugging_face(scratch_.path("hf"), llama(), DType::f32);
  convert("hf", "meta", "meta");
  const std::string params = content("meta/params.json");
  const auto with = [&](const std::string& members) {
    File::create(scratch_.path("meta/params.json"))
        .write(params.substr(0, params.rfind('}')) + members + "}");
    return open_model(scratch_.path("meta"));
  };
  EXPECT_EQ(with("")->notes().size(), 0U);
  const auto scaled = with(",\"use_scaled_rope\":true");
  EXPECT_EQ(scaled->config().rope_scaling_factor, 32);
  EXPECT_EQ(scaled->notes().size(), 1U);
  EXPECT_EQ(
      with(",\"use_scaled_rope\":true,\"rope_scaling_factor\":16")->config().rope_scaling_factor,
      16);
  const auto window = with(",\"sliding_window\":4096,\"head_dim\":4,\"hidden_dim\":40");
  EXPECT_EQ(window->config().window_size, "4095,0");
  EXPECT_EQ(window->config().max_position_embeddings, 32768);
  EXPECT_EQ(with(",\"max_seq_len\":123")->config().max_position_embeddings, 123);
  for (const char* wrong : {",\"moe\":{\"num_experts\":8}", ",\"use_biases\":true",
                            ",\"sliding_window\":0", ",\"attention_sinks\":1"})
    EXPECT_NE(error_of([&] { with(wrong); }), "") << wrong;
}

// Where one rank's output is its own, all have one.
TEST_F(Meta, IsTiedOnAllRanksOrOnNone) {
  ConvertOptions options;
  options.target_tensor_parallel = 2;
  for (const char* name : {"tied", "llama"}) {
    ModelConfig config = config_named(name);
    config.vocab_size = 22;
    config.padded_vocab_size = 0;
    config.rotary_base = 500000;
    config.complete();
    write_hugging_face(scratch_.path(concat(name, "-hf")), config, DType::f32);
    convert(concat(name, "-hf"), name, "meta", options);
  }
  fs::copy_file(scratch_.path("llama/consolidated.01.pth"),
                scratch_.path("tied/consolidated.01.pth"), fs::copy_options::overwrite_existing);
  EXPECT_TRUE(open_model(scratch_.path("tied"))->config().untie_embeddings_and_output_weights);
}

TEST_F(Meta, OtherModelsAreRefused) {
  const auto refused = [&](const std::string& name, ConvertOptions options = {}) {
    write_hugging_face(scratch_.path("hf"), name == "llama" ? llama() : config_named(name),
                       DType::f32);
    const std::string message = error("hf", "meta", "meta", options);
    EXPECT_FALSE(fs::exists(scratch_.path("meta")));
    fs::remove_all(scratch_.path("hf"));
    return message;
  };
  EXPECT_EQ(refused("mistral"), "78 --saver meta: of llama, not of mistral");
  EXPECT_EQ(refused("gpt2"), "78 --saver meta: of llama, not of gpt2");
  EXPECT_EQ(refused("stretched"),
            "78 --rotary-seq-len-interpolation-factor: Meta's Llamas have no such");
  ConvertOptions options;
  options.target_tensor_parallel = 4;
  EXPECT_EQ(refused("llama", options),
            "78 --target-tensor-parallel-size 4: does not divide 4 heads in 2 groups");
  options.target_tensor_parallel = 2;
  EXPECT_EQ(refused("tied", options),
            "78 --target-tensor-parallel-size 2: does not divide the 21 rows of "
            "tok_embeddings.weight");
  options = {};
  options.with_optimizer = true;
  EXPECT_EQ(refused("llama", options), "64 --with-optimizer: Meta's format has no place for it");
}

TEST_F(Meta, DamageIsNamed) {
  write_hugging_face(scratch_.path("hf"), llama(), DType::bf16);
  write_meta(2, false);
  ConvertOptions options;
  options.loader = "hf";
  EXPECT_EQ(error("meta", "core", "core", options),
            concat("78 ", scratch_.path("meta"), ": is Meta's, but --loader is hf"));
  const std::string second = scratch_.path("meta/consolidated.01.pth"), whole = read_file(second);
  File::create(second).write(whole.substr(0, whole.size() / 2));
  EXPECT_TRUE(error("meta", "core", "core").starts_with("65 " + second));
  fs::remove(second);
  EXPECT_EQ(error("meta", "core", "core"),
            concat("66 ", scratch_.path("meta"), ": no consolidated.01.pth: has 1 of 2 files"));
  File::create(second).write(whole);
  const auto put = [&](const std::string& params) {
    File::create(scratch_.path("meta/params.json")).write(params);
  };
  put(R"({"dim":16,"n_layers":3,"n_heads":4,"n_kv_heads":2})");
  EXPECT_NE(error("meta", "core", "core").find("has no tensor layers.2."), std::string::npos);
  put(R"({"dim":16,"n_layers":2,"n_heads":0})");
  EXPECT_NE(error("meta", "core", "core").find("params.json: \"dim\" is 16"), std::string::npos);
  put(R"({"n_layers":2})");
  EXPECT_EQ(error("meta", "core", "core"),
            concat("65 ", scratch_.path("meta/params.json"), ": no \"dim\""));
  fs::remove_all(scratch_.path("meta"));
  stranger_ = "model.embed_tokens.weight";
  write_meta(2, false);
  EXPECT_EQ(error("meta", "core", "core"),
            concat("65 ", scratch_.path("meta/consolidated.00.pth"),
                   ": tensor model.embed_tokens.weight is none of a Llama's"));
  fs::remove(scratch_.path("meta/consolidated.00.pth"));
  put(R"({"dim":16,"n_layers":2,"n_heads":4})");
  EXPECT_TRUE(error("meta", "core", "core").starts_with("66 "));
}

}  // namespace
}  // namespace mt
