// Checkpoints of TensorRT-LLM's: what each rank has of which tensor (scripts/compare-trtllm.py puts
// them together again).
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

class Trtllm : public Convert {
 protected:
  ConvertOptions on_ranks(std::int64_t ranks) {
    ConvertOptions options;
    options.target_tensor_parallel = ranks;
    return options;
  }

  // A whole tensor of a file, as its bytes, and its shape.
  std::pair<std::string, Shape> tensor(const std::string& file, const std::string& name) {
    const auto source = open_tensors(scratch_.path(file));
    const DistTensor& found = source->at(name);
    std::string bytes(static_cast<std::size_t>(found.shape.numel()) * size_of(*found.dtype), '\0');
    source->read_original(name, origin_of(found.shape.rank()),
                          {bytes.data(), *found.dtype, found.shape});
    return {bytes, found.shape};
  }
  // Of a model's only file, rows [begin, end).
  std::string rows(const std::string& name, std::int64_t begin, std::int64_t end) {
    const auto [bytes, shape] = tensor("hf/model.safetensors", name);
    const std::size_t row = bytes.size() / static_cast<std::size_t>(shape[0]);
    return bytes.substr(static_cast<std::size_t>(begin) * row,
                        static_cast<std::size_t>(end - begin) * row);
  }
};

// Of four heads, in two groups, ranks have so many each; four ranks have each group's keys twice.
TEST_F(Trtllm, RanksHaveTheirHeads) {
  const ModelConfig c = config_named("qwen2");
  write_hugging_face(scratch_.path("hf"), c, DType::bf16);
  const std::int64_t d = c.head_dim();
  for (const std::int64_t ranks : {1, 2, 4}) {
    const std::string folder = concat("of_", ranks);
    EXPECT_EQ(convert("hf", folder, "trtllm", on_ranks(ranks)).to, "trtllm");
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::string file = concat(folder, "/rank", rank, ".safetensors");
      const std::int64_t queries = 4 / ranks * d, keys = std::max<std::int64_t>(1, 2 / ranks) * d,
                         first = ranks == 4 ? rank / 2 * d : rank * keys;
      for (const char* kind : {"weight", "bias"}) {
        const std::string attention = "model.layers.1.self_attn.";
        const auto [found, shape] =
            tensor(file, concat("transformer.layers.1.attention.qkv.", kind));
        EXPECT_EQ(shape[0], queries + 2 * keys);
        EXPECT_TRUE(found ==
                    rows(concat(attention, "q_proj.", kind), rank * queries, (rank + 1) * queries) +
                        rows(concat(attention, "k_proj.", kind), first, first + keys) +
                        rows(concat(attention, "v_proj.", kind), first, first + keys))
            << ranks << ' ' << rank << ' ' << kind;
      }
      const std::int64_t ffn = c.ffn() / ranks;
      for (const auto& [ours, theirs] : {std::pair("gate_proj", "fc"), {"up_proj", "gate"}})
        EXPECT_TRUE(
            tensor(file, concat("transformer.layers.0.mlp.", theirs, ".weight")).first ==
            rows(concat("model.layers.0.mlp.", ours, ".weight"), rank * ffn, (rank + 1) * ffn));
      EXPECT_EQ(tensor(file, "transformer.layers.0.mlp.proj.weight").second,
                (Shape{c.hidden_size, ffn}));
      EXPECT_TRUE(tensor(file, "transformer.vocab_embedding.weight").first ==
                  rows("model.embed_tokens.weight", 0, c.vocab_size));
      // Zeros behind the words, so that ranks have equally many.
      const std::int64_t words = (c.vocab_size + ranks - 1) / ranks;
      const auto [head, shape] = tensor(file, "lm_head.weight");
      const std::string own = rows("lm_head.weight", std::min(c.vocab_size, rank * words),
                                   std::min(c.vocab_size, (rank + 1) * words));
      EXPECT_EQ(shape[0], words);
      EXPECT_TRUE(head == own + std::string(head.size() - own.size(), '\0'));
    }
    const std::string config = content(folder + "/config.json");
    for (const std::string& part :
         {std::string(R"("architecture":"Qwen2ForCausalLM","dtype":"bfloat16")"),
          std::string(R"("attn_bias":true,"mlp_bias":false)"),
          concat(R"("mapping":{"world_size":)", ranks, R"(,"tp_size":)", ranks)})
      EXPECT_NE(config.find(part), std::string::npos) << config;
  }
}

TEST_F(Trtllm, RefusesWhatHasNoPlace) {
  for (const char* name : {"llama", "mixtral", "nemotron"})
    write_hugging_face(scratch_.path(name), config_named(name), DType::f32);
  const std::string flag = "--target-tensor-parallel-size ";
  EXPECT_EQ(error("mixtral", "out", "trtllm"),
            "78 --saver trtllm: of llama, mistral, qwen2 and gpt2, not of mixtral");
  EXPECT_EQ(error("nemotron", "out", "trtllm"),
            "78 --saver trtllm: of llama, mistral, qwen2 and gpt2, not of nemotron");
  EXPECT_EQ(error("llama", "out", "trtllm", on_ranks(3)),
            "78 " + flag + "3: does not divide 4 heads");
  ConvertOptions options;
  options.verify = true;
  EXPECT_EQ(error("llama", "out", "trtllm", options),
            "64 --verify: TensorRT-LLM's checkpoints are written, and not read");
  options = {};
  options.quantize = "fp8";
  EXPECT_EQ(error("llama", "out", "trtllm", options),
            "64 --quantize fp8: needs a text for TensorRT-LLM's; see --calib");
  options.quantize = "mxfp4";
  EXPECT_EQ(error("llama", "out", "trtllm", options),
            "64 --quantize mxfp4: --saver trtllm writes fp8 and int4_awq");
  options.quantize_layout = "modelopt";
  EXPECT_EQ(error("llama", "out", "trtllm", options),
            "64 --quantize-layout modelopt: means nothing with --saver trtllm");
}

}  // namespace
}  // namespace mt
