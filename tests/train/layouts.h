// Layouts of small models against one rank, for tests: every gradient of five steps, their norms
// and losses, and the weights after them, dropout on; in fp32 the gradients of the first.  A run
// takes so many of them that each pair of settings meets; with MT_ALL_LAYOUTS set, all.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/bert_run.h"
#include "tests/train/retro_run.h"
#include "tests/train/t5_run.h"
#include "tests/train/training_run.h"
#include "train/check/layout_check.h"

namespace mt {

enum class Style {
  gpt,
  llama,
  gemma,
  command,
  bert,
  t5,
  experts,
  hybrid,
  mixture,
  retro,
  latent,
  delta
};

// A run; sizes that it does not name are 1.
struct TrainedLayout {
  Style style = Style::gpt;
  bool tied = true;
  DType dtype = DType::f64;
  int ranks = 1;
  ParallelOptions parallel = {};
  PipelineOptions pipeline = {};
  int num_layers = 2;
  int hidden_size = 32, seq_length = 16;
  std::string recompute = {};  // a part, or "full"
  bool distributed = false;    // the optimizer
  int instances = 1;           // of it
  std::string sharding = "no_shard";
  std::int64_t bucket = 0;  // parameters in one; 0: nothing overlaps
  bool documents = false;   // attention stays within them
  bool per_token_loss = false;
  const char* positions = "";  // of a T5 or a Retro
  bool packed = false;         // a BERT's samples
  bool capacity = false;       // of experts, for the tokens of a rank's micro-batch
  int further = 0;             // tokens that are predicted behind the next
  const char* fp8 = "";        // a recipe
  bool gathers_codes = false;  // of weights

  // Of the options that one rank would have too: runs that agree in them can be compared.
  std::string model_name() const {
    return concat(style == Style::gpt       ? std::string("gpt")
                  : style == Style::llama   ? "llama"
                  : style == Style::gemma   ? "gemma"
                  : style == Style::command ? "command"
                  : style == Style::bert    ? "bert"
                  : style == Style::experts ? "experts"
                  : style == Style::hybrid  ? "hybrid"
                  : style == Style::mixture ? "mixture"
                  : style == Style::latent  ? "latent"
                  : style == Style::delta   ? "delta"
                                            : concat(style == Style::t5 ? "t5_" : "retro_",
                                                   std::string_view(positions).substr(0, 4)),
                  tied ? "_tied" : "_untied", num_layers == 2 ? "" : concat("_l", num_layers),
                  hidden_size == 32 ? "" : concat("_h", hidden_size),
                  seq_length == 16 ? "" : concat("_s", seq_length),
                  dtype == DType::f64 ? "" : "_f32", documents ? "_documents" : "",
                  per_token_loss ? "_per_token" : "", packed ? "_packed" : "",
                  capacity ? "_capacity" : "", further == 0 ? "" : concat("_further", further),
                  *fp8 == 0 ? "" : concat("_", fp8));
  }
  std::string name() const {
    const ParallelOptions& p = parallel;
    std::string text = model_name();
    const auto add = [&](const char* what, int size) {
      if (size > 1) text += concat("_", what, size);
    };
    add("ranks", ranks);
    add("tp", p.tensor_model_parallel_size);
    if (p.sequence_parallel) text += p.tp_comm_overlap ? "_sp_overlap" : "_sp";
    add("cp", p.context_parallel_size);
    if (p.context_parallel_size > 1)
      for (const std::string& type : p.cp_comm_type)
        text += type == "a2a+p2p" ? "_a2a_p2p" : "_" + type;
    add("ep", p.expert_model_parallel_size);
    if (p.expert_tensor_parallel_size) text += concat("_etp", *p.expert_tensor_parallel_size);
    if (p.moe_token_dispatcher_type == "alltoall") text += "_alltoall";
    add("pp", p.pipeline_model_parallel_size);
    add("vp", pipeline.virtual_stages_per_rank.value_or(1));
    if (pipeline.schedule != "1f1b") text += pipeline.schedule == "gpipe" ? "_gpipe" : "_zb";
    if (!pipeline.layout.empty()) text += "_layout";
    if (!pipeline.segments.empty()) text += "_segments";
    if (!recompute.empty()) text += "_" + recompute;
    if (distributed) text += "_shared";
    if (sharding != "no_shard") text += "_" + sharding;
    if (gathers_codes) text += "_codes";
    add("instances", instances);
    add("bucket", static_cast<int>(bucket));
    return text;
  }
};
inline void PrintTo(const TrainedLayout& layout, std::ostream* out) { *out << layout.name(); }

// Each pair of settings, one of the model or of the layout each, that occurs in a layout.
inline std::set<std::pair<std::string, std::string>> pairs_of(const TrainedLayout& layout) {
  const std::string name = layout.name();
  std::vector<std::string> settings;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('_', at), name.size());
    settings.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  std::set<std::pair<std::string, std::string>> pairs;
  for (std::size_t j = 0; j < settings.size(); ++j)
    for (std::size_t i = 0; i < j; ++i) pairs.emplace(settings[i], settings[j]);
  return pairs;
}

