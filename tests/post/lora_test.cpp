// Adapters of whole runs of sft: layouts, what frozen rows do not take, and what is saved.
#include <filesystem>

#include "base/error.h"
#include "formats/model_source.h"
#include "formats/peft/linear_modules.h"
#include "model/model_table.h"
#include "tests/post/finetune_layouts.h"
#include "tests/post/sft_run.h"
#include "tests/support/host_tensor.h"
#include "train/plan/plan.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

class LoraRun : public SftRun {
 protected:
  SftOptions adapted(const std::string& save = "") const {
    SftOptions o = options(save);
    o.model.lora_rank = 4;
    o.model.lora_alpha = 8;
    return o;
  }
  // Of rows of whole blocks, on each of two ranks, too.
  static SftOptions of_four_bits(SftOptions o) {
    o.model.hidden_size = 128;
    o.model.ffn_hidden_size = 128;
    o.model.quantize_base = "nf4";
    return o;
  }
  // A folder of a model, trained for a step.
  std::string base() const {
    SftOptions o = options("base");
    o.run.length.train_iters = 1;
    train_with(o);
    return path("base");
  }
};

class LoraLayouts : public LoraRun, public testing::WithParamInterface<FinetuneLayout> {};

INSTANTIATE_TEST_SUITE_P(All, LoraLayouts, testing::ValuesIn(finetune_layouts(7)),
                         [](const auto& layout) { return layout.param.name(); });

TEST_P(LoraLayouts, AsOneRank) {
  const auto with = [&](const FinetuneLayout& layout, bool dora) {
    SftOptions o = adapted();
    o.model.lora_dropout = dora ? 0 : 0.2;
    o.model.use_dora = o.check_layout = dora;
    o.run.compute.dtype = "fp64";
    layout.divide(o.run);
    return run_of(o, 3);
  };
  for (const bool dora : {false, true}) {
    const LayoutDifference difference = largest_difference(with(GetParam(), dora), with({}, dora));
    EXPECT_LT(difference.value, 1e-9) << difference.where << (dora ? ", with magnitudes" : "");
  }
}

// Of a hybrid of Mambas, attention and MLPs, of which each layer has adapters of other modules, and
// of a T5, whose decoder's layers have more of them than its encoder's.  Ranks share no sequences
// of theirs.
TEST_P(LoraLayouts, OfAHybridAndOfAT5AsOneRank) {
  if (GetParam().context > 1) return;
  for (const auto& options : {hybrid(adapted()), t5(adapted())}) {
    const auto with = [&](const FinetuneLayout& layout, bool dora) {
      SftOptions o = options;
      o.model.lora_dropout = dora ? 0 : 0.2;
      o.model.use_dora = o.check_layout = dora;
      o.run.compute.dtype = "fp64";
      layout.divide(o.run);
      return run_of(o, 2);
    };
    for (const bool dora : {false, true}) {
      const LayoutDifference difference =
          largest_difference(with(GetParam(), dora), with({}, dora));
      EXPECT_LT(difference.value, 1e-9)
          << options.model_type << ": " << difference.where << (dora ? ", with magnitudes" : "");
    }
  }
}

// What is held in four bits is cut as the weight is: losses and gradients are those of one rank.
TEST_P(LoraLayouts, OfFourBitsAsOneRank) {
  const auto with = [&](const FinetuneLayout& layout, bool dora) {
    SftOptions o = of_four_bits(adapted());
    o.model.use_dora = o.check_layout = dora;
    o.run.compute.dtype = "fp64";
    layout.divide(o.run);
    return run_of(o, 2);
  };
  for (const bool dora : {false, true}) {
    const LayoutDifference difference = largest_difference(with(GetParam(), dora), with({}, dora));
    EXPECT_LT(difference.value, 1e-9) << difference.where << (dora ? ", with magnitudes" : "");
  }
}

// The base in four bits is read again, and nothing of it is saved.
TEST_F(LoraRun, OfFourBitsGoesOnToTheBit) {
  SftOptions first = of_four_bits(options("base"));
  first.model.quantize_base.clear();
  first.run.length.train_iters = 1;
  train_with(first);
  const std::string model = path("base");
  goes_on_to_the_bit([&](const std::string& save) {
    SftOptions o = of_four_bits(adapted(save));
    o.run.checkpoint.pretrained_checkpoint = o.model.lora_base = model;
    FinetuneLayout{.data = 2, .tensor = 2, .distributed = true, .sharding = "optim_grads_params"}
        .divide(o.run);
    return o;
  });
}

