#include "train/options/model_options.h"

#include <set>

#include "base/command.h"
#include "base/error.h"
#include "comm/launch.h"
#include "formats/model_source.h"
#include "model/config/settings.h"
#include "text/null_tokenizer.h"
#include "train/options/checkpoint_options.h"
#include "train/options/plan_options.h"

namespace mt {

void ModelOptions::add_experts_to(CommandLine& cl) {
  cl.section("Experts");
  cl.option("--num-experts", &num_experts, "N", "experts of a layer, in the place of its MLP",
            between(1, 4096));
  cl.option("--moe-layer-freq", &model.moe_layer_freq, "N",
            "every Nth layer from the first has them, the others an MLP; or a list with a 1 "
            "(experts) or 0 for each layer, as Python has it: ([0]*3+[1]*29)");
  cl.option("--moe-ffn-hidden-size", &model.moe_ffn_hidden_size, "N",
            "width inside each expert; default --ffn-hidden-size", at_least(1));
  cl.option("--moe-router-topk", &model.moe_router_topk, "N", "experts that each token goes to",
            at_least(1));
  cl.option("--moe-shared-expert-intermediate-size", &model.moe_shared_expert_intermediate_size,
            "N", "width of experts that all tokens go to beside theirs; 0: there are none",
            at_least(0));
  cl.flag("--moe-shared-expert-gate", &model.moe_shared_expert_gate,
          "what they make is multiplied by a sigmoid of each token");
  cl.option("--moe-latent-size", &model.moe_latent_size, "N",
            "width of what experts read and make, between two projections that all of "
            "a layer have in common; 0: the hidden size, and none",
            at_least(0));
  cl.option("--moe-router-score-function", &model.moe_router_score_function, "TYPE",
            "softmax of the chosen experts' logits weighs them; sigmoid: those of all choose, and "
            "weigh over their sum; sqrtsoftplus: likewise roots of ln(1 + e^logit)",
            one_of({"softmax", "sigmoid", "sqrtsoftplus"}));
  cl.option("--moe-router-dtype", &model.moe_router_dtype, "TYPE",
            "what routers' products are computed in, fp32 or fp64, where --dtype is narrower; "
            "scores and losses of the logits then are in fp32",
            one_of({"fp32", "fp64"}));
  cl.flag("--moe-router-pre-softmax", &model.moe_router_pre_softmax,
          "the softmax is of all experts' logits, not of the chosen alone");
  cl.option("--moe-router-num-groups", &model.moe_router_num_groups, "N",
            "groups of experts, of which some are kept for a token", at_least(0));
  cl.option("--moe-router-group-topk", &model.moe_router_group_topk, "N",
            "groups of experts that are kept for a token", at_least(0));
  cl.option("--moe-router-group-score", &model.moe_router_group_score, "WHAT",
            "what groups are kept by: the sum of so many best experts as a token chooses of each "
            "(topsum), or the best one alone (max)",
            one_of({"topsum", "max"}));
  cl.option("--moe-router-topk-scaling-factor", &model.moe_router_topk_scaling_factor, "F",
            "what the weights are multiplied by; 0: nothing", at_least(0));
  cl.flag("--moe-router-enable-expert-bias", &model.moe_router_enable_expert_bias,
          "sigmoids and roots choose with a bias, which a step changes by how often each expert "
          "was chosen");
  cl.option("--moe-router-bias-update-rate", &model.moe_router_bias_update_rate, "F",
            "what a step adds to an expert's bias or takes from it", between(0, 1));
  cl.option("--moe-expert-capacity-factor", &model.moe_expert_capacity_factor, "F",
            "an expert keeps so many times its share of the tokens of a rank's micro-batch, and "
            "drops others; 0, or less: it keeps all");
  cl.flag("--moe-pad-expert-input-to-capacity", &pads_to_capacity,
          "with --moe-expert-capacity-factor: accepted; it changes no number");
  cl.option("--moe-token-drop-policy", &model.moe_token_drop_policy, "WHICH",
            "tokens that an expert keeps: those of largest weight (probs), or the first (position)",
            one_of({"probs", "position"}));
  cl.option("--moe-router-load-balancing-type", &model.moe_router_load_balancing_type, "TYPE",
            "what --moe-aux-loss-coeff is of, one or several: aux_loss, over a micro-batch, "
            "seq_aux_loss, over each sequence, global_aux_loss, over the step's micro-batches so "
            "far of all data-parallel ranks; sinkhorn: none is needed, as training chooses evenly "
            "by keys of all tokens of a rank's micro-batch, nor with quantile_balancing, as logits "
            "choose less biases, which a step sets to quantiles of a micro-batch's",
            one_of({"aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "quantile_balancing",
                    "none"}));
  cl.option("--moe-router-quantile-balancing-ema", &model.moe_router_quantile_balancing_ema, "F",
            "what biases of quantile_balancing keep of what they were", between(0, 1));
  cl.option("--moe-input-jitter-eps", &model.moe_input_jitter_eps, "F",
            "training varies what routers read by factors from 1 - F to 1 + F", between(0, 1));
  cl.option("--moe-aux-loss-coeff", &model.moe_aux_loss_coeff, "F",
            "weight of the loss that has all experts chosen as often, of several one each",
            at_least(0));
  cl.option("--moe-z-loss-coeff", &model.moe_z_loss_coeff, "F",
            "weight of the loss that keeps the router's logits small", at_least(0));
}

void ModelOptions::add_padding_to(CommandLine& cl) {
  cl.option("--padded-vocab-size", &model.padded_vocab_size, "N",
            "rows of the vocabulary, padded; 0: as --make-vocab-size-divisible-by says",
            at_least(0));
}

void ModelOptions::add_yarn_to(CommandLine& cl) {
  cl.section("YaRN");
  cl.option("--yarn-original-max-position-embeddings", &yarn.original, "N",
            "positions that --position-embedding-type yarn stretches; default 4096", at_least(1));
  cl.flag("--yarn-correction-range-round-to-int", &yarn.rounds,
          "the channels between which --position-embedding-type yarn scales in part are rounded to "
          "whole ones; it is so unless --no-yarn-correction-range-round-to-int is given");
  cl.off_switch("--no-yarn-correction-range-round-to-int", &yarn.rounds, "they are not");
  cl.option("--rope-type", &rope_type, "TYPE",
            "of latent attention: yarn, or rope, for which --rotary-scaling-factor is 1; of other "
            "models rope",
            one_of({"rope", "yarn"}));
}

void ModelOptions::take_yarn(const CommandLine& cl, bool stored_first) {
  constexpr const char* kYarn = "--position-embedding-type yarn";
  if (rope_type == "yarn" && !model.multi_latent_attention)
    fail(Exit::bad_config, "--rope-type yarn: needs --multi-latent-attention; see ", kYarn);
  if (rope_type == "rope" && model.multi_latent_attention && model.rotary_scaling_factor != 1)
    fail(Exit::bad_config, "--rope-type rope: not with --rotary-scaling-factor ",
         model.rotary_scaling_factor);
  if (model.position_embedding_type != "yarn") {
    if (stored && stored_first) return;  // what these say is in the checkpoint's factors
    for (const char* const name :
         {"--yarn-original-max-position-embeddings", "--yarn-correction-range-round-to-int",
          "--no-yarn-correction-range-round-to-int"})
      if (cl.given(name)) fail(Exit::bad_config, name, ": needs ", kYarn);
    return;
  }
  for (const char* const name : {"--rope-frequency-factors", "--rope-attention-factor"})
    if (cl.given(name)) fail(Exit::bad_config, name, ": not with ", kYarn, ", which sets it");
  if (cl.given("--mscale-all-dim")) yarn.mscale_all_dim = model.mscale_all_dim;
  take_plain_yarn(model, yarn);
}

void ModelOptions::add_legacy_to(CommandLine& cl) {
  cl.flag("--use-legacy-models", &use_legacy_models,
          "Megatron-LM's models of before Megatron-Core, which compute the same; checkpoints are "
          "those of the latter, of which mt-convert --saver legacy makes the others'");
}

void ModelOptions::check_legacy() const {
  if (!use_legacy_models) return;
  if (model.family == ModelFamily::t5)
    fail(Exit::usage,
         "--use-legacy-models: not of a T5, whose two models in Megatron-LM were not compared");
  const bool has_family = model.family == ModelFamily::gpt || model.family == ModelFamily::bert;
  const char* const later =
      model.has_alibi() ? "--position-embedding-type alibi" : model.delta_setting();
  for (const auto& [differs, what] :
       {std::pair{!has_family, "experts, other layers or images"},
        std::pair{model.multi_latent_attention, "--multi-latent-attention"},
        std::pair{later != nullptr, later}, std::pair{model.qk_layernorm, "--qk-layernorm"},
        std::pair{model.mtp_num_layers > 0, "--mtp-num-layers"},
        std::pair{!model.window_size.empty(), "--window-size"},
        std::pair{model.quick_geglu, "--quick-geglu"},
        std::pair{model.has_rope() && model.rotary_base != 10000, "a --rotary-base but 10000"},
        std::pair{model.use_rope_scaling, "--use-rope-scaling"},
        std::pair{model.position_embedding_type == "relative", "relative positions"}})
    if (differs) fail(Exit::usage, "--use-legacy-models: there are none with ", what);
}

void ModelOptions::take_pattern() {
  if (model_type == "hybrid" || (model_type == "gpt" && mamba.hybrid_layer_pattern))
    model_type = "mamba";
}

void ModelOptions::make_experts() {
  double& factor = model.moe_expert_capacity_factor;
  if (factor < 0) factor = 0;  // as Megatron-LM's None
  if (pads_to_capacity && model.moe_expert_capacity_factor == 0)
    fail(Exit::bad_config,
         "--moe-pad-expert-input-to-capacity: needs --moe-expert-capacity-factor");
  if (!num_experts) {
    if (static_cast<const ExpertConfig&>(model) != ExpertConfig())
      fail(Exit::usage, "--moe-...: what routers do has no effect without --num-experts");
    return;
  }
  model.num_experts = *num_experts;
  if (model_type == "mamba") return;  // whose pattern says which layers have them
  if (model_type != "gpt") fail(Exit::usage, "--num-experts: is not for --model-type ", model_type);
  model.family = ModelFamily::mixtral;
}

// As the option would be given.
template <class T>
static std::vector<std::string> texts_of(T& value, const Setting& s) {
  Option option;
  if (s.metavar == kOff) option.kind = Option::Kind::off_switch;
  option.target = &value;
  return option.texts();
}

static std::string type_of(ModelFamily family) {
  switch (family) {
    case ModelFamily::bert:
    case ModelFamily::biencoder:
      return "bert";
    case ModelFamily::t5:
      return "t5";
    case ModelFamily::mamba:
      return "mamba";
    case ModelFamily::vit:
      return "vit";
    case ModelFamily::llava:
      return "multimodal";
    default:
      return "gpt";
  }
}

// The option that says it, empty where there is none.  --num-layers says how many the encoder of a
// T5 has, unless --encoder-num-layers does.
static std::string option_of(const Setting& s, ModelFamily family, const CommandLine& cl) {
  const std::string_view flag = s.flag;
  if (family == ModelFamily::t5 && flag == "--num-layers") return "--decoder-num-layers";
  if (flag == "--encoder-num-layers" && !cl.given(flag)) return "--num-layers";
  if (flag == "--retro-encoder-num-layers") return "--retro-encoder-layers";
  const bool of_family =
      family != ModelFamily::llava &&
      (flag == "--bert-no-binary-head" || flag == "--encoder-num-layers" ||
       flag.starts_with("--relative-attention-") || flag == "--num-experts" ||
       (flag == "--relu" && family == ModelFamily::t5) || flag.starts_with("--moe-") ||
       flag == "--num-classes" || flag.starts_with("--img-") ||
       flag == "--vision-pretraining-type" || flag == "--num-channels" || flag == "--patch-dim" ||
       flag == "--class-token-len" || flag == "--vision-head" || flag.starts_with("--pixel-") ||
       flag == "--image-filter" || flag.starts_with("--dino-") || flag.starts_with("--mamba-") ||
       flag.starts_with("--biencoder-") ||
       (flag.starts_with("--retro-") && flag != "--retro-chunk-length"));
  const bool has_own = of_family || (s.section != Section::no_option && !s.arg_name().empty());
  return has_own && flag != "--vocab-size" ? s.flag : "";
}

// Whether a pattern has these layers, in whatever stages.
static bool has_layers_of(const std::string& pattern, const ModelConfig& model) {
  const HybridPattern all = parse_hybrid_pattern(pattern);
  return all.layers == model.hybrid_pattern && all.further == model.mtp_hybrid_pattern &&
         all.further_tokens == model.mtp_num_layers;
}

// By one of the two options that say it.  A pattern of the same layers is kept, for its stages.
template <class Take>
static void take_pattern_of(const ModelConfig& stored, MambaOptions& mamba, CommandLine& cl,
                            bool over_flags, const Take& take) {
  constexpr const char *kLayers = "--hybrid-layer-pattern",
                       *kOverride = "--hybrid-override-pattern";
  const auto forget = [&](const char* option, std::optional<std::string>& pattern) {
    cl.forget(option);
    pattern.reset();
  };
  if (over_flags) {
    forget(kOverride, mamba.hybrid_override_pattern);
    if (mamba.hybrid_layer_pattern && !has_layers_of(*mamba.hybrid_layer_pattern, stored))
      forget(kLayers, mamba.hybrid_layer_pattern);
  }
  if (!cl.given(kLayers) && !cl.given(kOverride))
    take(stored.mtp_num_layers > 0 ? kLayers : kOverride,
         {stored.whole_pattern(stored.mtp_num_layers)});
}

// Refuses what is stored where it is a model that this command does not train.
static void refuse_family(const ModelOptions& o) {
  const StoredSettings& stored = *o.stored;
  const ModelFamily family = stored.model.family;
  if (family == ModelFamily::mamba && !o.takes_mamba)
    fail(Exit::bad_config, stored.where,
         ": is a Mamba, which mt-pretrain and mt-finetune sft alone train");
  if (family == ModelFamily::bert && !o.takes_bert)
    fail(Exit::bad_config, stored.where,
         ": is a BERT, which mt-pretrain and mt-finetune race, mnli, qqp, classify, ict and orqa "
         "alone train");
  if (family == ModelFamily::t5 && !o.takes_t5)
    fail(Exit::bad_config, stored.where,
         ": is a T5, which mt-pretrain and mt-finetune sft alone train");
  const bool has_towers = family == ModelFamily::biencoder;
  if (has_towers && !o.takes_towers)
    fail(Exit::bad_config, stored.where,
         ": is a model of two towers, which mt-finetune ict and orqa alone train");
  if (o.takes_towers && !has_towers && family != ModelFamily::bert)
    fail(Exit::bad_config, stored.where, ": is neither a BERT nor a model of two towers");
  if (family == ModelFamily::llava && !o.takes_llava)
    fail(Exit::bad_config, stored.where,
         ": is a LLaVA, which mt-pretrain and mt-finetune sft alone train");
  if (family == ModelFamily::vit && stored.model.is_tower())
    fail(Exit::bad_config, stored.where, ": is a tower of images (", stored.model.vision_model_type,
         "), which is converted, and not trained");
  if (family == ModelFamily::vit && !o.takes_retro)
    fail(Exit::bad_config, stored.where, ": is a ViT, which mt-pretrain alone trains");
  if (family == ModelFamily::retro && !o.takes_retro && !o.learns_retro)
    fail(Exit::bad_config, stored.where,
         ": is a Retro, which mt-pretrain and mt-finetune sft alone train");
}

void ModelOptions::take_stored(CommandLine& cl, const CheckpointOptions& checkpoint,
                               const PlanOptions& plan) {
  CheckpointOptions from_now = checkpoint;
  if (environment_variable("TORCHELASTIC_RESTART_COUNT").value_or("0") != "0" &&
      from_now.goes_on_in_place())
    from_now.ckpt_step.reset();  // as ranks that were started again go on
  try {
    stored = stored_settings(from_now, model.mtp_num_layers);
  } catch (const Error& error) {  // what is planned may lie elsewhere
    if (error.code() != Exit::no_input || !(plan.wanted || plan.search)) throw;
  }
  if (!stored) return;
  take_pattern();
  const ModelFamily family = stored->model.family;
  const std::string from = "checkpoint " + stored->where, type = type_of(family);
  if (cl.given("--model-type") && type != model_type)
    fail(Exit::bad_config, stored->where, ": is a model of another family than this run trains");
  refuse_family(*this);
  if (family == ModelFamily::llava) {  // of whose images no options are
    static_cast<VisionConfig&>(model) = stored->model;
    static_cast<ImageTextConfig&>(model) = stored->model;
  }
  if (family == ModelFamily::retro && learns_retro)
    static_cast<RetroConfig&>(model) = stored->model;
  if (type != model_type) cl.fallback("--model-type", {type}, from);
  if (family == ModelFamily::retro && takes_retro)
    cl.fallback("--retro-add-retriever", {"true"}, from);
  const bool over_flags = checkpoint.use_args;
  std::set<std::string> unset;  // flags for what the checkpoint has not
  const auto take = [&](const std::string& flag, const std::vector<std::string>& texts) {
    if (flag.empty()) return;
    if (over_flags) cl.forget(flag);
    if (!texts.empty())
      cl.fallback(flag, texts, from);
    else if (over_flags)
      unset.insert(flag);
  };
  if (family == ModelFamily::mamba) take_pattern_of(stored->model, mamba, cl, over_flags, take);
  const char* const new_head = stored->model.is_dino() ? "mlp" : "linear";
  visit_settings(stored->model, [&](auto& value, const Setting& s) {
    if (takes_towers && s.flag == std::string_view("--bert-no-binary-head")) return;
    if (learns_retro && std::string_view(s.flag).starts_with("--retro-")) return;
    const std::string option = option_of(s, family, cl);
    const bool says_none = option == "--mamba-num-heads" && stored->model.mamba_num_heads == 0;
    const bool lacks_head = option == "--vision-head" && stored->model.vision_head == "none";
    take(option, says_none    ? std::vector<std::string>()
                 : lacks_head ? std::vector<std::string>{new_head}  // which a run begins
                              : texts_of(value, s));
  });
  if (unset.contains("--mamba-num-heads")) mamba.mamba_num_heads.reset();
  visit_settings(model, [&](auto& value, const Setting& s) {
    if (!unset.contains(s.flag)) return;
    if constexpr (requires { value.reset(); }) value.reset();
    if constexpr (requires { value.clear(); }) value.clear();
  });
  if (model.mtp_num_layers == 0 && stored->model.mtp_num_layers > 0)
    fail(Exit::bad_config, "--mtp-num-layers 0: ", stored->where, " has ",
         stored->model.mtp_num_layers, "; mt-convert --mtp-num-layers 0 leaves those behind");
  // What has no option.
  model.scale_decoder_outputs = stored->model.scale_decoder_outputs;
  if (family != ModelFamily::t5) model.relu = stored->model.relu;
  model.hf_model_type = stored->model.hf_model_type;
  model.num_token_types = stored->model.num_token_types;
  model.bert_pooler = stored->model.bert_pooler;
  model.bert_lm_head = stored->model.bert_lm_head;
  if (stored->seq_length) take("--seq-length", {std::to_string(*stored->seq_length)});
}

// Whether a tokenizer is the one that travels with what is to be loaded.
static bool is_own(const StoredSettings& stored, const Tokenizer& tokenizer) {
  try {
    return open_model(stored.where, {.check_while_reading = true})
               ->make_tokenizer({})
               ->identity() == tokenizer.identity();
  } catch (const Error&) {  // it brings none
    return false;
  }
}

void ModelOptions::take_vocabulary(const Tokenizer& tokenizer) {
  const bool given = model.vocab_size != 0;
  if (model.vocab_size == 0 || tokenizer.type() == NullTokenizer::kType)
    model.vocab_size = tokenizer.vocab_size();
  if (model.vocab_size < tokenizer.vocab_size())
    fail(Exit::bad_config, "--vocab-size ", model.vocab_size, ": less than the tokenizer's ",
         tokenizer.vocab_size(), " tokens");
  if (given || !stored) return;
  const std::int64_t rows = stored->model.vocab_size;
  if (model.vocab_size < rows || (model.vocab_size > rows && is_own(*stored, tokenizer)))
    model.vocab_size = rows;
}

void ModelOptions::take_stored_vocabulary() {
  if (model.vocab_size == 0 && stored) model.vocab_size = stored->model.vocab_size;
}

}  // namespace mt