// What a run takes of `all`: by turns the layout with most pairs of settings that no layout taken
// before has, until there are none; all, where the environment says MT_ALL_LAYOUTS.
inline auto in_this_run(std::vector<TrainedLayout> all) {
  if (std::getenv("MT_ALL_LAYOUTS")) return testing::ValuesIn(all);
  std::vector<TrainedLayout> taken;
  std::set<std::pair<std::string, std::string>> seen;
  while (true) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto pairs = pairs_of(all[i]);
      const auto fresh = static_cast<std::size_t>(
          std::count_if(pairs.begin(), pairs.end(), [&](const auto& p) { return !seen.count(p); }));
      if (fresh > most) best = i, most = fresh;
    }
    if (most == 0) return testing::ValuesIn(taken);
    seen.merge(pairs_of(all[best]));
    taken.push_back(all[best]);
  }
}

class Layouts : public Training, public testing::WithParamInterface<TrainedLayout> {
 protected:
  static constexpr int kSteps = 5;

  PretrainOptions options_of(const TrainedLayout& layout) const {
    PretrainOptions o = options("");
    o.run.checkpoint.save.clear();
    o.model.hidden_size = layout.hidden_size;
    o.model.num_attention_heads = 8;
    o.model.kv_channels = 16;
    o.model.attention_dropout = o.model.hidden_dropout = 0.1;
    o.model.untie_embeddings_and_output_weights = !layout.tied;
    o.model.init_method_std = 0.1;  // so that every gradient counts
    if (layout.style == Style::llama || layout.style == Style::gemma ||
        layout.style == Style::command || layout.style == Style::experts ||
        layout.style == Style::latent || layout.style == Style::delta) {
      o.model.position_embedding_type = "rope";
      o.model.normalization = "RMSNorm";
      o.model.swiglu = true;
      o.model.add_bias_linear = false;
      o.model.qk_layernorm = true;
      o.model.group_query_attention = true;
      o.model.num_query_groups = 4;
      if (layout.style == Style::gemma) make_gemma(o.model);
      if (layout.style == Style::command) make_command(o.model);
      if (layout.style == Style::latent) make_latent(o.model, layout.tied);
      if (layout.style == Style::delta) make_delta(o.model, layout);
    } else {
      o.model.label_smoothing = 0.1;
    }
    if (layout.style == Style::gpt) o.model.qkv_bias = layout.tied;
    if (layout.style == Style::experts) {
      o.model.family = ModelFamily::mixtral;
      o.model.num_experts = 4;
      if (layout.tied) {  // each kind of layout is, and is not
        o.model.moe_shared_expert_intermediate_size = 48;
        o.model.moe_shared_expert_gate = true;
      } else {
        o.model.moe_layer_freq = layout.num_layers == 4 ? "[0]+[1]*3" : "2";
        o.model.moe_ffn_hidden_size = 40;
      }
      if (layout.capacity) {
        o.model.moe_expert_capacity_factor = 0.75;
        o.model.moe_token_drop_policy = layout.tied ? "probs" : "position";
      }
      o.model.moe_aux_loss_coeff = {0.1};
      if (!layout.tied) {
        o.model.moe_router_load_balancing_type = {"aux_loss", "seq_aux_loss"};
        o.model.moe_aux_loss_coeff = {0.1, 0.07};
      }
      o.model.moe_z_loss_coeff = 0.01;
      o.model.moe_router_topk = 2;
    }
    if (layout.style == Style::mixture) make_mixture(o.model, layout);
    if (layout.style == Style::hybrid || layout.style == Style::mixture) {
      o.model.family = ModelFamily::mamba;
      if (layout.style == Style::hybrid)
        o.model.hybrid_pattern = layout.num_layers == 4 ? "MM*-" : "M*";
      o.model.normalization = "RMSNorm";
      o.model.add_bias_linear = false;
      o.model.mamba_head_dim = 8;  // two heads a group: of one alone D would have no gradient
      o.model.mamba_state_dim = 6;
      o.model.mamba_num_groups = 4;
    }
    if (layout.style == Style::bert) {
      if (!fs::exists(path("sentences.bin"))) write_sentences(path("sentences"));
      make_bert(o, path("sentences"), layout.tied);  // untied ones without a binary head
      o.data.masks.pack_sequences = layout.packed;
    }
    o.model.mtp_num_layers = layout.further;
    if (layout.further > 0) o.model.mtp_loss_scaling_factor = 0.3;
    o.model.padded_vocab_size = 384;
    o.data.seq_length = o.model.max_position_embeddings = layout.seq_length;
    o.data.reset_attention_mask = layout.documents;
    o.run.batch.calculate_per_token_loss = layout.per_token_loss;
    if (layout.per_token_loss && layout.further == 0) o.model.window_size = "5,0";
    if (*layout.fp8 != 0) {
      o.run.fp8.recipe = layout.fp8;
      o.run.fp8.format = o.run.fp8.recipe == "blockwise" ? "e4m3" : "hybrid";
    }
    o.run.fp8.param_gather = layout.gathers_codes;
    if (o.run.fp8.is_delayed()) {
      o.run.fp8.history = 2;
      o.run.fp8.algorithm = "max";
    }
    o.run.optimizer.clip_grad = 0.5;
    o.run.optimizer.use_distributed_optimizer = layout.distributed;
    o.run.optimizer.distributed_optimizer_instances = layout.instances;
    o.run.optimizer.sharding_strategy = layout.sharding;
    o.run.optimizer.overlap_grad_reduce = layout.bucket > 0;
    o.run.optimizer.overlap_param_gather = layout.bucket > 0 && layout.distributed;
    if (layout.bucket > 0) o.run.optimizer.ddp_bucket_size = layout.bucket;
    o.run.compute.dtype = layout.dtype == DType::f64 ? "fp64" : "fp32";
    if (layout.recompute == "full")
      o.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
    else if (!layout.recompute.empty())
      o.model.recompute = {.granularity = "selective", .modules = {layout.recompute}};
    o.run.ranks.count = layout.ranks;
    o.run.ranks.parallel = layout.parallel;
    o.run.ranks.pipeline = layout.pipeline;
    o.model.num_layers = layout.num_layers;
    if (layout.style == Style::t5) {
      if (!fs::exists(path("sentences.bin"))) write_sentences(path("sentences"));
      o.model.position_embedding_type = layout.positions;
      make_t5(o, path("sentences"));
    }
    if (layout.style == Style::retro) {
      o.model.position_embedding_type = layout.positions;
      make_retro(o, layout.tied ? 8 : 4);
    }
    return o;
  }

