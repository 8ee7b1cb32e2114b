// The table of a model's settings.  Declaring options, checking ranges, writing and reading
// Megatron's args, and comparing a run with its checkpoint visit it: a new setting is a variable in
// its part and a line here.  Where several settings make one arg, or one option several, the
// visitor has the case by hand.
#pragma once

#include <string>
#include <utility>

#include "model/config/model_config.h"
#include "model/config/ranges.h"
#include "model/config/setting.h"

namespace mt {

// Visits the settings of latent attention.
template <class Config, class Visit>
void visit_latent_settings(Config& c, const Visit& visit) {
  using enum Section;
  constexpr Effect kModel = Effect::model, kPart = Effect::part, kReach = Effect::reach;
  visit(c.multi_latent_attention,
        latent({"--multi-latent-attention", latents, kModel,
                "queries, keys and values are made from latent vectors (MLA)"}));
  visit(c.q_lora_rank,
        latent({"--q-lora-rank", latents, kPart,
                "width of latents that queries are made from; default there are none", "N",
                count_to(kWide)}));
  visit(c.kv_lora_rank,
        latent({"--kv-lora-rank", latents, kModel,
                "width of latents that keys and values are made from", "N", count_to(kWide)}));
  visit(c.qk_head_dim,
        latent({"--qk-head-dim", latents, kModel,
                "channels of a query's and a key's head without positions", "N", count_to(kMany)}));
  visit(c.qk_pos_emb_head_dim,
        latent({"--qk-pos-emb-head-dim", latents, kModel,
                "channels beside them that are rotated; a key's are the same in all heads", "N",
                count_to(kMany)}));
  visit(c.v_head_dim, latent({"--v-head-dim", latents, kModel, "channels of a value's head", "N",
                              count_to(kMany)}));
  visit(c.latent_norm_epsilon,
        latent({"--latent-norm-epsilon", latents, kModel,
                "added to the variance of latents' norms; 0: --norm-epsilon", "F", between(0, 1)}));
  visit(c.rotary_scaling_factor,
        latent({"--rotary-scaling-factor", latents, kReach,
                "YaRN divides low rotary frequencies by this, here and with "
                "--position-embedding-type yarn",
                "F", positive()}));
  visit(c.mscale, latent({"--mscale", latents, kReach,
                          "with --rotary-scaling-factor S rotated channels are multiplied by "
                          "0.1 F ln S + 1, over what --mscale-all-dim gives",
                          "F", not_negative()}));
  visit(c.mscale_all_dim,
        latent({"--mscale-all-dim", latents, kReach,
                "scores are multiplied by the square of 0.1 F ln S + 1; Megatron-LM v0.12 takes "
                "--mscale there; with --position-embedding-type yarn it divides channels, and is 0 "
                "by default",
                "F", not_negative()}));
  visit(c.original_max_position_embeddings,
        latent({"--original-max-position-embeddings", latents, kPart,
                "positions that YaRN stretches; default --max-position-embeddings, as in "
                "Megatron-LM v0.12",
                "N", count_to(kIds)}));
  visit(c.yarn_beta_fast,
        latent({"--yarn-beta-fast", latents, kReach,
                "pairs that turn as often within these positions keep their frequency", "F",
                positive()}));
  visit(c.yarn_beta_slow, latent({"--yarn-beta-slow", latents, kReach,
                                  "those that turn no oftener have it divided", "F", positive()}));
}

// Visits the settings of layers with the gated delta rule.
template <class Config, class Visit>
void visit_delta_settings(Config& c, const Visit& visit) {
  using enum Section;
  constexpr Effect kModel = Effect::model;
  const auto of_gpts = [](Setting setting) { return with_experts(later(std::move(setting))); };
  visit(
      c.attention_output_gate,
      of_gpts({"--attention-output-gate", rules, kModel,
               "what attention makes is multiplied by sigmoids that its first matrix makes, too"}));
  visit(c.experimental_attention_variant,
        of_gpts({"--experimental-attention-variant", rules, Effect::part,
                 "gated_delta_net: layers that --linear-attention-freq names have the gated delta "
                 "rule in the place of attention",
                 "TYPE", choice({kGatedDeltaNet})}));
  visit(c.linear_attention_freq,
        of_gpts({"--linear-attention-freq", rules, Effect::part,
                 "all layers but every Nth have the gated delta rule; or a list with a 1 (rule) or "
                 "0 (attention) for each layer, as Python has it: ([1]*3+[0])*12",
                 "N"}));
  visit(c.linear_conv_kernel_dim,
        of_gpts({"--linear-conv-kernel-dim", rules, kModel,
                 "tokens of the convolution in front of the gated delta rule", "N", count()}));
  visit(c.linear_key_head_dim,
        of_gpts({"--linear-key-head-dim", rules, kModel, "channels of its queries' and keys' heads",
                 "N", count_to(kMany)}));
  visit(c.linear_value_head_dim, of_gpts({"--linear-value-head-dim", rules, kModel,
                                          "channels of its values' heads", "N", count_to(kMany)}));
  visit(c.linear_num_key_heads, of_gpts({"--linear-num-key-heads", rules, kModel,
                                         "heads of its queries and keys", "N", count_to(kMany)}));
  visit(c.linear_num_value_heads,
        of_gpts({"--linear-num-value-heads", rules, kModel,
                 "heads of its values, a multiple of those", "N", count_to(kMany)}));
}

// Visits the settings that the config's family has beside those of a GPT.
template <class Config, class Visit>
void visit_family_settings(Config& c, const Visit& visit) {
  constexpr Effect kModel = Effect::model, kTraining = Effect::training, kReach = Effect::reach;
  if (c.family == ModelFamily::mamba) {
    visit(c.hybrid_pattern, stored("--hybrid-override-pattern", kModel));
    visit(c.mtp_hybrid_pattern, rare(stored("--mtp-hybrid-override-pattern", kModel)));
    visit(c.mamba_state_dim, stored("--mamba-state-dim", kModel, count_to(kWide)));
    visit(c.mamba_head_dim, stored("--mamba-head-dim", kModel, count_to(kWide)));
    visit(c.mamba_num_heads, stored("--mamba-num-heads", kModel));
    visit(c.mamba_num_groups, stored("--mamba-num-groups", kModel, count_to(kMany)));
  }
  if (c.has_experts()) {
    visit(c.num_experts, stored("--num-experts", kModel, count_to(kMany)));
    visit(c.moe_router_topk, stored("--moe-router-topk", kModel));
    visit(c.moe_router_load_balancing_type,
          stored("--moe-router-load-balancing-type", kTraining,
                 choice({"aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn",
                         "quantile_balancing", "none"})));
    visit(c.moe_router_quantile_balancing_ema,
          rare(stored("--moe-router-quantile-balancing-ema", kTraining, part_to(1))));
    visit(c.moe_input_jitter_eps, rare(stored("--moe-input-jitter-eps", kTraining, part_to(1))));
    visit(c.moe_aux_loss_coeff, stored("--moe-aux-loss-coeff", kTraining, part_to(kWide)));
    visit(c.moe_router_dtype,
          rare(stored("--moe-router-dtype", kTraining, choice({"fp32", "fp64"}))));
    visit(c.moe_router_pre_softmax, stored("--moe-router-pre-softmax", kModel));
    visit(c.moe_layer_freq, stored("--moe-layer-freq", kModel));
    visit(c.moe_ffn_hidden_size, stored("--moe-ffn-hidden-size", Effect::part, count_to(kWide)));
    visit(c.moe_shared_expert_intermediate_size,
          rare(stored("--moe-shared-expert-intermediate-size", kModel, part_to(kWide))));
    visit(c.moe_latent_size, rare(stored("--moe-latent-size", kModel, part_to(kWide))));
    visit(c.moe_shared_expert_gate, rare(stored("--moe-shared-expert-gate", kModel)));
    visit(c.moe_router_score_function,
          rare(stored("--moe-router-score-function", kModel,
                      choice({"softmax", "sigmoid", "sqrtsoftplus"}))));
    visit(c.moe_router_num_groups, rare(stored("--moe-router-num-groups", kModel, part_to(kMany))));
    visit(c.moe_router_group_topk, rare(stored("--moe-router-group-topk", kModel, part_to(kMany))));
    visit(c.moe_router_group_score,
          rare(stored("--moe-router-group-score", kModel, choice({"topsum", "max"}))));
    visit(c.moe_router_topk_scaling_factor,
          rare(stored("--moe-router-topk-scaling-factor", kModel, part_to(kWide))));
    visit(c.moe_router_enable_expert_bias, rare(stored("--moe-router-enable-expert-bias", kModel)));
    visit(c.moe_router_bias_update_rate,
          rare(stored("--moe-router-bias-update-rate", kTraining, part_to(1))));
    visit(c.moe_expert_capacity_factor,
          rare(stored("--moe-expert-capacity-factor", kModel, part_to(kWide))));
    visit(c.moe_token_drop_policy,
          rare(stored("--moe-token-drop-policy", kModel, choice({"probs", "position"}))));
    visit(c.moe_z_loss_coeff, rare(stored("--moe-z-loss-coeff", kTraining, part_to(kWide))));
  }
  if (c.family == ModelFamily::vit) {
    visit(c.vision_pretraining_type,
          stored("--vision-pretraining-type", kReach, choice({"classify", "inpaint", "dino"})));
    if (c.is_dino()) {
      visit(c.dino_head_hidden_size, stored("--dino-head-hidden-size", kTraining, count_to(kWide)));
      visit(c.dino_bottleneck_size, stored("--dino-bottleneck-size", kTraining, count_to(kWide)));
      visit(c.dino_out_dim, stored("--dino-out-dim", kTraining, count_to(kIds)));
      visit(c.dino_norm_last_layer, stored("--dino-norm-last-layer", kTraining));
      visit(c.dino_local_img_size, stored("--dino-local-img-size", kTraining, count_to(kWide)));
      visit(c.dino_local_crops_number,
            stored("--dino-local-crops-number", kTraining, count_to(kMany)));
      visit(c.dino_drop_path, stored("--dino-drop-path", kTraining, part_to(0.99)));
    }
    visit(c.num_classes, stored("--num-classes", kReach, count_to(kWide)));
    visit(c.vision_head, rare(stored("--vision-head", kReach, choice({"mlp", "linear", "none"}))));
    visit(c.quick_gelu, rare(stored("--quick-gelu", kModel)));
  }
  if (c.family == ModelFamily::vit || c.family == ModelFamily::llava) {
    visit(c.img_h, stored("--img-h", kReach, count_to(kWide)));
    visit(c.img_w, stored("--img-w", kReach, count_to(kWide)));
    visit(c.num_channels, stored("--num-channels", kModel, count_to(3)));
    visit(c.patch_dim, stored("--patch-dim", kModel, count_to(kWide)));
    visit(c.class_token_len, rare(stored("--class-token-len", kModel, part_to(kMany))));
    visit(c.vision_model_type,
          rare(stored("--vision-model-type", kModel,
                      choice({"vit", "clip", "siglip", "internvit", "radio"}))));
    visit(c.vision_use_head, rare(stored("--vision-use-head", kModel)));
    visit(c.num_registers, rare(stored("--num-registers", kReach, part_to(kMany))));
    visit(c.max_img_size, rare(stored("--max-img-size", kReach, part_to(kWide))));
    visit(c.pixel_mean, rare(stored("--pixel-mean", kReach)));
    visit(c.pixel_std, rare(stored("--pixel-std", kReach)));
    visit(c.image_filter, rare(stored("--image-filter", kReach, choice({"bilinear", "bicubic"}))));
    visit(c.image_short_side, rare(stored("--image-short-side", kReach, part_to(kWide))));
  }
  if (c.family == ModelFamily::llava) {
    visit(c.vision_num_layers, stored("--vision-num-layers", kModel, count_to(kMany)));
    visit(c.vision_hidden_size, stored("--vision-hidden-size", kModel, count_to(kWide)));
    visit(c.vision_ffn_hidden_size, stored("--vision-ffn-hidden-size", kModel, count_to(kWide)));
    visit(c.vision_num_attention_heads,
          stored("--vision-num-attention-heads", kModel, count_to(kMany)));
    visit(c.vision_norm_epsilon, stored("--vision-norm-epsilon", kModel, positive()));
    visit(c.vision_activation, stored("--vision-activation", kModel,
                                      choice({"quick_gelu", "gelu", "gelu_tanh", "swiglu"})));
    visit(c.vision_feature_layer,
          stored("--vision-feature-layer", kModel, as_given({}, between(-kMany, kMany))));
    visit(c.vision_feature_select_strategy,
          stored("--vision-feature-select-strategy", kModel, choice({"default", "full"})));
    visit(c.vision_normalization,
          rare(stored("--vision-normalization", kModel, choice({"LayerNorm", "RMSNorm"}))));
    visit(c.vision_qk_layernorm, rare(stored("--vision-qk-layernorm", kModel)));
    visit(c.vision_qkv_bias, rare(stored("--vision-qkv-bias", kModel)));
    visit(c.pixel_shuffle, rare(stored("--pixel-shuffle", kModel)));
    visit(c.projector_normalization, rare(stored("--projector-normalization", kModel,
                                                 choice({"none", "LayerNorm", "RMSNorm"}))));
    visit(c.projector_norm_epsilon, rare(stored("--projector-norm-epsilon", kModel, positive())));
    visit(c.projector_bias, stored("--projector-bias", kModel));
    visit(c.image_token_index, stored("--image-token-index", kModel, part_to(kIds)));
    visit(c.use_tiling, rare(stored("--use-tiling", kReach)));
    visit(c.max_num_tiles, rare(stored("--max-num-tiles", kReach, count_to(kMostTiles))));
    visit(c.use_thumbnail, rare(stored("--use-thumbnail", kReach)));
    visit(c.use_area_weighted_aspect_ratio,
          rare(stored("--use-area-weighted-aspect-ratio", kReach)));
    visit(c.use_tile_tags, rare(stored("--use-tile-tags", kReach)));
    visit(c.image_tag_type,
          rare(stored("--image-tag-type", kReach, choice({"none", "internvl", "nvlm"}))));
  }
  if (c.family == ModelFamily::biencoder) {
    visit(c.biencoder_projection_dim, stored("--biencoder-projection-dim", kModel, part_to(kWide)));
    visit(c.biencoder_shared_query_context_model,
          stored("--biencoder-shared-query-context-model", kModel));
  }
  if (c.family == ModelFamily::bert) {
    visit(c.bert_binary_head, {"--bert-no-binary-head", Section::no_option, kModel, nullptr, kOff,
                               any_value(), "bert_binary_head"});
    visit(c.num_token_types, rare(stored("--num-token-types", Effect::part, part_to(kMany))));
    visit(c.bert_pooler, rare(stored("--bert-pooler", kModel)));
    visit(c.bert_lm_head, rare({"--bert-no-lm-head", Section::no_option, kModel, nullptr, kOff,
                                any_value(), "bert_lm_head"}));
  }
  if (c.family == ModelFamily::t5) {
    visit(c.encoder_num_layers, stored("--encoder-num-layers", kModel, count_to(1 << 16)));
    visit(c.relative_attention_num_buckets,
          stored("--relative-attention-num-buckets", kModel, count_to(1 << 20)));
    visit(c.relative_attention_max_distance,
          stored("--relative-attention-max-distance", kModel, count_to(1 << 30)));
    visit(c.relu, {"--relu", Section::no_option, kModel, nullptr, nullptr, any_value(), kNoArg});
    visit(c.scale_decoder_outputs, rare(stored("--scale-decoder-outputs", kModel)));
  }
  if (c.family == ModelFamily::retro) {
    // Megatron-LM calls the flag --retro-encoder-layers, which does not reach its model.
    visit(c.retro_encoder_num_layers,
          rare(stored("--retro-encoder-num-layers", kModel, count_to(kMany))));
    visit(c.retro_encoder_hidden_dropout,
          stored("--retro-encoder-hidden-dropout", kTraining, part_to(0.99)));
    visit(c.retro_encoder_attention_dropout,
          stored("--retro-encoder-attention-dropout", kTraining, part_to(0.99)));
    visit(c.retro_num_neighbors, stored("--retro-num-neighbors", kTraining, count_to(kMany)));
    visit(c.retro_num_retrieved_chunks,
          stored("--retro-num-retrieved-chunks", kTraining, count_to(kMany)));
    visit(c.retro_chunk_length, stored("--retro-chunk-length", kModel, count_to(kWide)));
    visit(c.retro_final_layernorm, rare(stored("--retro-final-layernorm", kModel)));
    visit(c.retro_zero_init, rare(stored("--retro-zero-init", kTraining)));
  }
}

// Calls visit(variable, setting) for each setting of a GPT and of the config's family.
template <class Config, class Visit>
void visit_settings(Config& c, const Visit& visit) {
  using enum Section;
  constexpr Effect kModel = Effect::model, kPart = Effect::part, kTraining = Effect::training;
  constexpr Effect kReach = Effect::reach;
  visit(c.num_layers, {"--num-layers", sizes, kModel, "transformer layers", "N", count_to(kMany)});
  visit(c.hidden_size,
        {"--hidden-size", sizes, kModel, "width of the residual stream", "N", count_to(kWide)});
  visit(c.ffn_hidden_size, {"--ffn-hidden-size", sizes, kPart,
                            "width inside the MLP; default 4 x hidden size, with --swiglu "
                            "8/3 of it in multiples of 64",
                            "N", count_to(kWide)});
  visit(c.num_attention_heads,
        {"--num-attention-heads", sizes, kModel, "query heads", "N", count_to(kMany)});
  visit(c.group_query_attention, {"--group-query-attention", model, kPart,
                                  "several query heads share a key and a value head"});
  visit(c.num_query_groups,
        {"--num-query-groups", model, kPart, "key and value heads under --group-query-attention",
         "N", as_given(at_least(1))});
  visit(c.kv_channels, {"--kv-channels", sizes, kPart,
                        "width of a head; default hidden size / heads", "N", count_to(kMany)});
  visit(c.max_position_embeddings,
        {"--max-position-embeddings", positions, kPart,
         "positions that the model knows; at least --seq-length", "N", count_to(kIds)});
  visit(c.first_position,
        with_berts(later({"--first-position", positions, kModel,
                          "row of learned positions that a text's first token has; those before it "
                          "are beside --max-position-embeddings",
                          "N", part_to(kMany)})));
  visit(c.position_embedding_type,
        {"--position-embedding-type", positions, kModel,
         "learned_absolute, rope, none or, on the CPU, alibi; of a T5 relative, too; yarn: rope "
         "that --rotary-scaling-factor stretches",
         "TYPE",
         as_given(one_of({"learned_absolute", "rope", "yarn", "relative", "alibi", "none"}),
                  one_of({"learned_absolute", "rope", "alibi", "none"}))});
  visit(c.use_rotary_position_embeddings,
        {"--use-rotary-position-embeddings", positions, kPart,
         "deprecated; the same as --position-embedding-type rope", nullptr, any_value(), kNoArg});
  visit(c.position_embedding,
        {"--no-position-embedding", positions, kPart,
         "deprecated; accepted where --position-embedding-type is rope or none", kOff, any_value(),
         kNoArg});
  visit(c.rotary_base,
        {"--rotary-base", positions, kReach, "base of the rotary frequencies", "F", count()});
  visit(c.rotary_percent, {"--rotary-percent", positions, kModel,
                           "part of a head's channels that is rotated", "F", part_to(1)});
  visit(c.rotary_interleaved,
        {"--rotary-interleaved", positions, kModel,
         "channels (0, 1), (2, 3), ... turn together, not those of two halves"});
  visit(c.rotary_interpolation,
        {"--rotary-seq-len-interpolation-factor", positions, kPart,
         "rotary positions are divided by this; Megatron-LM v0.12 reads it without effect", "F",
         positive()});
  visit(c.use_rope_scaling,
        {"--use-rope-scaling", positions, kReach,
         "low rotary frequencies are divided by --rope-scaling-factor, as in Llama 3.1"});
  visit(c.rope_scaling_factor,
        {"--rope-scaling-factor", positions, kReach,
         "see --use-rope-scaling; Megatron-LM v0.12 always takes 8", "F", positive()});
  visit(c.rope_frequency_factors,
        rare({"--rope-frequency-factors", positions, kReach,
              "what each pair of channels' rotary frequency is divided by, as YaRN and others have "
              "it",
              "F,F,..."}));
  visit(c.rope_attention_factor,
        rare({"--rope-attention-factor", positions, kReach,
              "rotary queries and keys are multiplied by this", "F", positive()}));
  visit(c.no_rope_freq,
        with_experts(later({"--no-rope-freq", positions, kPart,
                            "every Nth layer has no rotary positions; or a 1 (none) or 0 for "
                            "each layer",
                            "N", as_given(at_least(0))})));
  visit(c.rotary_base_window,
        later({"--rotary-base-window", positions, kReach,
               "base of the rotary frequencies of layers with a window, which "
               "no scaling changes; 0: as of the others",
               "F", not_negative()}));
  visit(c.window_size,
        {"--window-size", positions, kPart,
         "a token sees A tokens before itself (-1: all); B, the tokens after, must be 0", "A,B"});
  visit(c.window_attn_skip_freq,
        {"--window-attn-skip-freq", positions, kPart,
         "every Nth layer has no window; or a 1 (window) or 0 for each layer", "N",
         as_given(at_least(0))});
  visit(c.softmax_scale,
        with_experts(with_mamba(later(
            {"--softmax-scale", layers, kPart,
             "products of queries and keys are multiplied by this; default 1 / sqrt(head width)",
             "F", positive()}))));
  visit(c.attn_logit_softcapping,
        later({"--attn-logit-softcapping", layers, kModel,
               "scores s of attention become F tanh(s / F); 0: they stay", "F", not_negative()}));
  visit(c.clip_qkv, later({"--clip-qkv", layers, kModel,
                           "queries, keys and values lie between -F and F; 0: they stay", "F",
                           not_negative()}));
  visit(c.softmax_type,
        with_experts(later(
            {"--softmax-type", layers, kModel,
             "what a head sees beside keys: vanilla, nothing; off-by-one, a score of 0; learnable, "
             "one of its own",
             "TYPE", choice({"vanilla", "off-by-one", "learnable"})})));
  visit_delta_settings(c, visit);
  visit_latent_settings(c, visit);
  visit(c.normalization, {"--normalization", model, kModel, "LayerNorm or RMSNorm", "TYPE",
                          choice({"LayerNorm", "RMSNorm"})});
  visit(c.norm_epsilon, {"--norm-epsilon", model, kModel, "added to a norm's variance", "F",
                         as_given(greater_than(0), between(0, 1))});
  visit(c.apply_layernorm_1p, {"--apply-layernorm-1p", model, kModel,
                               "norms multiply by 1 + their weight, which begins at 0"});
  visit(c.qk_layernorm, {"--qk-layernorm", model, kModel,
                         "norms of each query and key head, before the rotation; with "
                         "--multi-latent-attention of the latents"});
  visit(c.qk_layernorm_whole,
        with_towers(with_experts(
            later({"--qk-layernorm-whole", norms, kModel,
                   "these norms are of all query and of all key heads of a token together"}))));
  visit(c.qk_layernorm_per_head, later({"--qk-layernorm-per-head", norms, kModel,
                                        "of these norms each head has weights of its own"}));
  visit(c.qk_layernorm_behind_rope,
        with_experts(later({"--qk-layernorm-behind-rope", norms, kModel,
                            "these norms are of heads once they have turned"})));
  visit(c.embedding_layernorm, later({"--embedding-layernorm", norms, kModel,
                                      "a norm of embeddings, in front of the first layer"}));
  visit(c.norm_bias, later({"--disable-norm-bias", norms, kModel, "LayerNorms without bias", kOff,
                            any_value(), "norm_bias"}));
  visit(c.norm_weight, later({"--disable-norm-weight", norms, kModel,
                              "norms multiply by nothing; with --disable-norm-bias", kOff,
                              any_value(), "norm_weight"}));
  visit(c.residual_of_norm,
        with_berts(later({"--residual-of-norm", norms, kModel,
                          "what attention and MLP each add is added to what the norm in front of "
                          "them makes, as in the first BERT"})));
  visit(c.pre_layernorm, with_experts(later({"--no-pre-layernorm", norms, kModel,
                                             "no norm in front of attention and MLP", kOff,
                                             any_value(), "pre_layernorm"})));
  visit(c.post_layernorm,
        with_experts(later({"--post-layernorm", norms, kModel,
                            "a norm of what attention and MLP each add to a layer"})));
  visit(c.parallel_block,
        later({"--parallel-block", layers, kModel,
               "attention and MLP read one norm of a layer's input, and both are added to that"}));
  visit(c.parallel_norms, later({"--parallel-norms", norms, kModel,
                                 "with --parallel-block: the MLP reads a norm of its own"}));
  visit(c.embedding_mult, with_experts(with_mamba(later(
                              {"--embedding-mult", layers, kModel,
                               "embeddings of words are multiplied by this", "F", positive()}))));
  visit(
      c.residual_mult,
      with_experts(with_mamba(later(
          {"--residual-mult", layers, kModel,
           "what attention and MLP each add to a layer is multiplied by this", "F", positive()}))));
  visit(c.logit_scale,
        with_experts(with_mamba(later(
            {"--logit-scale", layers, kModel, "logits are multiplied by this", "F", positive()}))));
  visit(c.final_logit_softcapping,
        later({"--final-logit-softcapping", layers, kModel,
               "logits l, once they are scaled, become F tanh(l / F); 0: they stay", "F",
               not_negative()}));
  visit(c.swiglu, {"--swiglu", model, kModel, "SwiGLU instead of GeLU"});
  visit(c.squared_relu, {"--squared-relu", model, kModel, "the square of ReLU instead of GeLU"});
  visit(c.xielu, later({"--xielu", layers, kModel,
                        "an activation with two slopes that are learned; on CPUs"}));
  visit(c.tanh_gelu,
        later({"--tanh-gelu", layers, kModel, "GeLU in its tanh form, without biases, too"}));
  if (c.family != ModelFamily::t5) visit(c.relu, later(stored("--relu", kModel)));
  visit(c.quick_geglu,
        with_experts(later({"--quick-geglu", layers, kModel,
                            "x sigmoid(1.702 x) gates the other half of an expert"})));
  visit(c.activation_func_clamp_value,
        with_experts(later({"--activation-func-clamp-value", layers, kModel,
                            "with --quick-geglu: gates are F at most, and what they gate lies "
                            "between -F and F; 0: no bound",
                            "F", not_negative()})));
  visit(c.glu_linear_offset, with_experts(later({"--glu-linear-offset", layers, kModel,
                                                 "with --quick-geglu: added to what is gated", "F",
                                                 between(-kWide, kWide)})));
  Setting gated = rare({"--gated-linear-unit", model, kModel,
                        "GeLU, in its tanh form, gates the other half of the MLP"});
  gated.later = c.family != ModelFamily::t5;  // which may have it, too
  visit(c.gated_gelu, gated);
  visit(c.bias_gelu_fusion,
        {"--no-bias-gelu-fusion", model, kPart, "the erf form of GeLU instead of tanh", kOff,
         any_value(), "bias_gelu_fusion"});
  visit(c.add_bias_linear, {"--disable-bias-linear", model, kModel, "linear layers without bias",
                            kOff, any_value(), "add_bias_linear"});
  visit(c.add_qkv_bias, {"--add-qkv-bias", model, kPart, "a bias in the QKV projection alone"});
  visit(c.attention_bias, later({"--disable-attention-bias", layers, kModel,
                                 "of linear layers those of attention have no bias", kOff,
                                 any_value(), "attention_bias"}));
  visit(c.qkv_bias,
        later({"--disable-qkv-bias", layers, kModel,
               "of linear layers with biases those of queries, keys and values have none", kOff,
               any_value(), "qkv_bias"}));
  visit(c.output_bias, later({"--add-output-bias", layers, kModel, "the output layer has a bias",
                              nullptr, any_value(), "output_bias"}));
  visit(c.untie_embeddings_and_output_weights,
        {"--untie-embeddings-and-output-weights", model, kModel,
         "an output layer of its own instead of the transposed embedding"});
  visit(c.mtp_num_layers,
        rare({"--mtp-num-layers", layers, kModel,
              "layers behind the last, of which the i-th predicts the token i behind the next one",
              "N", part_to(kMostFurther)}));
  visit(c.attention_dropout, {"--attention-dropout", training, kTraining,
                              "dropout of attention probabilities", "P", part_to(0.99)});
  visit(c.hidden_dropout, {"--hidden-dropout", training, kTraining,
                           "dropout of the residual branches", "P", part_to(0.99)});
  visit(c.mtp_loss_scaling_factor,
        rare({"--mtp-loss-scaling-factor", training, kTraining,
              "what the mean of the losses of --mtp-num-layers weighs beside the next token's", "F",
              not_negative()}));
  visit(c.label_smoothing,
        {"--label-smoothing", training, kTraining,
         "part of each label that training spreads over the other tokens", "P", part_to(0.99)});
  visit(c.init_method_std, {"--init-method-std", training, kTraining,
                            "standard deviation of initial weights", "F", as_given(at_least(0))});
  visit(c.init_method_xavier_uniform,
        {"--init-method-xavier-uniform", training, kTraining,
         "initial weights are uniform, by Glorot's rule, but for those of residual "
         "branches' ends"});
  visit(c.make_vocab_size_divisible_by,
        {"--make-vocab-size-divisible-by", padding, kTraining,
         "the vocabulary is padded to a multiple of this", "N", count_to(kWide)});
  visit(c.vocab_size, {"--vocab-size", model, kTraining,
                       "tokens that the model knows, before padding; default the tokenizer's", "N",
                       count_to(kIds)});
  visit(c.padded_vocab_size, stored("--padded-vocab-size", kTraining));
  const std::string heads[] = {"",
                               std::string(kClassificationHead),
                               std::string(kMultichoiceHead),
                               std::string(kScoreHead),
                               std::string(kImageHead),
                               std::string(kImageClassifier),
                               std::string(kImageDecoder)};
  visit(c.task_head,
        rare(stored("--task-head", kTraining, choice({std::begin(heads), std::end(heads)}))));
  visit(c.num_labels, rare(stored("--num-labels", kTraining, part_to(kWide))));
  visit(c.label_names, rare(stored("--label-names", kTraining)));
  visit(c.value_head, rare(stored("--value-head", kTraining)));
  visit(c.hf_model_type, rare(stored("--hf-model-type", kTraining)));
  visit(c.lora_rank, rare(stored("--lora-rank", kTraining, part_to(kWide))));
  visit(c.lora_alpha, rare(stored("--lora-alpha", kTraining, positive())));
  visit(c.lora_dropout, rare(stored("--lora-dropout", kTraining, part_to(0.99))));
  visit(c.use_rslora, rare(stored("--use-rslora", kTraining)));
  visit(c.use_dora, rare(stored("--use-dora", kTraining)));
  visit(c.lora_targets, rare(stored("--lora-targets", kTraining)));
  visit(c.quantize_base, rare(stored("--quantize-base", kTraining, choice({"", "nf4"}))));
  visit(c.lora_base, rare(stored("--lora-base", kTraining)));
  visit(c.lora_base_hash, rare(stored("--lora-base-hash", kTraining)));
  visit_family_settings(c, visit);
}

}  // namespace mt