// Of a linear layer's weight a plan counts 4 bits a number, 8 a block of 64, and little more.
TEST_F(LoraRun, OfFourBitsIsPlanned) {
  const auto parameters = [&](SftOptions o) {
    const auto task = open_sft(o, quiet());
    return make_plan(o.run, *task).pipeline.front().memory.parameters;
  };
  SftOptions whole = of_four_bits(adapted());
  whole.model.quantize_base.clear();
  constexpr double h = 128, kv = 64, f = 128, kLayers = 2;
  constexpr double kNumbers = kLayers * (h * (2 * h + 2 * kv) + 3 * h * f);
  const double less = static_cast<double>(parameters(whole)) -
                      static_cast<double>(parameters(of_four_bits(adapted())));
  EXPECT_GT(less, kNumbers * (4 - 0.56));
  EXPECT_LT(less, kNumbers * (4 - 0.515));
}

// Their values are all that there is of frozen rows: no gradient, no state, no sum over ranks.
TEST_F(LoraRun, FrozenRowsTakeTheirValuesAlone) {
  const auto plan_of = [&](SftOptions o) {
    o.run.optimizer.use_distributed_optimizer = true;
    o.run.ranks.count = 2;
    const auto task = open_sft(o, quiet());
    const Plan plan = make_plan(o.run, *task);
    std::int64_t trained = 0, all = 0;
    const ParamTable rows = task->rows();
    for (const Param& row : rows.rows()) {
      trained += row.trainable ? row.shape.numel() : 0;
      all += row.shape.numel();
    }
    return std::tuple(plan.pipeline.front(), trained, all);
  };
  const auto [full, trained_of_full, all_of_full] = plan_of(options());
  const auto [lora, trained, all] = plan_of(adapted());
  EXPECT_EQ(trained_of_full, all_of_full);
  EXPECT_EQ(all - all_of_full, trained);
  // Of each layer: A and B of q, k, v, o, gate, up and down.
  constexpr std::int64_t h = 32, kv = 16, f = 64, kRank = 4, kLayers = 2;
  EXPECT_EQ(trained, kLayers * kRank * (4 * h + 2 * h + 2 * kv + 3 * (h + f)));
  const auto bytes = [](std::int64_t elements) { return 4 * static_cast<std::size_t>(elements); };
  EXPECT_LT(lora.memory.gradients, bytes(trained) + (64 << 10));
  EXPECT_LT(lora.memory.optimizer, bytes(trained) + (64 << 10));
  const auto sent = [](const RankPlan& plan) {
    double sum = 0;
    for (const GroupMessages& group : plan.messages)
      if (group.group == "data") sum += group.bytes;
    return sum;
  };
  EXPECT_GT(sent(full), 0.95 * static_cast<double>(bytes(trained_of_full)));
  EXPECT_LT(sent(lora), 1.2 * static_cast<double>(bytes(trained)));
  EXPECT_LT(lora.step.flops, full.step.flops);
}

// A run of each of them that ended and went on has the bits of the one that did not.
TEST_P(LoraLayouts, GoesOnToTheBit) {
  const std::string model = base();
  goes_on_to_the_bit([&](const std::string& save) {
    SftOptions o = adapted(save);
    o.run.checkpoint.pretrained_checkpoint = o.model.lora_base = model;
    GetParam().divide(o.run);
    return o;
  });
}

// The run that ended and went on has the bits of the one that did not, and its checkpoint, which
// has no other weights, is an adapter of PEFT's.
TEST_F(LoraRun, GoesOnToTheBit) {
  const std::string model = base();
  const auto train_into = [&](const std::string& save, std::optional<std::int64_t> exit) {
    SftOptions o = adapted(save);
    o.run.checkpoint.pretrained_checkpoint = model;
    o.run.checkpoint.load = o.run.checkpoint.save;
    o.model.lora_base = model;
    o.run.length.train_iters = 6;
    o.run.length.exit_interval = exit;
    train_with(o);
  };
  train_into("whole", {});
  train_into("parts", 2);
  train_into("parts", {});
  int compared = 0;
  for (const auto& file : fs::directory_iterator(path("whole/iter_0000006"))) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".distcp") && !name.starts_with("adapter_")) continue;
    EXPECT_TRUE(read_file(path("parts/iter_0000006/") + name) == read_file(file.path().string()))
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
  const auto apart = open_model(path("whole"), {.merges_adapter = false});
  EXPECT_EQ(apart->config().lora_rank, 4);
  EXPECT_EQ(apart->config().lora_targets,
            "self_attention.linear_qkv.q,self_attention.linear_qkv.k,self_attention.linear_qkv.v,"
            "self_attention.linear_proj,mlp.linear_fc1.gate,mlp.linear_fc1.up,mlp.linear_fc2");
  // The merged weights are others than the base's.
  const auto merged = open_model(path("whole")), before = open_model(model);
  const ParamTable rows = model_rows(before->config());
  for (const Param& row : rows.rows()) {
    const bool is_linear = row.place.layer &&
                           row.place.module.find("linear") != std::string::npos &&
                           row.place.param == "weight";
    const HostTensor a(DType::f32, row.shape), b(DType::f32, row.shape);
    merged->read(row, "", a);
    before->read(row, "", b);
    EXPECT_EQ(worst_error(a, b) > 1e-5, is_linear) << row.name();
  }
}