  // A hybrid with experts of both kinds of activations, which may predict further tokens.
  static void make_mixture(ModelConfig& c, const TrainedLayout& layout) {
    c.hybrid_pattern = layout.num_layers == 4 ? "ME*E" : "ME";
    if (layout.further > 0) c.mtp_hybrid_pattern = "*EM";
    c.num_experts = 4;
    c.position_embedding_type = "none";
    c.moe_aux_loss_coeff = {0.1};
    c.moe_z_loss_coeff = 0.01;
    (layout.tied ? c.swiglu : c.squared_relu) = true;
    if (layout.tied) {
      c.moe_shared_expert_intermediate_size = 48;
      c.residual_mult = layout.further > 0 ? 1 : 0.5;
    } else {
      c.moe_router_score_function = "sigmoid";
      c.moe_router_enable_expert_bias = true;
      c.moe_latent_size = 20;
      c.moe_shared_expert_intermediate_size = 24;
    }
  }

  // Norms before and behind branches, caps, and two kinds of layers.
  static void make_gemma(ModelConfig& c) {
    c.swiglu = false;
    c.gated_gelu = c.apply_layernorm_1p = c.post_layernorm = true;
    c.embedding_layernorm = c.qk_layernorm_behind_rope = true;
    c.embedding_mult = 3;
    c.residual_mult = 0.8;
    c.softmax_scale = 0.3;
    c.attn_logit_softcapping = 0.9;
    c.final_logit_softcapping = 2;
    c.window_size = "5,0";
    c.window_attn_skip_freq = {2};
    c.rotary_base_window = 100;
  }
  // Attention beside the MLP, of heads whose norms have weights of their own, and layers that do
  // not turn.
  static void make_command(ModelConfig& c) {
    c.normalization = "LayerNorm";
    c.norm_bias = false;
    c.qk_layernorm = c.qk_layernorm_per_head = true;
    c.clip_qkv = 0.2;
    c.parallel_block = c.rotary_interleaved = true;
    c.no_rope_freq = {2};
    c.logit_scale = 0.3;
  }

