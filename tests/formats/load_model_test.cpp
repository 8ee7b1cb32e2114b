// A model is loaded from any format as from the torch_dist checkpoint that it is converted to.
#include "formats/load_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ckpt/gguf.h"
#include "ckpt/gguf_blocks.h"
#include "formats/model_source.h"
#include "kernels/packed_rows.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "nn/packed_weight.h"
#include "tests/formats/convert_support.h"
#include "tests/support/mapping_of.h"
#include "tests/text/hf_files.h"

namespace mt {
namespace {

const ModelUse kText{{ModelFamily::gpt, ModelFamily::t5}, "with which no text is continued"};
const ModelUse kExperts{{ModelFamily::mixtral}, ""};

class LoadModel : public Convert {
 protected:
  LoadedModel load(const std::string& name, const std::string& dtype = "", bool dequantize = true) {
    TokenizerOptions tokenizer{.type = "NullTokenizer"};
    tokenizer.vocab_size = 20;
    DeviceOptions compute{.device_name = "cpu", .dtype = dtype, .dequantize = dequantize};
    return load_model(scratch_.path(name), tokenizer, compute, kText);
  }
  void write(const std::string& family, DType dtype) {
    ModelConfig config = config_named(family);
    config.hidden_size = 32;  // whole blocks of q8_0
    config.kv_channels = 8;
    config.ffn_hidden_size = 64;
    if (config.gated_gelu) config.embedding_mult = std::sqrt(32.0);  // a Gemma's
    if (family == "scaled") config.rotary_base = 5'000'000;
    if (family == "t5") {
      config.hidden_size = 64;
      config.kv_channels = 16;
    }
    write_hugging_face(scratch_.path("hf"), config, dtype);
  }
  void convert_all(const std::vector<std::string>& savers) {
    for (const std::string& saver : savers) {
      ConvertOptions options;
      options.force = true;
      const bool ranks = saver.starts_with("torch");
      if (ranks) options.ckpt_format = saver;
      if (saver == "torch") {
        options.target_tensor_parallel = options.target_pipeline_parallel = 2;
        options.make_vocab_size_divisible_by = 64;  // as many rows as others have
      }
      if (saver == "q8_0") options.dtype = saver;
      convert("hf", saver, ranks ? "core" : saver == "q8_0" ? "gguf" : saver, options);
    }
  }
  void expect_same(const std::string& name, const std::string& as, const std::string& dtype = "") {
    SCOPED_TRACE(name);
    const LoadedModel a = load(name, dtype), b = load(as, dtype);
    const auto &found = a.model->table().rows(), &expected = b.model->table().rows();
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(a.model->table().dtype(), b.model->table().dtype());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].name(), expected[i].name());
      ASSERT_EQ(found[i].value.bytes(), expected[i].value.bytes()) << found[i].name();
      EXPECT_EQ(
          std::memcmp(found[i].value.data(), expected[i].value.data(), found[i].value.bytes()), 0)
          << found[i].name();
    }
  }
};

TEST_F(LoadModel, OfEveryFormatIsTheSame) {
  for (const auto& [family, others] :
       {std::pair<std::string, std::vector<std::string>>{"gpt2", {"gguf"}},
        {"llama", {"gguf", "meta"}},
        {"tied", {"gguf"}},
        {"mistral", {"gguf"}},
        {"qwen2", {"gguf"}},
        {"qwen3", {"gguf"}},
        {"scaled", {"gguf"}},
        {"nemotron", {}},
        {"gemma", {}},
        {"gemma3_text", {}},
        {"olmo2", {"gguf"}},
        {"phi3", {"gguf"}},
        {"granite", {}},
        {"cohere2", {"gguf"}}}) {
    SCOPED_TRACE(family);
    std::filesystem::remove_all(scratch_.path("hf"));
    write(family, DType::bf16);
    convert_all({"core", "torch", "torch_dcp"});
    convert_all(others);
    for (const char* dtype : {"", "fp64"}) {
      expect_same("hf", "core", dtype);
      expect_same("torch", "core", dtype);
      expect_same("torch_dcp", "core", dtype);
      for (const std::string& other : others) expect_same(other, "core", dtype);
    }
  }
}

TEST_F(LoadModel, BlocksAreReadAsTheyAreConverted) {
  write("llama", DType::bf16);
  convert_all({"q8_0"});
  convert("q8_0", "core", "core");
  expect_same("q8_0", "core");
}

