// Logits, loss and gradients of Hugging Face's models (scripts/make-model-goldens.py), with weights
// that come in under their foreign names.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "formats/hugging_face/hugging_face_config.h"
#include "formats/names/hugging_face.h"
#include "tests/model/support.h"

namespace mt {
namespace {

// The script's uniform(): number `index` of `name`, in [-1, 1).
double uniform(const std::string& name, std::int64_t index) {
  std::uint32_t x = 2166136261u;
  for (const char c : name) x = (x ^ static_cast<unsigned char>(c)) * 16777619u;
  x += static_cast<std::uint32_t>(index) * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x85EBCA6Bu;
  x = (x ^ x >> 13) * 0xC2B2AE35u;
  x ^= x >> 16;
  return static_cast<double>(x >> 8) / 0x1p23 - 1;
}

// The script's weight().
double golden_weight(const std::string& name, std::int64_t index, bool zero_centered) {
  const bool norm = name.find("norm") != std::string::npos || name.find("ln_") != std::string::npos;
  return (norm && name.ends_with(".weight") && !zero_centered ? 1 : 0) + uniform(name, index) / 4;
}

struct Golden {
  explicit Golden(const std::string& name) {
    std::ifstream file(std::string(MT_TESTDATA) + "/model/" + name + ".golden");
    for (std::string line; std::getline(file, line);) read(line);
  }
  void read(const std::string& line) {
    std::istringstream words(line);
    std::string what, name;
    words >> what;
    if (what == "config") config = line.substr(what.size() + 1);
    if (what == "gradient" || what == "whole") words >> name;
    std::vector<double> numbers;
    for (double number; words >> number;) numbers.push_back(number);
    if (what == "ids") ids = numbers;
    if (what == "loss") loss = numbers.at(0);
    if (what == "logits") logits.push_back(numbers);
    if (what == "gradient") gradients[name] = {numbers.at(0), numbers.at(1)};
    if (what == "whole") whole[name] = numbers;
  }
  struct Gradient {
    double along, norm;  // <g, uniform(name.direction)> and |g|
  };
  std::string config;  // config.json, or empty
  std::vector<double> ids;
  double loss = 0;
  std::vector<std::vector<double>> logits;
  std::map<std::string, Gradient> gradients;
  std::map<std::string, std::vector<double>> whole;
};

ModelConfig config_of(const std::string& name) {
  if (const std::string json = Golden(name).config; !json.empty()) {
    ModelConfig config = parse_hugging_face_config(json, name).model;
    config.make_vocab_size_divisible_by = 8;
    config.complete();
    return config;
  }
  ModelConfig config = name == "gpt2" ? tiny_gpt2() : tiny_llama();
  config.add_qkv_bias = name == "qwen2";
  if (name == "qwen3") {
    config.kv_channels = 8;
    config.qk_layernorm = true;
  } else if (name == "llama3_1") {
    config.kv_channels = 16;
    config.rotary_base = 500000;
    config.use_rope_scaling = true;
  } else if (name == "mistral") {
    config.window_size = "3,0";
  } else if (name == "nemotron") {
    config.kv_channels = 8;
    config.rotary_percent = 0.5;
    config.normalization = "LayerNorm";
    config.apply_layernorm_1p = true;
    config.swiglu = false;
    config.squared_relu = true;
  } else if (name == "mamba2") {
    config = tiny_hybrid("MM");
  } else if (name == "bamba") {
    config = tiny_hybrid("*-M-");
    config.squared_relu = false;
    config.swiglu = true;
    config.position_embedding_type = "rope";
    config.rotary_percent = 0.5;
  } else if (name == "nemotron_h") {
    config = tiny_hybrid("*M-");
    config.kv_channels = 8;
    config.mamba_num_heads = 6;
    config.mamba_head_dim = 4;
  } else if (name == "nemotron_h_experts" || name == "nemotron_h_latents") {
    config = tiny_hybrid("MMMM");
    if (name == "nemotron_h_latents") config.moe_latent_size = 9;
    config.hybrid_pattern = "EM*E";
    config.kv_channels = 8;
    config.mamba_num_heads = 6;
    config.mamba_head_dim = 4;
    config.num_experts = 4;
    config.moe_ffn_hidden_size = 12;
    config.moe_shared_expert_intermediate_size = 20;
    config.moe_router_score_function = "sigmoid";
    config.moe_router_enable_expert_bias = true;
    config.moe_router_num_groups = 2;
    config.moe_router_group_topk = 1;
    config.moe_router_topk_scaling_factor = 2.5;
  } else if (name.starts_with("granitemoehybrid")) {
    const bool dense = name.ends_with("_dense");
    config = tiny_hybrid("MMMM");
    config.hybrid_pattern = dense ? "*-M-" : "ME*E";
    config.squared_relu = false;
    config.swiglu = true;
    if (dense) {
      config.position_embedding_type = "rope";
      config.mamba_num_groups = 1;
      config.ffn_hidden_size = 20;
    } else {
      config.num_experts = 4;
      config.moe_ffn_hidden_size = 12;
      config.moe_shared_expert_intermediate_size = 20;
    }
    config.embedding_mult = 12;
    config.residual_mult = 0.22;
    config.logit_scale = 1.0 / 6;
    config.softmax_scale = 0.3;
  }
  config.complete();
  return config;
}

struct Case {
  std::string name;
  DType dtype;
  double tolerance;
  std::int64_t rows = 0;  // of the table of words, if more than the words; the others are no zeros
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name << " " << name_of(c.dtype); }
std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const std::string rows = info.param.rows > 0 ? concat("_", info.param.rows, "rows") : "";
  return concat(info.param.name, "_", name_of(info.param.dtype), rows);
}

// The same model with a table of so many rows, where that is not 0.
ModelConfig with_rows(ModelConfig config, std::int64_t rows) {
  if (rows == 0) return config;
  config.make_vocab_size_divisible_by = rows;
  config.padded_vocab_size = 0;
  config.complete();
  return config;
}

class HuggingFace : public testing::TestWithParam<Case> {
 protected:
  HuggingFace() {
    for (Param& row : bench_.table().rows())
      for (const ForeignName& foreign : names_of(row)) {
        if (!row.trainable && row.place.module == "mlp.activation") continue;  // as it begins
        const HostTensor theirs(dtype_, transformed_shape(foreign.transform, row.shape));
        fill_with(theirs, [&](std::int64_t i) {
          return golden_weight(golden_name(foreign), i, config_.apply_layernorm_1p);
        });
        apply_inverse(foreign.transform, row.value, theirs.view());
      }
    const auto length = static_cast<std::size_t>(ModelBench::kLength);
    for (std::size_t i = 0; i < static_cast<std::size_t>(ModelBench::kTokens); ++i) {
      const std::size_t at = i / length * (length + 1) + i % length;
      bench_.ids().span<std::int32_t>()[i] = static_cast<std::int32_t>(golden_.ids.at(at));
      bench_.labels().span<std::int32_t>()[i] = static_cast<std::int32_t>(golden_.ids.at(at + 1));
    }
    fill_with(bench_.row_weight(), [](std::int64_t) { return 1.0 / ModelBench::kTokens; });
  }