  // The gated delta rule, and attention that has a gate, in front of MLPs or experts.
  static void make_delta(ModelConfig& c, const TrainedLayout& layout) {
    c.attention_output_gate = c.apply_layernorm_1p = true;
    c.rotary_percent = 0.5;
    c.norm_epsilon = 1e-3;  // a first token's query may read nearly nothing, which a norm blows up
    c.experimental_attention_variant = kGatedDeltaNet;
    c.linear_attention_freq = layout.num_layers == 4 ? "[1,1,0,1]" : "2";
    c.linear_conv_kernel_dim = 3;
    c.linear_key_head_dim = 6;
    c.linear_value_head_dim = 10;
    c.linear_num_key_heads = 4;
    c.linear_num_value_heads = 8;
    if (layout.tied) return;
    c.family = ModelFamily::mixtral;
    c.num_experts = 4;
    c.moe_aux_loss_coeff = {0.1};
    c.moe_shared_expert_intermediate_size = 24;
    c.moe_shared_expert_gate = true;
  }

  // Latents, of queries, too, or in front of experts.
  static void make_latent(ModelConfig& c, bool of_queries) {
    c.kv_channels.reset();
    c.group_query_attention = false;
    c.multi_latent_attention = true;
    c.kv_lora_rank = 10;
    c.qk_head_dim = 6;
    c.qk_pos_emb_head_dim = 4;
    c.v_head_dim = 8;
    c.rotary_scaling_factor = 4;
    c.original_max_position_embeddings = 8;
    if (of_queries) {
      c.q_lora_rank = 12;
      return;
    }
    c.family = ModelFamily::mixtral;
    c.num_experts = 4;
    c.moe_layer_freq = "2";
    c.moe_latent_size = 14;
    c.moe_router_score_function = "sqrtsoftplus";
    c.moe_aux_loss_coeff = {0.1};
    c.moe_shared_expert_intermediate_size = 24;
  }

  LayoutRun run(PretrainOptions o) const {
    Pretraining task = open_pretraining(o);
    const RunOptions& run = o.run;
    task.build(training_length(run.length, run.batch, run.evaluation, false), run.seed, run.batch,
               Log({.level = Log::Level::quiet}));
    return run_layout(run, task, kSteps);
  }

  // The same by one rank; computed once for layouts of one model.
  const LayoutRun& run_on_one(const TrainedLayout& layout) const {
    static std::map<std::string, LayoutRun> runs;
    const auto [found, fresh] = runs.try_emplace(layout.model_name());
    if (fresh)
      found->second = run(options_of({.style = layout.style,
                                      .tied = layout.tied,
                                      .dtype = layout.dtype,
                                      .num_layers = layout.num_layers,
                                      .hidden_size = layout.hidden_size,
                                      .seq_length = layout.seq_length,
                                      .documents = layout.documents,
                                      .per_token_loss = layout.per_token_loss,
                                      .positions = layout.positions,
                                      .packed = layout.packed,
                                      .capacity = layout.capacity,
                                      .further = layout.further,
                                      .fp8 = layout.fp8}));
    return found->second;
  }

  void expect_as_one_rank() const {
    const TrainedLayout& layout = GetParam();
    LayoutRun got = run(options_of(layout)), one = run_on_one(layout);
    if (layout.dtype == DType::f32) {  // Adam amplifies rounding where a gradient is nearly zero
      got.weights = one.weights = {};
      got.steps.resize(1);
      one.steps.resize(1);
    }
    const LayoutDifference worst = largest_difference(got, one);
    EXPECT_LE(worst.value, layout.dtype == DType::f64 ? 1e-9 : 1e-5) << worst.where;
    EXPECT_GT(one.steps.front().grad_norm, 0);
  }
};

inline std::string name_of_layout(const testing::TestParamInfo<TrainedLayout>& info) {
  return info.param.name();
}

}  // namespace mt