// Matrices in blocks stay so, and stand for the numbers that are read of them, but for the signs of
// zeros.
TEST_F(LoadModel, BlocksStayAsTheyAre) {
  const std::vector<std::string> all = {"q8_0", "q4_0", "q4_1",   "q5_0",
                                        "q5_1", "q6_k", "q4_k_m", "q5_k_m"};
  for (const auto& [family, types] :
       {std::pair{"llama", all}, {"qwen2", {"q8_0"}}, {"gpt2", {"q5_1"}}, {"mixtral", {"q4_0"}}}) {
    ModelConfig config = config_named(family);
    config.num_layers = 2;
    config.hidden_size = 256;
    config.kv_channels = 64;
    config.ffn_hidden_size = 512;
    std::filesystem::remove_all(scratch_.path("hf"));
    write_hugging_face(scratch_.path("hf"), config, DType::f32);
    for (const std::string& type : types) {
      SCOPED_TRACE(concat(family, " ", type));
      ConvertOptions options;
      options.force = true;
      options.dtype = type;
      convert("hf", "gguf", "gguf", options);
      const ModelUse& use = config.num_experts > 0 ? kExperts : kText;
      const auto load_it = [&](bool dequantize) {
        TokenizerOptions tokenizer{.type = "NullTokenizer"};
        tokenizer.vocab_size = 20;
        return load_model(scratch_.path("gguf"), tokenizer,
                          {.device_name = "cpu", .dtype = "", .dequantize = dequantize}, use);
      };
      const LoadedModel kept = load_it(false), numbers = load_it(true);
      const auto &found = kept.model->table().rows(), &expected = numbers.model->table().rows();
      int packed = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        std::vector<float> value(static_cast<std::size_t>(expected[i].value.numel()));
        ASSERT_EQ(expected[i].packed_as, PackedAs::none);
        if (found[i].packed_as == PackedAs::none) {
          std::memcpy(value.data(), found[i].value.data(), found[i].value.bytes());
        } else {
          cpu::unpack_rows(value.data(), found[i].value.as<std::uint8_t>());
          EXPECT_LT(found[i].value.bytes(), 0.27 * static_cast<double>(expected[i].value.bytes()));
          ++packed;
        }
        EXPECT_TRUE(std::equal(value.begin(), value.end(), expected[i].value.as<float>()))
            << found[i].name();
      }
      EXPECT_EQ(packed, std::ranges::count_if(expected, &Param::reads_blocks));
    }
  }
}

// Any bytes whose scales are finite, negative and denormal ones too, stand for the numbers that the
// reader makes of them.
TEST_F(LoadModel, BlocksStandForTheReadersNumbers) {
  for (const auto& [name, type] : {std::pair("q4_0", BlockType::q4_0),
                                   {"q4_1", BlockType::q4_1},
                                   {"q5_0", BlockType::q5_0},
                                   {"q5_1", BlockType::q5_1},
                                   {"q8_0", BlockType::q8_0},
                                   {"q4_k", BlockType::q4_k},
                                   {"q5_k", BlockType::q5_k},
                                   {"q6_k", BlockType::q6_k},
                                   {"mxfp4", BlockType::mxfp4}}) {
    SCOPED_TRACE(name);
    const GgufBlocks& of = *gguf_blocks(name);
    ASSERT_EQ(form_of(type).elements, of.elements);
    ASSERT_EQ(form_of(type).bytes, static_cast<std::int64_t>(of.bytes));
    const std::vector<BlockType> types(2000, type);
    const std::int64_t rows = std::ssize(types), cols = 256;
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(PackedRows::bytes(types, cols)));
    PackedRows::lay_out(packed.data(), types, cols);
    std::uint8_t* const first = packed.data() + PackedRows(packed.data()).runs()[0].offset;
    const std::span blocks(first,
                           static_cast<std::size_t>(rows * PackedRows::row_bytes(type, cols)));
    std::uint32_t state = 1;
    for (std::size_t at = 0; at < blocks.size(); at += of.bytes) {
      const auto block = blocks.subspan(at, of.bytes);
      do {
        for (std::uint8_t& byte : block)
          byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
      } while (!has_finite_scales(of, std::as_bytes(block)));
    }
    std::vector<float> numbers(static_cast<std::size_t>(rows * cols)), expected(numbers.size());
    cpu::unpack_rows(numbers.data(), packed.data());
    ASSERT_TRUE(dequantize(of, expected.data(), std::as_bytes(blocks)));
    EXPECT_EQ(numbers, expected);
  }
}

// The file's pages are not kept beside what was copied of them.
TEST_F(LoadModel, PagesOfBlocksLeaveMemory) {
  ModelConfig config = config_named("llama");
  config.hidden_size = 256;
  config.kv_channels = 64;
  config.ffn_hidden_size = 4096;
  write_hugging_face(scratch_.path("hf"), config, DType::f32);
  convert_all({"q8_0"});
  const auto source = open_model(scratch_.path("q8_0"));
  const auto model = make_model(source->config(), {{.end = source->config().all_layers()}});
  const auto resident = [&] {  // in KiB
    return std::stoll(mapping_of_file(scratch_.path("q8_0/model.gguf"), "Rss"));
  };
  int large = 0;
  for (const Param& row : model->table().rows()) {
    const std::vector<BlockType> types = source->block_types(row);
    if (row.local.numel() < 1 << 20 || types.empty()) continue;
    std::vector<std::uint8_t> packed(
        static_cast<std::size_t>(PackedRows::bytes(types, row.local[1])));
    PackedRows::lay_out(packed.data(), types, row.local[1]);
    const auto before = resident();
    source->read_blocks(row, packed.data());
    EXPECT_LT(resident() - before, std::ssize(packed) / 1024 / 4) << row.name();
    ++large;
  }
  EXPECT_GT(large, 0);
}

