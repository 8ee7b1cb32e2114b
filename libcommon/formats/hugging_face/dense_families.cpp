#include "formats/hugging_face/dense_families.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/rope_config.h"

namespace mt {
namespace {

constexpr const char* kSliding = "sliding_attention";

bool is_granite(std::string_view type) {
  return type == "granite" || type == "granitemoe" || type == "granitemoeshared";
}

// --- Reading ------------------------------------------------------------------------------------

class FamilyReader {
 public:
  FamilyReader(const ConfigJson& json, ModelConfig& model)
      : json_(json), type_(json.model_type()), model_(model) {}

  void read() {
    if (is_gemma(type_)) read_gemma();
    if (is_cohere(type_)) read_cohere();
    if (type_ == "olmo2" || type_ == "olmo3" || type_ == "exaone4") {
      model_.qk_layernorm_whole = type_ != "exaone4";
      model_.post_layernorm = true;
      model_.pre_layernorm = false;
    }
    if (type_ == "olmo3") read_olmo3();
    if (type_ == "exaone4" || type_ == "exaone_moe") read_exaone4();
    model_.rotary_interleaved |= turns_neighbours(type_);
    if (type_ == "glm4") model_.post_layernorm = true;
    if (type_ == "ministral" && has_window())
      set_window(json_.sliding_layers(model_.num_layers).value_or(layers(true)));
    if (type_ == "dots1") read_dots();
    if (is_granite(type_)) read_granite_multipliers(json_, model_);
    if (type_ == "granite_swa") read_granite_windows();
    if (type_ == "hyperclovax") read_hyperclovax();
    if (type_.starts_with("hunyuan_v1_"))
      model_.qk_layernorm = model_.qk_layernorm_behind_rope = true;
    if (type_ == "nanochat") read_nanochat();
    if (type_ == "iquestcoder") {
      json_.expect_flag("use_sliding_window", false);
      if (json_.has("clip_qkv")) json_.refuse("\"clip_qkv\": expected null, as its class does");
    }
    if (type_ == "minicpm") read_minicpm();
    if (type_ == "cwm") read_cwm();
    if (type_ == "phi3" && json_.has("sliding_window")) set_window(layers(true));
    if (type_ == "smollm3") read_smollm3();
  }

 private:
  using Layers = std::vector<bool>;
  Layers layers(bool all) const { return Layers(static_cast<std::size_t>(model_.num_layers), all); }
  // Above 0; 0 where it is null.
  double cap(const char* name, double usual) const {
    return json_.is_null(name) ? 0 : json_.positive_or(name, usual);
  }

  // All but every so manyth.
  Layers but_every(std::int64_t period) const {
    Layers found = layers(true);
    for (std::size_t i = static_cast<std::size_t>(period) - 1; i < found.size();
         i += static_cast<std::size_t>(period))
      found[i] = false;
    return found;
  }
  Layers but_every_fourth_from_first() const {
    Layers found = layers(true);
    for (std::size_t i = 0; i < found.size(); i += 4) found[i] = false;
    return found;
  }
  // The layers that have a window: as they are listed, or by their period.
  Layers windowed(std::int64_t period) const {
    return json_.sliding_layers(model_.num_layers).value_or(but_every(period));
  }

  void set_window(const Layers& windowed, std::int64_t usual = 4096) {
    const std::string window =
        json_.has("sliding_window") ? json_.window_size() : concat(usual - 1, ",0");
    if (std::ranges::count(windowed, true) == 0) return;
    model_.window_size = window;
    if (std::ranges::count(windowed, false) > 0)
      model_.window_attn_skip_freq.assign(windowed.begin(), windowed.end());
  }
  void set_turning(const Layers& turning) {
    if (std::ranges::count(turning, false) == 0) return;
    for (const bool turns : turning) model_.no_rope_freq.push_back(turns ? 0 : 1);
  }
  bool has_window() const { return !json_.is_null("sliding_window"); }

  void read_gemma() {
    model_.embedding_mult = std::sqrt(static_cast<double>(model_.hidden_size));
    json_.expect_flag("use_bidirectional_attention", false);
    if (type_ == "gemma") return;
    const bool third = type_ == "gemma3_text";
    model_.post_layernorm = type_ != "vaultgemma";
    const double scalar = json_.positive_or("query_pre_attn_scalar", 256);
    if (scalar != static_cast<double>(model_.head_dim()))
      model_.softmax_scale = 1 / std::sqrt(scalar);
    model_.attn_logit_softcapping = cap("attn_logit_softcapping", third ? 0 : 50);
    model_.final_logit_softcapping = cap("final_logit_softcapping", third ? 0 : 30);
    if (has_window()) set_window(windowed(third ? json_.count_or("sliding_window_pattern", 6) : 2));
    if (third && !model_.window_size.empty())
      read_base_of_windows(json_.real_or("rope_local_base_freq", 10000));
  }

