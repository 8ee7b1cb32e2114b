// Adapters beside a model's weights give what the same folders' give as rows of the model's own,
// and, but for rounding, what they give merged into the weights.
#include "formats/peft/load_side_adapters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "ckpt/safetensors.h"
#include "ckpt/tensor_source.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/load_model.h"
#include "formats/peft/linear_modules.h"
#include "formats/peft/peft_folder.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "model/pass.h"
#include "tests/base/scratch.h"
#include "tests/support/host_tensor.h"
#include "text/tokenizer.h"

namespace mt {
namespace {

const std::string kFolder = MT_TESTDATA "/trl/";

LoadedModel load(const std::string& base, const ModelSourceOptions& options = {}) {
  return load_model(kFolder + base, {}, DeviceOptions{.device_name = "cpu", .dtype = "fp32"},
                    {{ModelFamily::gpt, ModelFamily::mixtral, ModelFamily::mamba}, "no text"},
                    options);
}

// Logits after each token of a text.
std::vector<double> logits_of(const Model& model, const AdaptedRuns& adapted = {}) {
  constexpr std::int64_t kLength = 24;
  Stream stream(Device::cpu, 1);
  Pass pass(model, stream, model.config().vocab_size);
  const PassSize size{.length = kLength, .rows = kLength, .adapted = adapted};
  pass.reserve([&](Pass& measured) {
    measured.input(size);
    measured.on_host(measured.logits());
  });
  const PassInput in = pass.input(size);
  std::iota(in.positions.as<std::int32_t>(), in.positions.as<std::int32_t>() + kLength, 0);
  std::iota(in.rows.as<std::int32_t>(), in.rows.as<std::int32_t>() + kLength, 0);
  for (std::int32_t i = 0; i < kLength; ++i) in.ids.as<std::int32_t>()[i] = 5 + i * i % 40;
  const ConstTensor logits = pass.on_host(pass.logits());
  std::vector<double> values;
  for (std::int64_t i = 0; i < logits.numel(); ++i) values.push_back(element(logits, i));
  return values;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

class SideAdaptersOf : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SideAdaptersOf, SaysWhatItSaysAlone) {
  const auto& [base, adapter] = GetParam();
  const LoadedModel model = load(base);
  const std::vector<double> plain = logits_of(*model.model);
  load_side_adapters(*model.model, kFolder + base, {kFolder + adapter});
  const LoadedModel own = load(base, {.adapter = kFolder + adapter, .merges_adapter = false}),
                    merged = load(base, {.adapter = kFolder + adapter});
  const std::vector<double> found = logits_of(*model.model, {{1, 1}});
  EXPECT_EQ(found, logits_of(*own.model));
  EXPECT_LT(farthest(found, logits_of(*merged.model)), 1e-4);
  EXPECT_GT(farthest(found, plain), 1e-2);
  EXPECT_LT(farthest(logits_of(*model.model, {{0, 1}}), plain), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Folders, SideAdaptersOf,
                         testing::Values(std::pair("llama", "llama-lora"),
                                         std::pair("llama", "llama-rslora"),
                                         std::pair("qwen3", "qwen3-lora"),
                                         std::pair("bamba", "bamba-lora"),
                                         std::pair("nemotron_h", "nemotron_h-lora"),
                                         std::pair("qwen3_moe", "qwen3_moe-lora")),
                         [](const auto& which) {
                           std::string name = which.param.second;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(LoadSideAdapters, RefusesOthers) {
  const auto refusal = [](const std::string& base, const std::string& adapter) -> std::string {
    const LoadedModel model = load(base);
    try {
      load_side_adapters(*model.model, kFolder + base, {kFolder + adapter});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("qwen3", "qwen3-dora").find("adapter_config.json: use_dora: is set"),
            std::string::npos);
  EXPECT_NE(refusal("llama", "llama-reward-lora").find("the head of a task"), std::string::npos);
  EXPECT_NE(refusal("llama", "qwen3-lora").find("it is an adapter of another base model"),
            std::string::npos);
  EXPECT_NE(refusal("llama", "nothing").find("no adapter there"), std::string::npos);
}

std::vector<float> numbers_of(const ModelSource& source, const Param& row) {
  const HostTensor tensor(DType::f32, row.shape);
  source.read(row, "", tensor);
  const auto* const numbers = tensor.view().as<float>();
  return {numbers, numbers + row.shape.numel()};
}

struct Table {
  std::string name;
  Shape shape;
  float value;
};

// The adapters of such a folder, whose names have `inner` in front, and tables, with these
// settings.
void write_adapters(const std::string& folder, const std::string& original, const std::string& json,
                    const std::vector<Table>& tables, const std::string& inner = "") {
  const std::string model = "base_model.model.model.";
  std::filesystem::create_directory(folder);
  File::create(folder + "/" + kAdapterConfig).write(json);
  const auto stored = open_tensor_file(original + "/" + kAdapterModel);
  const auto name_here = [&](const std::string& name) {
    return concat(model, inner, name.substr(model.size()));
  };
  std::vector<SafetensorsWriter::Entry> entries;
  for (const Table& one : tables) entries.push_back({one.name, DType::f32, one.shape});
  for (const auto& [name, tensor] : stored->tensors())
    entries.push_back({name_here(name), *tensor.dtype, tensor.shape});
  SafetensorsWriter writer(folder, entries, kAdapterModel);
  for (const Table& one : tables) {
    const HostTensor table(DType::f32, one.shape);
    std::fill_n(table.view().as<float>(), one.shape.numel(), one.value);
    writer.write(one.name, table);
  }
  for (const auto& [name, tensor] : stored->tensors()) {
    const HostTensor value(*tensor.dtype, tensor.shape);
    stored->read_original(name, origin_of(tensor.shape.rank()), value);
    writer.write(name_here(name), value);
  }
  writer.close();
}

// With another value in the place of what stands between the two.
std::string replaced(std::string json, const std::string& from, const std::string& end,
                     const std::string& to) {
  const std::size_t at = json.find(from);
  return json.replace(at, json.find(end, at) + end.size() - at, to);
}

constexpr const char* kWordTable = "base_model.model.model.embed_tokens.weight";
constexpr const char* kLogitTable = "base_model.model.lm_head.weight";
constexpr const char* kTablesToSave = R"("modules_to_save": ["embed_tokens", "lm_head"])";

// An adapter whose targets are what a regular expression matches, under the names of a model that
// reads images, too, with tables of words and of logits: merged, they are the model's.
TEST(AdapterFolders, HaveWordsAndAnExpression) {
  const Scratch scratch;
  const std::string folder = scratch.path("adapter"), original = kFolder + "llama-lora";
  std::string json =
      replaced(read_file(original + "/" + kAdapterConfig), "\"target_modules\": [", "]",
               R"("target_modules": ".*language_model.*[.](?:self_attn|mlp)[.][a-z]+_proj")");
  json = replaced(json, "\"modules_to_save\": ", "null", kTablesToSave);
  const auto base = open_model(kFolder + "llama");
  const Shape words = {base->config().vocab_size, base->config().hidden_size};
  write_adapters(folder, original, json,
                 {{"base_model.model.model.language_model.embed_tokens.weight", words, 0.5F},
                  {kLogitTable, words, 0.25F}},
                 "language_model.");
  const auto plain = open_model(kFolder + "llama", {.adapter = original}),
             merged = open_model(kFolder + "llama", {.adapter = folder}),
             apart = open_model(kFolder + "llama", {.adapter = folder, .merges_adapter = false});
  const ParamTable rows = model_rows(merged->config());
  merged->check_all_used(rows);
  for (const Param& row : rows.rows()) {
    const std::vector<float> numbers = numbers_of(*merged, row);
    if (!row.is_vocabulary()) {
      EXPECT_EQ(numbers, numbers_of(*plain, row)) << row.name();
      continue;
    }
    EXPECT_EQ(numbers[3], row.place.stack == "output_layer" ? 0.25F : 0.5F) << row.name();
    EXPECT_EQ(numbers_of(*apart, row), numbers) << row.name();
    EXPECT_EQ(name_of(merged->dtype_of(row, "")), std::string("bfloat16"));  // as the base's
  }
  const LoadedModel whole = load("llama");
  EXPECT_NE(error_of([&] {
              load_side_adapters(*whole.model, kFolder + "llama", {folder});
            }).find("the adapter has words of its own"),
            std::string::npos);
  json.replace(json.find("language_model"), 14, "visual");
  write_file_atomically(folder + "/" + kAdapterConfig, json, true);
  EXPECT_NE(error_of([&] {
              open_model(kFolder + "llama", {.adapter = folder});
            }).find("_proj\" matches no linear layer of the base model"),
            std::string::npos);
}

// Whose weights have inputs as rows; other models with learned positions are of linear layers.
TEST(AdapterFolders, SayOfGpt2AloneThatItsWeightsAreTransposed) {
  const Scratch scratch;
  for (const auto& [type, transposed] : {std::pair("gpt2", true), {"opt", false}}) {
    ModelConfig config =
        parse_hugging_face_config(concat(R"({"model_type":")", type, "\"}"), "c").model;
    config.complete();
    config.lora_rank = 1;
    config.lora_targets = lora_targets(config, {"all-linear"}, "c");
    const HostTensor tensor(DType::f32, {1});
    std::filesystem::create_directory(scratch.path(type));
    write_peft_folder(scratch.path(type), config, {{"a", tensor.view()}});
    EXPECT_NE(read_file(scratch.path(type) + "/" + kAdapterConfig)
                  .find(concat("\"fan_in_fan_out\": ", transposed ? "true" : "false")),
              std::string::npos)
        << type;
  }
}

// A vocabulary that was made larger before the adapter was learnt: PEFT stores both tables, also
// where they are one, and their copies where modules_to_save lists them; its tokenizer lies beside.
TEST(AdapterFolders, HaveAnotherVocabulary) {
  for (const auto& [base, saves, more] : {std::tuple("llama", false, 3),
                                          {"llama", true, 3},
                                          {"qwen3", false, 3},
                                          {"llama", false, -9}}) {
    const Scratch scratch;
    const std::string folder = scratch.path("adapter"), path = kFolder + base,
                      original = path + "-lora";
    const ModelConfig of_base = open_model(path)->config();
    const std::int64_t words = of_base.vocab_size + more;
    const Shape shape = {words, of_base.hidden_size};
    std::vector<Table> tables = {{kWordTable, shape, 0.5F}, {kLogitTable, shape, 0.5F}};
    std::string json = read_file(original + "/" + kAdapterConfig);
    if (saves) {
      json = replaced(json, "\"modules_to_save\": ", "null", kTablesToSave);
      for (const std::string copy : {"original_module", "modules_to_save"})
        tables.push_back({concat("base_model.model.lm_head.", copy, ".weight"), shape, 0.25F});
    }
    write_adapters(folder, original, json, tables);
    write_file_atomically(
        folder + "/tokenizer.json",
        replaced(
            read_file(path + "/tokenizer.json"), "\"added_tokens\":", "[",
            R"("added_tokens": [{"id":380,"content":"<new>","single_word":false,"lstrip":false,)"
            R"("rstrip":false,"normalized":false,"special":false},)"),
        true);
    const auto merged = open_model(path, {.adapter = folder});
    EXPECT_EQ(merged->config().vocab_size, words) << base;
    EXPECT_EQ(merged->config().padded_vocab_size, 384);
    const ParamTable rows = model_rows(merged->config());
    merged->check_all_used(rows);
    for (const Param& row : rows.rows()) {
      if (!row.is_vocabulary()) continue;
      const std::vector<float> numbers = numbers_of(*merged, row);
      const auto of_words = static_cast<std::size_t>(shape.numel());
      EXPECT_EQ(numbers[of_words - 1], 0.5F) << row.name();
      EXPECT_EQ(numbers[of_words], 0) << row.name();
    }
    std::vector<std::int32_t> ids;
    merged->make_tokenizer({})->encode("<new>", ids);
    EXPECT_EQ(ids, std::vector<std::int32_t>{380});
    EXPECT_NE(find_companion(merged->companions(), "config.json"), nullptr);  // the base's
  }
}

TEST(AdapterFolders, HaveAllTablesOfAnotherVocabulary) {
  const Scratch scratch;
  const auto refusal = [&](const std::string& base, const std::vector<Table>& tables,
                           const char* saved = "null") {
    const std::string folder = scratch.path("adapter"), original = kFolder + base + "-lora";
    std::filesystem::remove_all(folder);
    write_adapters(folder, original,
                   replaced(read_file(original + "/" + kAdapterConfig), "\"modules_to_save\": ",
                            "null", concat("\"modules_to_save\": ", saved)),
                   tables);
    return error_of([&] { open_model(kFolder + base, {.adapter = folder}); });
  };
  EXPECT_NE(refusal("llama", {{kWordTable, {383, 16}, 0}})
                .find("has 383 words, and the base 380, whose logits are not in the adapter"),
            std::string::npos);
  EXPECT_NE(refusal("llama", {{kLogitTable, {383, 16}, 0}})
                .find("has 383 words, and the base 380, whose words are not in the adapter"),
            std::string::npos);
  EXPECT_EQ(refusal("qwen3", {{kWordTable, {383, 16}, 0}}), "");
  EXPECT_NE(refusal("qwen3", {{kWordTable, {383, 16}, 0}}, "[\"embed_tokens\"]")
                .find("has words of its own, and the base's are its logits, too"),
            std::string::npos);
}

TEST(LoadSideAdapters, ALlavaTakesNone) {
  const std::string base = MT_TESTDATA "/models/llava", adapter = kFolder + "llama-lora";
  const std::string expected =
      adapter + ": is an adapter, and the base is a LLaVA, which takes none";
  const ModelUse use{{ModelFamily::llava}, "no text"};
  const DeviceOptions compute{.device_name = "cpu", .dtype = "fp32"};
  const auto refusal = [](const auto& function) -> std::string {
    try {
      function();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_config);
      return error.what();
    }
    return "";
  };
  const LoadedModel loaded = load_model(base, {}, compute, use);
  EXPECT_EQ(refusal([&] { load_side_adapters(*loaded.model, base, {adapter}); }), expected);
  for (const bool merges : {true, false})
    EXPECT_EQ(refusal([&] {
                load_model(base, {}, compute, use, {.adapter = adapter, .merges_adapter = merges});
              }),
              expected);
}

}  // namespace
}  // namespace mt