TEST_F(LoadModel, ScalesOfBlocksAreFinite) {
  write("llama", DType::bf16);
  convert_all({"q8_0"});
  const std::string path = scratch_.path("q8_0/model.gguf"), name = "blk.1.ffn_down.weight";
  const std::uint64_t at = GgufReader(path).tensors().at(name).chunks[0].place.offset;
  std::string bytes = read_regular_file(path);
  bytes.replace(at + 34, 2, std::string("\0\x7c", 2));  // the second block's
  write_file_atomically(path, bytes, true);
  for (const bool dequantize : {false, true})
    EXPECT_EQ(error_of([&] { load("q8_0", "", dequantize); }),
              concat("65 ", path, ": ", name, ": the scale of a block of q8_0 is not finite"));
}

TEST_F(LoadModel, BlocksBecomeNumbersForOtherTypes) {
  write("llama", DType::bf16);
  convert_all({"q8_0"});
  const LoadedModel loaded = load("q8_0", "fp64", false);
  for (const Param& row : loaded.model->table().rows()) EXPECT_EQ(row.value.dtype(), DType::f64);
}

TEST_F(LoadModel, NamesWhereTheCheckpointLies) {
  write("llama", DType::f32);
  convert_all({"core", "gguf"});
  EXPECT_EQ(load("hf").path, scratch_.path("hf"));
  EXPECT_EQ(load("core").path, scratch_.path("core/release"));
  EXPECT_EQ(load("gguf").path, scratch_.path("gguf/model.gguf"));
}

TEST_F(LoadModel, OtherFamiliesAreRefused) {
  for (const auto& [family, name] : {std::pair("mixtral", "Mixtral"),
                                     {"bert", "BERT"},
                                     {"mamba", "Mamba"},
                                     {"hybrid", "Mamba"}}) {
    std::filesystem::remove_all(scratch_.path("hf"));
    write_hugging_face(scratch_.path("hf"), config_named(family), DType::f32);
    EXPECT_EQ(error_of([&] { load("hf"); }), concat("78 ", scratch_.path("hf"), ": is a ", name,
                                                    ", with which no text is continued"));
  }
}

// Behind which token a T5's decoder begins.
TEST_F(LoadModel, StartsWhereTheFolderSays) {
  write("t5", DType::f32);
  EXPECT_EQ(
      error_of([&] { load("hf"); }),
      concat("78 ", scratch_.path("hf"),
             ": neither settings nor the tokenizer say behind which token the decoder begins"));
  write_file_atomically(scratch_.path("hf/generation_config.json"),
                        R"({"decoder_start_token_id":3})", true);
  EXPECT_EQ(load("hf").start_token, 3);
  convert_all({"core", "torch_dcp"});
  EXPECT_EQ(load("core").start_token, 3);
  expect_same("hf", "core");
  expect_same("torch_dcp", "core");
  write_file_atomically(scratch_.path("hf/generation_config.json"), R"({"bos_token_id":4})", true);
  EXPECT_EQ(load("hf").start_token, 4);
  write_file_atomically(scratch_.path("hf/generation_config.json"),
                        R"({"decoder_start_token_id":21})", true);
  EXPECT_EQ(error_of([&] { load("hf"); }),
            concat("78 ", scratch_.path("hf"),
                   ": the decoder begins behind token 21, but the model has 21"));
  write("llama", DType::f32);
  EXPECT_EQ(load("hf").start_token, std::nullopt);
}

TEST_F(LoadModel, TokenizersMustFit) {
  write("llama", DType::f32);  // 21 tokens, in 128 rows
  const auto refusal = [&](const TokenizerOptions& tokenizer) {
    return error_of(
        [&] { load_model(scratch_.path("hf"), tokenizer, {.device_name = "cpu"}, kText); });
  };
  EXPECT_EQ(refusal({}), concat("64 --tokenizer-type: required, because ", scratch_.path("hf"),
                                " names no tokenizer"));
  EXPECT_EQ(refusal({.type = "NullTokenizer", .vocab_size = 128}),
            concat("78 ", scratch_.path("hf"),
                   ": the tokenizer has 129 tokens, more than the model's 128"));
  const HfFiles tokenizer(HfParts().text(), "");
  std::filesystem::copy_file(tokenizer.json(), scratch_.path("hf/tokenizer.json"));
  // LlamaTokenizer has one where nothing is said.
  write_file_atomically(scratch_.path("hf/tokenizer_config.json"),
                        R"({"eos_token":null,"add_bos_token":false})", true);
  EXPECT_EQ(refusal({}), concat("78 ", scratch_.path("hf"),
                                ": the tokenizer has no end-of-document token, behind which a "
                                "text begins"));
  write_file_atomically(scratch_.path("hf/tokenizer_config.json"), R"({"eos_token":"d"})", true);
  EXPECT_EQ(refusal({}), "");
  const std::string line = refusal({.type = "NullTokenizer", .vocab_size = 20});
  EXPECT_NE(line.find("was trained with a tokenizer of identity"), std::string::npos) << line;
}

}  // namespace
}  // namespace mt