  // Layers with a window turn as all do, but that nothing scales them.
  void read_olmo3() {
    if (!has_window()) return;
    set_window(windowed(4));
    if (!model_.window_size.empty()) read_base_of_windows(model_.rotary_base);
  }

  // Layers without a window do not turn where others have one.
  void read_exaone4() {
    if (type_ == "exaone_moe" && !has_window())
      json_.refuse("\"sliding_window\" is null, which its class does not take");
    if (!has_window()) return;
    const std::optional<Layers> listed = json_.sliding_layers(model_.num_layers);
    const Layers sliding =
        listed ? *listed : but_every(json_.count_or("sliding_window_pattern", 4));
    set_window(sliding);
    set_turning(sliding);
  }

  // Layers from max_window_layers on have a window, unless layer_types says which.
  void read_dots() {
    if (!has_window()) return;
    const std::int64_t full = json_.size_or("max_window_layers", 62);
    Layers sliding = layers(false);
    for (std::size_t i = 0; i < sliding.size(); ++i)
      sliding[i] = static_cast<std::int64_t>(i) >= full;
    set_window(json_.sliding_layers(model_.num_layers).value_or(sliding));
  }

  void read_base_of_windows(double base) {
    if (json_.has("rope_parameters"))
      if (const JsonObject rope = json_.object("rope_parameters"); rope.has(kSliding)) {
        const JsonObject sliding = rope.object(kSliding);
        if (sliding.text_or("rope_type", "default") != "default")
          sliding.refuse("\"rope_type\": expected default of layers with a window");
        if (sliding.has("rope_theta")) base = sliding.real("rope_theta");
      }
    if (!(base >= 1 && std::isfinite(base)))
      json_.refuse("the base of layers with a window is ", base, ", expected at least 1");
    model_.rotary_base_window = base;
    if (model_.window_frequencies(model_.head_dim()) == model_.rotary_frequencies())
      model_.rotary_base_window = 0;
  }

  void read_cohere() {
    model_.parallel_block = model_.rotary_interleaved = true;
    model_.norm_bias = false;
    model_.logit_scale = json_.positive_or("logit_scale", 0.0625);
    if (type_ == "cohere") {
      model_.qk_layernorm = model_.qk_layernorm_per_head = json_.flag_or("use_qk_norm", false);
      return;
    }
    json_.expect_flag("use_qk_norm", false);
    model_.kv_channels.reset();  // its class has them follow from the others
    Layers turning = layers(false);
    if (has_window()) {
      turning = windowed(json_.count_or("sliding_window_pattern", 4));
      set_window(turning);
    }
    set_turning(turning);
  }

  // As a Granite, with sinks; all but every fourth layer, from the first on, have a window.
  void read_granite_windows() {
    read_granite_multipliers(json_, model_);
    model_.softmax_type = "learnable";
    if (has_window())
      set_window(json_.sliding_layers(model_.num_layers).value_or(but_every_fourth_from_first()),
                 128);
    if (json_.has("layer_rope_theta")) read_bases_of_layers("layer_rope_theta");
  }

  // A base for each layer, one of those with a window and one of the others; 0: it does not turn.
  void read_bases_of_layers(const char* name) {
    simdjson::dom::array list;
    Layers turning = layers(true);
    if (json_.member(name).get(list) || list.size() != turning.size())
      json_.refuse(json_quoted(name), ": expected a number for each layer");
    double of_windows = 0, of_others = 0;
    for (std::size_t i = 0; i < turning.size(); ++i) {
      double base = 0;
      if (list.at(i).get(base) || (base != 0 && !(base >= 1 && std::isfinite(base))))
        json_.refuse(json_quoted(name), ": expected 0 or numbers of at least 1");
      turning[i] = base != 0;
      double& known = model_.window(static_cast<std::int64_t>(i)) >= 0 ? of_windows : of_others;
      if (base != 0 && known != 0 && base != known)
        json_.refuse(json_quoted(name),
                     ": expected one base of the layers with a window, and one "
                     "of the others");
      if (base != 0) known = base;
    }
    set_turning(turning);
    if (of_others == 0) of_others = of_windows;
    if (of_others == 0) return;
    const bool scaled = model_.use_rope_scaling || model_.rotary_interpolation ||
                        !model_.rope_frequency_factors.empty();
    const bool differ = of_windows != 0 && of_windows != of_others;
    if (scaled && (differ || of_others != model_.rotary_base))
      json_.refuse(json_quoted(name), ": expected none beside a scaling of positions");
    model_.rotary_base = of_others;
    if (differ) model_.rotary_base_window = of_windows;
  }

