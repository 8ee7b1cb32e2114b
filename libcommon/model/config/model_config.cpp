#include "model/config/model_config.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/command.h"
#include "kernels/delta_shape.h"
#include "kernels/image_quality.h"
#include "kernels/relative_bias.h"
#include "model/config/settings.h"

namespace mt {
namespace {

// Declares the options of a section.
struct Declaring {
  CommandLine& cl;
  Section section;
  template <class T>
  void operator()(T& value, const Setting& s) const {
    if (s.section != section) return;
    if constexpr (!std::is_same_v<T, bool>)
      cl.option(s.flag, &value, s.metavar, s.help, s.range.given);
    else if (s.metavar == kOff)
      cl.off_switch(s.flag, &value, s.help);
    else
      cl.flag(s.flag, &value, s.help);
  }
};

// Checks each setting by itself.
struct CheckingRanges {
  template <class T>
  void operator()(const T& value, const Setting& s) const {
    check_range(s.flag, value, s.range.stored);
  }
  template <class T>
  void operator()(const std::optional<T>& value, const Setting& s) const {
    if (value) check_range(s.flag, *value, s.range.stored);
  }
  void operator()(bool, const Setting&) const {}
  template <class T>
  void operator()(const std::vector<T>& values, const Setting& s) const {
    for (const T& value : values) check_range(s.flag, value, s.range.stored);
  }
};

void require_given(std::int64_t value, const char* option) {
  if (value == 0) fail(Exit::usage, option, ": required, by the option or a checkpoint");
}

// What tensor-parallel ranks share must be equal parts of whole heads, groups and channels.
void check_shares(const ModelConfig& c, std::int64_t ranks) {
  const auto check = [&](const char* name, std::int64_t value) {
    if (value % ranks != 0)
      fail(Exit::bad_config, name, " (", value, ") must be a multiple of ",
           "tensor_model_parallel_size (", ranks, ").");
  };
  check("--num-attention-heads: num_attention_heads", c.num_attention_heads);
  check("--num-query-groups: num_query_groups", c.kv_heads());
  if (c.has_mlps()) check("--ffn-hidden-size: ffn_hidden_size", c.ffn());
  check("--moe-shared-expert-intermediate-size: moe_shared_expert_intermediate_size",
        c.moe_shared_expert_intermediate_size);
  if (c.family != ModelFamily::vit) check("the padded vocabulary", c.padded_vocab_size);
}

void check_t5(const ModelConfig& c) {
  if (c.kv_heads() != c.num_attention_heads)
    fail(Exit::bad_config, "--num-query-groups: T5's cross-attention has as many as heads");
  if (c.relu + c.gated_gelu + c.swiglu + c.squared_relu > 1)
    fail(Exit::bad_config,
         "--relu, --gated-linear-unit, --swiglu, --squared-relu: a T5 has one activation");
  if (!c.window_size.empty())
    fail(Exit::bad_config, "--window-size: not of a T5, whose encoder sees both ways");
  if (c.has_sinks()) fail(Exit::bad_config, "--softmax-type ", c.softmax_type, ": not of a T5");
  if (c.position_embedding_type != "relative") return;
  check_range("--relative-attention-num-buckets", c.relative_attention_num_buckets,
              between(4, kMostRelativeBuckets));
  check_range("--relative-attention-max-distance", c.relative_attention_max_distance,
              between(static_cast<double>(c.relative_attention_num_buckets / 2 + 1), 1 << 30));
}

void check_retro(const ModelConfig& c) {
  if (const std::int64_t first = first_retro_layer(c.num_layers); c.num_layers <= first)
    fail(Exit::bad_config, "--num-layers ", c.num_layers,
         ": a Retro of so many retrieves from the ", first + 1, "th on");
  if (c.kv_heads() != c.num_attention_heads)
    fail(Exit::bad_config, "--num-query-groups: Retro's cross-attention has as many as heads");
  if (!c.window_size.empty())
    fail(Exit::bad_config, "--window-size: not of a Retro, whose encoder sees both ways");
  if (c.has_positions() && c.retrieved_length() > c.max_position_embeddings)
    fail(Exit::bad_config, "--max-position-embeddings ", c.max_position_embeddings,
         ": a neighbour has ", c.retrieved_length(), " tokens");
}

// How norms, and layers of them, fit together.
void check_norms(const ModelConfig& c, std::int64_t ranks) {
  if (c.qk_layernorm_whole && !c.qk_layernorm)
    fail(Exit::bad_config, "--qk-layernorm-whole: needs --qk-layernorm");
  if (c.qk_layernorm_whole && ranks > 1)
    fail(Exit::bad_config,
         "--qk-layernorm-whole: not with --tensor-model-parallel-size, whose ranks have some heads "
         "each");
  if (c.qk_layernorm_behind_rope && (!c.qk_layernorm || c.qk_layernorm_whole || !c.has_rope()))
    fail(Exit::bad_config,
         "--qk-layernorm-behind-rope: needs --qk-layernorm of each head and "
         "--position-embedding-type rope");
  if (c.qk_layernorm_per_head && (!c.qk_layernorm || c.qk_layernorm_whole || c.apply_layernorm_1p ||
                                  !c.norm_weight || c.multi_latent_attention))
    fail(Exit::bad_config,
         "--qk-layernorm-per-head: needs --qk-layernorm of each head, and excludes "
         "--apply-layernorm-1p, --disable-norm-weight and --multi-latent-attention");
  if (c.clip_qkv != 0 && (c.attention_output_gate || c.multi_latent_attention))
    fail(Exit::bad_config,
         "--clip-qkv: not with --attention-output-gate or --multi-latent-attention");
  if (c.qk_layernorm_behind_rope && c.rope_attention_factor != 1)
    fail(Exit::bad_config, "--qk-layernorm-behind-rope: not with --rope-attention-factor");
  if (!c.norm_bias && c.normalization != "LayerNorm")
    fail(Exit::bad_config, "--disable-norm-bias: an RMSNorm has none");
  if (!c.pre_layernorm && !c.post_layernorm)
    fail(Exit::bad_config, "--no-pre-layernorm: needs --post-layernorm");
  if (!c.norm_weight && (c.norm_bias || c.apply_layernorm_1p) && c.normalization == "LayerNorm")
    fail(Exit::bad_config, "--disable-norm-weight: needs --disable-norm-bias");
  if (c.parallel_block && (c.post_layernorm || !c.pre_layernorm))
    fail(Exit::bad_config, "--parallel-block: has its norms in front");
  if (c.parallel_norms && !c.parallel_block)
    fail(Exit::bad_config, "--parallel-norms: needs --parallel-block");
  if (c.residual_of_norm &&
      (c.post_layernorm || !c.pre_layernorm || c.parallel_block || c.residual_mult != 1))
    fail(Exit::bad_config,
         "--residual-of-norm: of norms in front alone, without --parallel-block and "
         "--residual-mult");
}

// Where a layer has the gated delta rule, or attention a gate.
void check_delta(const ModelConfig& c) {
  const char* const flag = c.delta_setting();
  if (flag == nullptr) return;
  if (c.family != ModelFamily::gpt && c.family != ModelFamily::mixtral)
    fail(Exit::bad_config, flag, ": of a GPT, with or without experts");
  const char* const other = c.multi_latent_attention ? "--multi-latent-attention"
                            : c.parallel_block       ? "--parallel-block"
                            : c.has_adapters()       ? "--lora-rank"
                            : c.mtp_num_layers > 0   ? "--mtp-num-layers"
                                                     : nullptr;
  if (other != nullptr) fail(Exit::bad_config, other, ": not with ", flag);
  if (!c.may_have_linear_layers()) return;
  if (c.normalization != "RMSNorm" || !c.norm_weight)
    fail(Exit::bad_config, flag, ": needs --normalization RMSNorm");
  if (!c.swiglu) fail(Exit::bad_config, flag, ": needs --swiglu");
  if (!c.pre_layernorm || c.residual_of_norm)
    fail(Exit::bad_config, c.pre_layernorm ? "--residual-of-norm" : "--no-pre-layernorm",
         ": not with ", flag);
}

// Latent attention makes its heads, turns them and scales their scores in its own way.
void check_latent(const ModelConfig& c) {
  c.LatentConfig::check();
  if (!c.multi_latent_attention) return;
  if (c.family != ModelFamily::gpt && c.family != ModelFamily::mixtral &&
      c.family != ModelFamily::mamba)
    fail(Exit::bad_config,
         "--multi-latent-attention: of a GPT, with or without experts, or of a hybrid");
  if (!c.has_rope())
    fail(Exit::bad_config, "--multi-latent-attention: needs --position-embedding-type rope");
  if (c.latent_norm_epsilon != 0 && !c.qk_layernorm)
    fail(Exit::bad_config, "--latent-norm-epsilon: needs --qk-layernorm");
  const char* const other = c.group_query_attention  ? "--group-query-attention"
                            : c.add_qkv_bias         ? "--add-qkv-bias"
                            : c.rotary_interleaved   ? "--rotary-interleaved"
                            : c.rotary_percent != 1  ? "--rotary-percent"
                            : c.rotary_interpolation ? "--rotary-seq-len-interpolation-factor"
                            : c.use_rope_scaling     ? "--use-rope-scaling"
                            : !c.rope_frequency_factors.empty() ? "--rope-frequency-factors"
                            : c.rope_attention_factor != 1      ? "--rope-attention-factor"
                            : c.has_adapters()                  ? "--lora-rank"
                                                                : c.later_setting();
  if (other != nullptr) fail(Exit::bad_config, other, ": not with --multi-latent-attention");
}

// Further tokens are predicted by a layer like the last one, which sees what all of that kind do.
void check_mtp(const ModelConfig& c) {
  if (c.mtp_num_layers == 0) {
    if (c.mtp_loss_scaling_factor != MtpConfig().mtp_loss_scaling_factor)
      fail(Exit::bad_config, "--mtp-loss-scaling-factor: needs --mtp-num-layers");
    return;
  }
  const bool hybrid = c.family == ModelFamily::mamba;
  if (c.family != ModelFamily::gpt && c.family != ModelFamily::mixtral && !hybrid)
    fail(Exit::bad_config, "--mtp-num-layers: of a GPT, with or without experts, or of a hybrid");
  if (hybrid && c.mtp_hybrid_pattern.empty())
    fail(Exit::bad_config,
         "--mtp-num-layers: of a hybrid its pattern says what predicts further tokens, "
         "--hybrid-layer-pattern M*/*- say");
  if (c.has_positions())
    fail(Exit::bad_config, "--mtp-num-layers: needs --position-embedding-type rope or none");
  const char* const other = !c.window_size.empty() ? "--window-size"
                            : c.has_task_head()    ? "--task-head"
                            : c.has_adapters()     ? "--lora-rank"
                            : c.neftune_alpha > 0  ? "--neftune-alpha"
                                                   : c.later_setting(&Setting::with_experts);
  if (other != nullptr) fail(Exit::bad_config, other, ": not with --mtp-num-layers");
}

void check_bert(const ModelConfig& c) {
  if (!c.window_size.empty())
    fail(Exit::bad_config, "--window-size: not of a BERT, whose tokens see both ways");
  if (c.bert_binary_head && !c.bert_lm_head)
    fail(Exit::bad_config, "--bert-no-lm-head: needs --bert-no-binary-head");
  if (c.bert_binary_head && c.token_types() == 0)
    fail(Exit::bad_config,
         "--num-token-types 0: needs --bert-no-binary-head, as that head is of two texts that have "
         "types");
}

// Both towers have as many layers.
void complete_biencoder(ModelConfig& c) {
  if (c.label_smoothing != 0) fail(Exit::bad_config, "--label-smoothing: not of towers");
  if (!c.window_size.empty())
    fail(Exit::bad_config, "--window-size: not of a tower, whose tokens see both ways");
  c.encoder_num_layers = c.biencoder_shared_query_context_model ? 0 : c.num_layers;
}

// A tower has what its kind has, and makes hidden states alone.
void check_tower(const ModelConfig& c) {
  if (c.vision_use_head && c.vision_model_type != "siglip")
    fail(Exit::bad_config, "--vision-use-head: is of a siglip");
  if (!c.is_tower()) {
    if (c.class_token_len < 1) fail(Exit::bad_config, "--class-token-len 0: a ViT has at least 1");
    return;
  }
  const std::int64_t classes = c.vision_model_type == "siglip" ? 0 : 1;
  if (c.is_radio() ? c.class_token_len < 1 : c.class_token_len != classes)
    fail(Exit::bad_config, "--class-token-len ", c.class_token_len, ": ",
         c.is_internvit_tower() ? "an " : "a ", c.vision_model_type, " has ",
         c.is_radio() ? "at least " : "", classes);
  if (c.max_img_size != 0 && (!c.is_radio() || c.max_img_size < c.patch_dim))
    fail(Exit::bad_config, "--max-img-size ", c.max_img_size,
         c.is_radio() ? ": less than a patch" : ": is of a radio");
  if (c.vision_head != "none" || c.inpaints())
    fail(Exit::bad_config, "--vision-model-type ", c.vision_model_type,
         ": has no head, and learns nothing by itself");
}

// Its words are classes, and its positions those of its tokens.
// A smaller part of an image has some of the positions of a whole one.
void complete_dino(ModelConfig& c) {
  if (c.dino_local_img_size % c.patch_dim != 0)
    fail(Exit::bad_config, "--dino-local-img-size ", c.dino_local_img_size,
         ": not a multiple of --patch-dim ", c.patch_dim);
  const std::int64_t side = c.dino_local_img_size / c.patch_dim;
  if (side > c.patches() / side)
    fail(Exit::bad_config, "--dino-local-img-size ", c.dino_local_img_size,
         ": more patches than the ", c.patches(), " of an image of ", c.img_h, " x ", c.img_w);
  c.vision_head = "none";
}

void complete_vit(ModelConfig& c) {
  for (const auto& [flag, side] : {std::pair{"--img-h", c.img_h}, {"--img-w", c.img_w}})
    if (c.is_tower() ? side < c.patch_dim : side % c.patch_dim != 0)  // it passes over the rest
      fail(Exit::bad_config, flag, ' ', side, ": not a multiple of --patch-dim ", c.patch_dim);
  if (c.num_channels != 3)
    fail(Exit::bad_config, "--num-channels ", c.num_channels, ": images have 3");
  if (c.position_embedding_type != "learned_absolute")
    fail(Exit::bad_config, "--position-embedding-type ", c.position_embedding_type,
         ": a ViT's is learned_absolute");
  if (!c.window_size.empty())
    fail(Exit::bad_config, "--window-size: not of a ViT, whose tokens see both ways");
  if (!c.add_bias_linear) fail(Exit::bad_config, "--disable-bias-linear: not of a ViT");
  check_tower(c);
  if (c.label_smoothing != 0) fail(Exit::bad_config, "--label-smoothing: not of a ViT");
  for (const auto& [flag, side] : {std::pair{"--img-h", c.img_h}, {"--img-w", c.img_w}})
    if (c.inpaints() && side < kSsimWindow)
      fail(Exit::bad_config, flag, ' ', side, ": less than the ", kSsimWindow,
           " pixels by which structures are compared");
  for (const auto& [flag, list] :
       {std::pair{"--pixel-mean", &c.pixel_mean}, {"--pixel-std", &c.pixel_std}})
    for (const double number : color_numbers(flag, *list))
      if (list == &c.pixel_std && static_cast<float>(number) == 0)
        fail(Exit::bad_config, flag, ' ', *list, ": 0 divides nothing");
  if (c.inpaints() && c.vision_head != "mlp")
    fail(Exit::bad_config, "--vision-head ", c.vision_head,
         ": is of a ViT that tells classes, not of --vision-pretraining-type inpaint");
  if (c.is_dino()) complete_dino(c);
  const bool has_head = c.vision_head != "none";
  c.task_head = c.inpaints()                ? kImageDecoder
                : !has_head                 ? ""
                : c.vision_head == "linear" ? kImageClassifier
                                            : kImageHead;
  c.num_labels = c.inpaints() ? c.patch_width() : has_head ? c.num_classes : 0;
}

// Its tower and its language model are complete by themselves.
void complete_llava(const ModelConfig& c, int tensor_ranks) {
  if (!c.is_tower())
    fail(Exit::bad_config, "--vision-model-type ", c.vision_model_type,
         ": a LLaVA's tower is clip, siglip, internvit or radio");
  if (!c.knows_own_positions())
    fail(Exit::bad_config, "--max-img-size ", c.max_img_size, ": a LLaVA's tower knows images of ",
         c.img_h);
  if (!c.has_rope())
    fail(Exit::bad_config, "--position-embedding-type ", c.position_embedding_type,
         ": a LLaVA's is rope");
  if (c.tower_layers() < 0 || c.tower_layers() > c.vision_num_layers)
    fail(Exit::bad_config, "--vision-feature-layer ", c.vision_feature_layer, ": of ",
         c.vision_num_layers, " layers");
  if (c.image_token_index >= c.vocab_size)
    fail(Exit::bad_config, "--image-token-index ", c.image_token_index, ": the model knows ",
         c.vocab_size, " tokens");
  const char* const other = c.has_adapters()        ? "--lora-rank"
                            : c.neftune_alpha > 0   ? "--neftune-alpha"
                            : c.label_smoothing > 0 ? "--label-smoothing"
                                                    : nullptr;
  if (other != nullptr) fail(Exit::bad_config, other, ": not of a LLaVA");
  if (c.use_tile_tags && c.max_num_tiles > kMostTaggedTiles)
    fail(Exit::bad_config, "--use-tile-tags: there are words for ", kMostTaggedTiles,
         " tiles, not for --max-num-tiles ", c.max_num_tiles);
  const ModelConfig tower = tower_config(c);
  if (c.image_tokens() <= first_feature(c))
    fail(Exit::bad_config, "--vision-feature-select-strategy ", c.vision_feature_select_strategy,
         ": leaves none of the ", c.image_tokens(), " tokens of an image");
  const bool even = c.img_h / c.patch_dim % 2 == 0 && c.img_w / c.patch_dim % 2 == 0;
  if (c.pixel_shuffle && (!even || c.image_tokens() - first_feature(c) != c.patches()))
    fail(Exit::bad_config, "--pixel-shuffle: of ", c.img_h / c.patch_dim, " x ",
         c.img_w / c.patch_dim, " patches and ", c.class_tokens() - first_feature(c),
         " tokens of classes, expected even numbers of patches alone");
  if (c.cuts_images() && c.image_short_side > 0)
    fail(Exit::bad_config,
         "--use-tiling: tiles are parts of whole images, of which "
         "--image-short-side would leave the middle");
  check_shares(tower, tensor_ranks);
  check_norms(tower, tensor_ranks);
}

// A task's head is one that the family has, with what it reads.
void check_task_head(const ModelConfig& c) {
  if (!c.has_task_head()) {
    if (c.num_labels != 0) fail(Exit::bad_config, "--num-labels: of a model without a task's head");
    return;
  }
  if (c.family == ModelFamily::vit) return;
  const bool bert = c.family == ModelFamily::bert;
  if (bert ? c.task_head == kScoreHead : c.task_head != kScoreHead || c.family != ModelFamily::gpt)
    fail(Exit::bad_config, "--task-head ", c.task_head, ": is of another family");
  if (bert && !c.has_pooler())
    fail(Exit::bad_config, "--task-head ", c.task_head,
         ": reads what a pooler makes, and this BERT has none");
  check_range("--num-labels", c.num_labels, between(1, kWide));
  if (c.task_head == kMultichoiceHead && c.num_labels != 1)
    fail(Exit::bad_config, "--num-labels ", c.num_labels, ": a choice has one score");
}

// Says in one way what can be said in several.
void complete_experts(ModelConfig& c) {
  c.moe_layer_freq = c.shortest_freq(c.num_layers);
  if (c.moe_ffn_hidden_size == c.ffn()) c.moe_ffn_hidden_size.reset();
}

void check_experts(const ModelConfig& c) {
  c.ExpertConfig::check(c.num_layers);
  const bool shared = c.moe_shared_expert_intermediate_size > 0;
  if ((c.add_bias_linear || c.quick_geglu) && (shared || c.has_mlps()))
    fail(Exit::bad_config, c.quick_geglu ? "--quick-geglu" : "biases of experts",
         ": not beside shared experts or layers without experts");
  if (c.moe_latent_size > 0 && c.add_bias_linear)
    fail(Exit::bad_config, "--moe-latent-size ", c.moe_latent_size,
         ": needs --disable-bias-linear");
  if (c.recompute.part("mlp") && !c.has_mlps())
    fail(Exit::bad_config, "--recompute-modules mlp: a model of experts has none");
}

// Letters say what each layer of a hybrid is, and settings how it is one.
void check_hybrid(const ModelConfig& c) {
  const auto check = [&](char letter, bool is_set, const char* option) {
    if (c.has_layer(letter) && !is_set)
      fail(Exit::bad_config, "--hybrid-...-pattern ", c.whole_pattern(1), ": a layer ", letter,
           " needs ", option);
    if (is_set && !c.has_layer(letter))
      fail(Exit::bad_config, option, ": the hybrid's pattern has no layer ", letter);
  };
  check('E', c.num_experts > 0, "--num-experts");
  check('+', c.multi_latent_attention, "--multi-latent-attention");
  if (c.moe_layer_freq != "1")
    fail(Exit::bad_config, "--moe-layer-freq ", c.moe_layer_freq,
         ": the letters E of a hybrid's pattern say which layers have experts");
}

using Value =
    std::variant<bool, std::int64_t, double, std::string, std::optional<std::int64_t>,
                 std::optional<double>, std::optional<std::string>, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>>;

// Flags and values of the settings that only a GPT has, or only that and models of experts.
std::vector<std::pair<const char*, Value>> later_settings(const ModelConfig& c,
                                                          bool Setting::*but) {
  std::vector<std::pair<const char*, Value>> settings;
  visit_settings(c, [&](const auto& value, const Setting& s) {
    if (s.later && (but == nullptr || !(s.*but))) settings.emplace_back(s.flag, value);
  });
  return settings;
}

}  // namespace

std::string Setting::arg_name() const {
  if (arg != nullptr) return arg;
  std::string name = flag + 2;
  std::ranges::replace(name, '-', '_');
  return name;
}

void ModelConfig::add_to(CommandLine& cl) {
  const auto declare = [&](Section section) { visit_settings(*this, Declaring{cl, section}); };
  cl.section("Model");
  for (const Section section : {Section::sizes, Section::model, Section::padding}) declare(section);
  cl.section("Kinds of layers");
  declare(Section::layers);
  cl.section("Kinds of norms");
  declare(Section::norms);
  cl.section("Gated delta rule");
  declare(Section::rules);
  cl.section("Latent attention");
  declare(Section::latents);
  cl.section("Positions and windows");
  declare(Section::positions);
  cl.section("Dropout and initial weights");
  declare(Section::training);
}

void ModelConfig::complete(int tensor_ranks) {
  if (use_rotary_position_embeddings) position_embedding_type = "rope";
  const bool relative = family == ModelFamily::t5 && position_embedding_type == "relative";
  if (relative) position_embedding_type = "none";  // to its stacks
  require_given(num_layers, "--num-layers");
  require_given(hidden_size, "--hidden-size");
  require_given(num_attention_heads, "--num-attention-heads");
  require_given(max_position_embeddings, "--max-position-embeddings");
  require_given(vocab_size, "--vocab-size");
  if (mtp_num_layers == 0) mtp_hybrid_pattern.clear();
  if (family == ModelFamily::mamba) check_hybrid(*this);
  visit_settings(std::as_const(*this), CheckingRanges{});
  if (multi_latent_attention) kv_channels.reset();  // it does not enter the projections
  if (latent_norm_epsilon == norm_epsilon) latent_norm_epsilon = 0;
  if (!kv_channels && !multi_latent_attention && hidden_size % num_attention_heads != 0)
    fail(Exit::bad_config, "--hidden-size ", hidden_size,
         ": not a multiple of --num-attention-heads ", num_attention_heads, "; give --kv-channels");
  if (ffn() < 1)
    fail(Exit::bad_config, "--hidden-size ", hidden_size,
         ": 8/3 of it hold no multiple of 64 for --swiglu; give --ffn-hidden-size");
  AttentionConfig::check(num_layers);
  if (!window_size.empty()) window_size = concat(tokens_before(), ",0");  // of (A, 0), too
  check_latent(*this);
  MlpConfig::check();
  PositionConfig::check(multi_latent_attention ? qk_pos_emb_head_dim : head_dim(), num_layers);
  if (rotary_base_window != 0 && window_size.empty())
    fail(Exit::bad_config, "--rotary-base-window: needs --window-size");
  if (rotary_base_window != 0 && rope_attention_factor != 1 && turns_in_part())
    fail(Exit::bad_config,
         "--rotary-base-window: not with --rope-attention-factor and channels that do not turn");
  pad_vocabulary(tensor_ranks);
  if (has_experts()) complete_experts(*this);
  check_shares(*this, tensor_ranks);
  recompute.complete(num_layers);
  if (relative) position_embedding_type = "relative";
  check_norms(*this, tensor_ranks);
  if (output_bias && (logit_scale != 1 || final_logit_softcapping != 0))
    fail(Exit::bad_config,
         "--add-output-bias: not with --logit-scale and --final-logit-softcapping");
  if (recompute.part("mla_up_proj") && !multi_latent_attention)
    fail(Exit::bad_config, "--recompute-modules mla_up_proj: needs --multi-latent-attention");
  if (recompute.part("moe_act") && !has_experts())
    fail(Exit::bad_config, "--recompute-modules moe_act: needs --num-experts");
  bool Setting::*const but = family == ModelFamily::mixtral ? &Setting::with_experts
                             : family == ModelFamily::mamba ? &Setting::with_mamba
                             : is_internvit_tower()         ? &Setting::with_towers
                             : family == ModelFamily::bert  ? &Setting::with_berts
                                                            : nullptr;
  const bool is_gpt = family == ModelFamily::gpt || family == ModelFamily::llava;  // or has one
  if (const char* const flag = later_setting(but); flag != nullptr && !is_gpt)
    fail(Exit::bad_config, flag, ": of a GPT alone");
  complete_delta(num_layers, tensor_ranks);
  check_delta(*this);
  if (has_alibi() && family != ModelFamily::gpt)
    fail(Exit::bad_config, "--position-embedding-type alibi: of a GPT alone");
  check_mtp(*this);
  if (family == ModelFamily::bert) check_bert(*this);
  if (family == ModelFamily::biencoder) complete_biencoder(*this);
  if (family == ModelFamily::vit) complete_vit(*this);
  if (family == ModelFamily::llava) complete_llava(*this, tensor_ranks);
  if (family == ModelFamily::t5) check_t5(*this);
  if (family == ModelFamily::retro) check_retro(*this);
  check_task_head(*this);
  if (quick_geglu && family != ModelFamily::mixtral)
    fail(Exit::bad_config, "--quick-geglu: needs --num-experts");
  if (family == ModelFamily::mamba) complete_mamba(num_layers, hidden_size, tensor_ranks);
  if (has_experts()) check_experts(*this);
}

const char* ModelConfig::setting_of_cpus() const {
  return has_alibi()                             ? "--position-embedding-type alibi"
         : xielu                                 ? "--xielu"
         : linear_key_head_dim > kMostDeltaDim   ? "--linear-key-head-dim above 256"
         : linear_value_head_dim > kMostDeltaDim ? "--linear-value-head-dim above 256"
                                                 : nullptr;
}

const char* ModelConfig::later_setting(bool Setting::*but) const {
  ModelConfig plain;
  plain.family = family;
  const auto here = later_settings(*this, but), usual = later_settings(plain, but);
  const auto [found, other] = std::ranges::mismatch(here, usual);
  return found == here.end() ? nullptr : found->first;
}

void Sizes::pad_vocabulary(int tensor_ranks) {
  if (padded_vocab_size == 0) {
    const std::int64_t m = make_vocab_size_divisible_by * tensor_ranks;
    padded_vocab_size = (vocab_size + m - 1) / m * m;
  }
  check_range("the padded vocabulary", padded_vocab_size, between(1, kIds));
  if (vocab_size > padded_vocab_size)
    fail(Exit::bad_config, "the vocabulary of ", vocab_size, " tokens is larger than the model's ",
         padded_vocab_size);
}

}  // namespace mt