TEST(LoraTargets, AreTheirsOrOurs) {
  ModelConfig llama;
  llama.num_layers = 2;
  llama.hidden_size = 16;
  llama.ffn_hidden_size = 32;
  llama.num_attention_heads = 4;
  llama.max_position_embeddings = llama.vocab_size = 32;
  llama.position_embedding_type = "rope";
  llama.swiglu = true;
  llama.add_bias_linear = false;
  ModelConfig gpt2 = llama;
  gpt2.position_embedding_type = "learned_absolute";
  gpt2.swiglu = false;
  for (ModelConfig* config : {&llama, &gpt2}) config->complete();
  const auto of = [](const ModelConfig& config, const std::vector<std::string>& wanted) {
    return lora_targets(config, wanted, "--lora-targets");
  };
  EXPECT_EQ(of(llama, {"q_proj", "v_proj"}),
            "self_attention.linear_qkv.q,self_attention.linear_qkv.v");
  EXPECT_EQ(of(llama, {"mlp.down_proj", "linear_proj"}),
            "self_attention.linear_proj,mlp.linear_fc2");
  EXPECT_EQ(of(llama, {"linear_fc1"}), "mlp.linear_fc1.gate,mlp.linear_fc1.up");
  EXPECT_EQ(of(gpt2, {"all-linear"}),
            "self_attention.linear_qkv,self_attention.linear_proj,mlp.linear_fc1,mlp.linear_fc2");
  // Layers of other kinds have other modules.  PEFT has no adapter of a Nemotron-H's out_proj.
  ModelConfig hybrid = llama;
  hybrid.family = ModelFamily::mamba;
  hybrid.hybrid_pattern = "M-*-";
  hybrid.num_layers = 4;
  hybrid.mamba_head_dim = 16;
  hybrid.mamba_num_groups = 2;
  ModelConfig granite = hybrid;
  hybrid.rotary_percent = 0.5;  // a Bamba
  ModelConfig nemotron = hybrid;
  nemotron.swiglu = false;
  ModelConfig t5 = llama;
  t5.family = ModelFamily::t5;
  t5.position_embedding_type = "relative";
  t5.encoder_num_layers = 2;
  for (ModelConfig* config : {&hybrid, &granite, &nemotron, &t5}) config->complete();
  EXPECT_EQ(of(hybrid, {"all-linear"}),
            "mixer.in_proj,mixer.out_proj,mlp.linear_fc1.gate,mlp.linear_fc1.up,mlp.linear_fc2,"
            "self_attention.linear_qkv.q,self_attention.linear_qkv.k,self_attention.linear_qkv.v,"
            "self_attention.linear_proj");
  EXPECT_EQ(
      of(granite, {"all-linear"}),
      "mixer.in_proj,mixer.out_proj,mlp.linear_fc1,mlp.linear_fc2,self_attention.linear_qkv.q,"
      "self_attention.linear_qkv.k,self_attention.linear_qkv.v,self_attention.linear_proj");
  EXPECT_EQ(of(nemotron, {"all-linear"}),
            "mixer.in_proj,mlp.linear_fc1,mlp.linear_fc2,self_attention.linear_qkv.q,"
            "self_attention.linear_qkv.k,self_attention.linear_qkv.v,self_attention.linear_proj");
  EXPECT_EQ(of(t5, {"q", "v"}),
            "self_attention.linear_qkv.q,self_attention.linear_qkv.v,cross_attention.linear_q,"
            "cross_attention.linear_kv.v");
  EXPECT_EQ(of(t5, {"EncDecAttention.k", "linear_fc2"}),
            "mlp.linear_fc2,cross_attention.linear_kv.k");
  gpt2.lora_rank = 1;
  gpt2.lora_targets = of(gpt2, {"attn.c_proj"});
  EXPECT_EQ(peft_targets(gpt2), std::vector<std::string>{"attn.c_proj"});
  gpt2.lora_targets = of(gpt2, {"c_proj"});
  EXPECT_EQ(peft_targets(gpt2), std::vector<std::string>{"c_proj"});
  const auto line = [&](const std::string& wanted) {
    try {
      of(llama, {wanted});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(line("q_prj"),
            "--lora-targets: Target modules {q_prj} not found in the base model; did you mean "
            "q_proj?");
  EXPECT_EQ(line("layers.0.self_attn.q_proj"),
            "--lora-targets: layer 1 would have other adapters than the first, and all layers have "
            "the same");
}

}  // namespace
}  // namespace mt