  // As a Granite, whose logits are divided by what multiplies them here.
  void read_hyperclovax() {
    model_.embedding_mult = json_.positive_or("embedding_multiplier", 1);
    model_.residual_mult = json_.positive_or("residual_multiplier", 1);
    model_.logit_scale = json_.positive_or("logits_scaling", 1);
    if (json_.has("attention_multiplier"))
      model_.softmax_scale = json_.positive_or("attention_multiplier", 1);
    model_.post_layernorm = json_.flag_or("use_post_norm", true);
  }

  // All norms are without weights, and one is of what is embedded.
  void read_nanochat() {
    model_.norm_weight = false;
    model_.embedding_layernorm = model_.qk_layernorm_behind_rope = true;
    model_.final_logit_softcapping = cap("final_logit_softcapping", 15);
  }

  void read_minicpm() {
    const auto layers = static_cast<double>(model_.num_layers);
    const auto width = static_cast<double>(model_.hidden_size);
    model_.embedding_mult = json_.positive_or("scale_emb", 1);
    model_.residual_mult = json_.positive_or("scale_depth", 1) / std::sqrt(layers);
    model_.logit_scale = json_.positive_or("dim_model_base", 1) / width;
  }

  // All but every fourth layer, from the first on, have a window.
  void read_cwm() {
    if (has_window())
      set_window(json_.sliding_layers(model_.num_layers).value_or(but_every_fourth_from_first()),
                 8192);
  }

  void read_smollm3() {
    Layers turning = windowed_list("no_rope_layers");
    set_turning(turning);
    if (!json_.flag_or("use_sliding_window", false) || !json_.has("sliding_window")) {
      // transformers' masks have the window then, and its modules have not.
      if (std::ranges::count(windowed(1), true) > 0)
        json_.refuse("\"layer_types\" has windows, and \"use_sliding_window\" none");
      return;
    }
    turning.flip();
    set_window(json_.has("layer_types") ? windowed(1) : turning);
  }
  // 1 for each layer that turns, or all but every so manyth.
  Layers windowed_list(const char* name) const {
    Layers found = but_every(json_.count_or("no_rope_layer_interval", 4));
    if (!json_.has(name)) return found;
    simdjson::dom::array list;
    if (json_.member(name).get(list) || list.size() != found.size())
      json_.refuse(json_quoted(name), ": expected one for each layer");
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::int64_t number = 0;
      if (list.at(i).get(number) || number < 0 || number > 1)
        json_.refuse(json_quoted(name), ": expected 0 or 1");
      found[i] = number == 1;
    }
    return found;
  }

  const ConfigJson& json_;
  std::string_view type_;
  ModelConfig& model_;
};

// --- Writing ------------------------------------------------------------------------------------

// 1 / x, or the whole number of which x is that.
double reciprocal(double x) {
  const double whole = std::round(1 / x);
  return 1 / whole == x ? whole : 1 / x;
}

void write_hyperclovax(JsonWriter& json, const ModelConfig& c) {
  json.member("embedding_multiplier", c.embedding_mult);
  json.member("residual_multiplier", c.residual_mult).member("logits_scaling", c.logit_scale);
  json.member("attention_multiplier", c.score_scale()).member("use_post_norm", c.post_layernorm);
}

// A number that is whole but for the last bits of what was computed to undo what reading does.
double nearly_whole(double x) {
  const double whole = std::round(x);
  return std::abs(x - whole) < 1e-12 * std::abs(x) ? whole : x;
}

void write_minicpm(JsonWriter& json, const ModelConfig& c) {
  const auto layers = static_cast<double>(c.num_layers), width = static_cast<double>(c.hidden_size);
  json.member("scale_emb", c.embedding_mult);
  json.member("scale_depth", nearly_whole(c.residual_mult * std::sqrt(layers)));
  json.member("dim_model_base", nearly_whole(c.logit_scale * width));
}

void write_granite_windows(JsonWriter& json, const ModelConfig& c) {
  write_granite_multipliers(json, c);
  write_needed_window(json, c);
  write_layer_types(json, c);
  json.key("layer_rope_theta").begin_array();
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    json.value(!c.turns(layer)            ? 0.0
               : c.turns_by_window(layer) ? c.rotary_base_window
                                          : c.rotary_base);
  json.end_array();
}

void write_number_or_null(JsonWriter& json, const char* name, double value) {
  json.key(name);
  if (value != 0)
    json.value(value);
  else
    json.null();
}

void write_gemma(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  const double scalar = 1 / (c.score_scale() * c.score_scale());
  json.member("query_pre_attn_scalar", static_cast<std::int64_t>(std::llround(scalar)));
  write_number_or_null(json, "attn_logit_softcapping", c.attn_logit_softcapping);
  write_number_or_null(json, "final_logit_softcapping", c.final_logit_softcapping);
  write_needed_window(json, c);
  write_layer_types(json, c);
  if (type == "gemma3_text")
    write_base(json, "rope_local_base_freq",
               c.rotary_base_window != 0 ? c.rotary_base_window : c.rotary_base);
}

// Classes of transformers 5 take 500000 for layers with a window, whatever rope_theta is, unless
// rope_parameters has another.
void write_olmo3_bases(JsonWriter& json, const ModelConfig& c) {
  if (c.rotary_base == 500000) return;
  json.key("rope_parameters").begin_object();
  for (const char* const layers : {kSliding, "full_attention"}) {
    json.key(layers).begin_object().member("rope_type", "default");
    write_base(json, "rope_theta", c.rotary_base);
    json.end_object();
  }
  json.end_object();
}

}  // namespace