  std::vector<ForeignName> names_of(const Param& row) const {
    return hugging_face_names(config_, row);
  }

  // Of a tensor of all experts each has a name of its own.
  static std::string golden_name(const ForeignName& foreign) {
    return foreign.parts > 0 ? concat(foreign.name, ".", foreign.part) : foreign.name;
  }
  // Calls body(row, name of theirs) for those that have gradients.
  template <class Body>
  void for_trained(const Body& body) {
    for (const Param& row : bench_.table().rows())
      if (row.trainable)
        for (const ForeignName& foreign : names_of(row)) body(row, foreign);
  }

  // A gradient of ours as theirs, which no number that is added to weights changes.
  HostTensor gradient_of(const Param& row, const ForeignName& foreign) {
    HostTensor theirs(dtype_, transformed_shape(foreign.transform, row.shape));
    Transform transform = foreign.transform;
    std::erase_if(transform,
                  [](const Rearrange& step) { return step.kind == Rearrange::Kind::shift; });
    apply(transform, theirs, row.grad);
    return theirs;
  }

  const Golden golden_{GetParam().name};
  const ModelConfig config_ = with_rows(config_of(GetParam().name), GetParam().rows);
  const DType dtype_ = GetParam().dtype;
  const double tolerance_ = GetParam().tolerance;
  ModelBench bench_{config_, GetParam().dtype};
};

std::vector<Case> dense_cases() {
  std::vector<Case> cases;
  for (const char* name : {"gemma",
                           "gemma2",
                           "gemma3_text",
                           "olmo2",
                           "phi3",
                           "granite",
                           "smollm3",
                           "cohere",
                           "cohere2",
                           "gpt_neox",
                           "gptj",
                           "codegen",
                           "gpt_bigcode",
                           "persimmon",
                           "hyperclovax",
                           "gpt_neo",
                           "bloom",
                           "mpt",
                           "hunyuan_v1_dense",
                           "falcon",
                           "opt",
                           "olmo",
                           "olmo_clipped",
                           "stablelm",
                           "apertus",
                           "nanochat",
                           "qwen3_next"}) {
    cases.push_back({name, DType::f32, 1e-5});
    cases.push_back({name, DType::f64, 1e-12});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(OfDenseFamilies, HuggingFace, testing::ValuesIn(dense_cases()),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Agrees, HuggingFace,
    testing::Values(
        Case{"gpt2", DType::f32, 1e-5}, Case{"gpt2", DType::f64, 1e-12},
        Case{"llama", DType::f32, 1e-5}, Case{"llama", DType::f64, 1e-12},
        Case{"llama3_1", DType::f32, 1e-5}, Case{"llama3_1", DType::f64, 1e-12},
        Case{"mistral", DType::f32, 1e-5}, Case{"mistral", DType::f64, 1e-12},
        Case{"nemotron", DType::f32, 1e-5}, Case{"nemotron", DType::f64, 1e-12},
        Case{"qwen2", DType::f32, 1e-5}, Case{"qwen2", DType::f64, 1e-12},
        Case{"qwen3", DType::f32, 1e-5}, Case{"qwen3", DType::f64, 1e-12},
        Case{"mamba2", DType::f32, 1e-5}, Case{"mamba2", DType::f64, 1e-12},
        Case{"bamba", DType::f32, 1e-5}, Case{"bamba", DType::f64, 1e-12},
        Case{"nemotron_h", DType::f32, 1e-5}, Case{"nemotron_h", DType::f64, 1e-12},
        Case{"nemotron_h_experts", DType::f32, 1e-5}, Case{"nemotron_h_experts", DType::f64, 1e-12},
        Case{"nemotron_h_latents", DType::f32, 1e-5}, Case{"nemotron_h_latents", DType::f64, 1e-12},
        Case{"granitemoehybrid", DType::f32, 1e-5}, Case{"granitemoehybrid", DType::f64, 1e-12},
        Case{"granitemoehybrid_dense", DType::f32, 1e-5},
        Case{"granitemoehybrid_dense", DType::f64, 1e-12}),
    name_of_case);

// A model of Hugging Face's that is converted begins with transformers' own loss, and the rows
// behind its words have no gradient: one more than there are words, a multiple that Megatron makes,
// tables of words and of logits, logits that are capped or scaled.
INSTANTIATE_TEST_SUITE_P(
    WithATableThatIsPadded, HuggingFace,
    testing::Values(Case{"gpt2", DType::f64, 1e-12, 25}, Case{"gpt2", DType::f64, 1e-12, 128},
                    Case{"gpt2", DType::f32, 1e-5, 40}, Case{"llama", DType::f64, 1e-12, 31},
                    Case{"gemma2", DType::f64, 1e-12, 64}, Case{"cohere", DType::f64, 1e-12, 128},
                    Case{"nemotron_h", DType::f64, 1e-12, 26}),
    name_of_case);

TEST_P(HuggingFace, Names) {
  std::map<std::string, int> ours;
  for_trained([&](const Param&, const ForeignName& foreign) { ++ours[golden_name(foreign)]; });
  EXPECT_EQ(ours.size(), golden_.gradients.size());
  for (const auto& [name, gradient] : golden_.gradients) EXPECT_EQ(ours[name], 1) << name;
}

TEST_P(HuggingFace, Loss) {
  EXPECT_NEAR(bench_.evaluate(), golden_.loss, tolerance_ * golden_.loss);
}

TEST_P(HuggingFace, Logits) {
  ASSERT_EQ(std::ssize(golden_.logits), ModelBench::kTokens);
  const HostTensor rows(DType::i32, {ModelBench::kTokens});
  std::iota(rows.span<std::int32_t>().begin(), rows.span<std::int32_t>().end(), 0);
  Workbench bench({.dtype = dtype_,
                   .sequences = ModelBench::kSequences,
                   .seq_length = ModelBench::kLength,
                   .training = false});
  Step s = bench.step();
  const std::int64_t vocab = std::ssize(golden_.logits[0]);
  const Shape shape{ModelBench::kTokens, vocab};
  const HostTensor logits(dtype_, shape), expected(dtype_, shape);
  Fields batch;
  batch[Field::ids] = bench_.ids().view();
  Wire none;
  bench_.model().forward(s, none, {}, batch,
                         {.rows = rows.view(), .vocab = vocab, .logits = logits.view()}, nullptr);
  fill_with(expected, [&](std::int64_t i) {
    return golden_.logits[static_cast<std::size_t>(i / vocab)][static_cast<std::size_t>(i % vocab)];
  });
  EXPECT_TENSORS_NEAR(logits.view(), expected.view(), tolerance_);
}

TEST_P(HuggingFace, Gradients) {
  bench_.forward_and_backward();
  for_trained([&](const Param& row, const ForeignName& foreign) {
    const std::string name = golden_name(foreign);
    const HostTensor g = gradient_of(row, foreign);
    const HostTensor u(dtype_, g.view().shape());
    fill_with(u, [&](std::int64_t i) { return uniform(name + ".direction", i); });
    const auto [along, norm] = golden_.gradients.at(name);
    EXPECT_NEAR(std::sqrt(dot_of(g, g)), norm, tolerance_ * norm) << name;
    EXPECT_NEAR(dot_of(g, u), along, tolerance_ * norm * std::sqrt(dot_of(u, u))) << name;
  });
}

TEST_P(HuggingFace, WholeGradients) {
  bench_.forward_and_backward();
  std::size_t compared = 0;
  for_trained([&](const Param& row, const ForeignName& foreign) {
    const auto found = golden_.whole.find(golden_name(foreign));
    if (found == golden_.whole.end()) return;
    const HostTensor g = gradient_of(row, foreign), expected(dtype_, g.view().shape());
    fill_with(expected,
              [&](std::int64_t i) { return found->second.at(static_cast<std::size_t>(i)); });
    EXPECT_TENSORS_NEAR(g, expected, tolerance_) << foreign.name;
    ++compared;
  });
  EXPECT_EQ(compared, golden_.whole.size());
}

}  // namespace
}  // namespace mt