bool is_dense_family(std::string_view type) {
  static constexpr std::string_view kTypes[] = {"olmo2",       "olmo3",       "phi3",
                                                "granite",     "smollm3",     "exaone4",
                                                "glm",         "glm4",        "arcee",
                                                "ernie4_5",    "internlm2",   "internlm3",
                                                "exaone",      "hyperclovax", "hunyuan_v1_dense",
                                                "minicpm",     "cwm",         "helium",
                                                "seed_oss",    "ministral",   "ministral3",
                                                "dots1",       "granitemoe",  "granitemoeshared",
                                                "exaone_moe",  "apertus",     "nanochat",
                                                "iquestcoder", "granite_swa"};
  return is_gemma(type) || is_cohere(type) || std::ranges::find(kTypes, type) != std::end(kTypes);
}

void read_dense_family(const ConfigJson& json, ModelConfig& model) {
  FamilyReader(json, model).read();
}

void read_granite_multipliers(const ConfigJson& json, ModelConfig& model) {
  model.embedding_mult = json.positive_or("embedding_multiplier", 1);
  model.residual_mult = json.positive_or("residual_multiplier", 1);
  model.logit_scale = 1 / json.positive_or("logits_scaling", 1);
  model.softmax_scale = json.positive_or("attention_multiplier", 1);
}

void write_granite_multipliers(JsonWriter& json, const ModelConfig& c) {
  json.member("embedding_multiplier", c.embedding_mult);
  json.member("residual_multiplier", c.residual_mult);
  json.member("logits_scaling", reciprocal(c.logit_scale));
  json.member("attention_multiplier", c.score_scale());
}

void write_dense_family(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  if (is_gemma(type) && type != "gemma") write_gemma(json, c, type);
  if (is_cohere(type)) json.member("logit_scale", c.logit_scale);
  if (type == "cohere") json.member("use_qk_norm", c.qk_layernorm);
  if (type == "cohere2") {
    write_sliding_window(json, c);
    write_layer_types(json, c);
  }
  if (is_granite(type)) write_granite_multipliers(json, c);
  if (type == "granite_swa") write_granite_windows(json, c);
  if (type == "phi3" || type == "ministral3") write_sliding_window(json, c);
  if (type == "hyperclovax") write_hyperclovax(json, c);
  if (type == "minicpm") write_minicpm(json, c);
  if (type == "internlm2") json.member("bias", false);
  if (type == "cwm") {
    json.member("mlp_bias", false);
    write_needed_window(json, c);
    write_layer_types(json, c);
  }
  if (type == "ernie4_5") json.member("use_bias", c.add_bias_linear);
  if (type == "internlm3") {
    if (c.has_qkv_bias() != c.add_bias_linear)
      refuse_setting("InternLM3 with biases of queries, keys and values alone");
    json.member("qkv_bias", c.add_bias_linear).member("bias", c.add_bias_linear);
  }
  if (type == "seed_oss")
    json.member("attention_out_bias", c.has_proj_bias()).member("mlp_bias", c.add_bias_linear);
  if (type == "nanochat")
    write_number_or_null(json, "final_logit_softcapping", c.final_logit_softcapping);
  if (type == "helium") json.member("mlp_bias", false);
  if ((type == "glm" || type == "glm4") && c.rotary_percent == 1)
    json.member("partial_rotary_factor", 1.0);
  if (type == "olmo3" || type == "exaone4" || type == "exaone_moe" || type == "ministral" ||
      type == "dots1") {
    if (type == "exaone_moe")
      write_needed_window(json, c);
    else
      write_sliding_window(json, c);
    write_layer_types(json, c);
  }
  if (type == "olmo3") write_olmo3_bases(json, c);
  if (type != "smollm3") return;
  json.key("no_rope_layers").begin_array();
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    json.value(std::int64_t{c.turns(layer)});
  json.end_array();
  json.member("use_sliding_window", !c.window_size.empty());
  write_sliding_window(json, c);
  write_layer_types(json, c);
}

}  // namespace mt
