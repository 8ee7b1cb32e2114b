#include "formats/hugging_face/rope_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/whole_number.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/latent_families.h"
#include "formats/hugging_face/rope_scaling.h"

namespace mt {

// --- Reading ------------------------------------------------------------------------------------

// The older of its two names, which people add by hand, goes before what was saved under the
// newer.
static std::optional<JsonObject> find_rope(const JsonObject& json) {
  for (const char* const name : {"rope_scaling", "rope_parameters"})
    if (json.has(name))
      if (const JsonObject rope = json.object(name); !rope.names().empty()) return rope;
  return {};
}

// A Gemma 3 and an OLMo 3 have one for each kind of their layers.
static std::optional<JsonObject> find_rope_of_all(const ConfigJson& json) {
  std::optional<JsonObject> rope = find_rope(json);
  constexpr const char* kFull = "full_attention";
  const bool gemma = json.is("gemma3_text");
  if (!(gemma || json.is("olmo3")) || !rope) return rope;
  // Transformers 5 puts the members of one into the other.
  if (gemma && json.has("rope_scaling") && !json.object("rope_scaling").names().empty()) {
    if (json.has("rope_parameters"))
      json.refuse("\"rope_scaling\" beside \"rope_parameters\" is not supported");
    if (!rope->has("rope_type"))
      rope->refuse("has no \"rope_type\", without which transformers 5 scales nothing");
  }
  for (const std::string_view name : rope->names())
    if (name == kFull || name == "sliding_attention")
      return rope->has(kFull) ? std::optional(rope->object(kFull)) : std::nullopt;
  return rope;
}

// A scaling has a factor for each pair of channels, before the model is complete.
static void check_channels(const ConfigJson& json, const ModelConfig& c) {
  constexpr std::int64_t kMostChannels = 1 << 16;
  if (c.num_attention_heads < 1)
    json.refuse("\"num_attention_heads\" is ", c.num_attention_heads, ", expected at least 1");
  if (c.head_dim() > kMostChannels)
    json.refuse("heads of ", c.head_dim(), " channels, expected at most ", kMostChannels);
  if (!(c.rotary_percent > 0 && c.rotary_percent <= 1))
    json.refuse("\"partial_rotary_factor\" is ", c.rotary_percent,
                ", expected more than 0 and at most 1");
}

constexpr const char *kScalingBeta = "llama_4_scaling_beta",
                     *kOriginal = "original_max_position_embeddings",
                     *kPositions = "max_position_embeddings";

// Queries behind the positions that it was trained with first are multiplied by more than 1.  Of
// three kinds these may stand beside the scaling, or be all.
static void read_scaling_of_queries(HuggingFaceConfig& config, const JsonObject& rope,
                                    const RopeScaling& scaling, std::string_view kind) {
  ModelConfig& c = config.model;
  const bool elsewhere = kind == "llama3" || kind == "yarn" || kind == "longrope";
  if (!rope.has(kScalingBeta)) rope.refuse("no ", json_quoted(kScalingBeta));
  if (!elsewhere && !rope.has(kOriginal)) rope.refuse("no ", json_quoted(kOriginal));
  const std::int64_t positions =
      elsewhere ? scaling.original_positions() : rope.number(kOriginal, kMostSize);
  if (rope.real(kScalingBeta) == 0 || positions >= c.max_position_embeddings) return;
  config.notes.push_back(
      concat(rope.where(), ": ", json_quoted(kScalingBeta), " is of texts of more than ", positions,
             " tokens; ours are shorter, and --max-position-embeddings is ", positions));
  c.max_position_embeddings = positions;
}

// As transformers' modeling_rope_utils.py computes them.
static void read_scaling(const ConfigJson& json, HuggingFaceConfig& config,
                         const JsonObject& rope) {
  ModelConfig& c = config.model;
  static constexpr std::string_view kKnown[] = {
      "rope_type",        "type",
      "rope_theta",       "partial_rotary_factor",
      "factor",           "low_freq_factor",
      "high_freq_factor", "original_max_position_embeddings",
      "attention_factor", "beta_fast",
      "beta_slow",        "mscale",
      "mscale_all_dim",   "truncate",
      "finetuned",        "short_factor",
      "long_factor"};
  // A Qwen that reads images has a position for each side of them; of a text's all are one.
  const std::string_view type = json.text_or("model_type", "");
  const bool has_sides =
      type.find("_vl") != type.npos || type.starts_with("qwen3_5") || type.starts_with("glm4v");
  const bool hunyuan = type.starts_with("hunyuan_v1_"), ministral3 = type == "ministral3";
  for (const std::string_view name : rope.names())
    if (std::ranges::find(kKnown, name) == std::end(kKnown) && !(hunyuan && name == "alpha") &&
        !(ministral3 && (name == kScalingBeta || name == kPositions)) &&
        !(has_sides && (name == "mrope_section" || name == "mrope_interleaved")))
      rope.refuse(json_quoted(name), " is not supported");
  std::string_view kind = rope.text_or("rope_type", rope.text_or("type", "default"));
  if (has_sides && kind == "mrope") kind = "default";
  if (json.is("phi3") && kind == "yarn") kind = "longrope";  // what it was called at first
  if ((kind != "default" && kind != "dynamic" && kind != "linear") || hunyuan)
    check_channels(json, c);
  const RopeScaling scaling(rope, json, c);
  if (c.multi_latent_attention && kind != "default") {
    if (kind != "yarn") rope.refuse("rope_type ", json_quoted(kind), ": expected default or yarn");
    read_latent_scaling(rope, json, c);
  } else if (kind == "linear") {
    c.rotary_interpolation = rope.real("factor");
  } else if (kind == "llama3") {
    c.use_rope_scaling = scaling.is_llama3();
    if (c.use_rope_scaling)
      c.rope_scaling_factor = rope.real("factor");
    else
      scaling.set_llama3(c);
  } else if (kind == "yarn") {
    scaling.set_yarn(c);
  } else if (kind == "longrope" || kind == "su") {
    scaling.set_longrope(c);
    if (const std::int64_t positions = scaling.original_positions();
        positions < c.max_position_embeddings) {
      config.notes.push_back(concat(rope.where(),
                                    ": longrope has other frequencies for texts of more "
                                    "than ",
                                    positions,
                                    " tokens; ours are those of shorter ones, and "
                                    "--max-position-embeddings is ",
                                    positions));
      c.max_position_embeddings = positions;
    }
  } else if (hunyuan && kind == "dynamic" && rope.has("alpha") && rope.real("alpha") != 0) {
    const auto channels = static_cast<double>(c.head_dim());
    c.rotary_base *= std::pow(rope.real("alpha"), channels / (channels - 2));
    if (!(c.rotary_base >= 1 && std::isfinite(c.rotary_base)))
      rope.refuse("\"alpha\" makes a base of ", c.rotary_base, ", expected at least 1");
  } else if (kind != "default" && kind != "dynamic") {  // dynamic: none within its positions
    rope.refuse("rope_type ", json_quoted(kind),
                ": expected default, linear, dynamic, llama3, yarn or longrope");
  }
  if (ministral3) read_scaling_of_queries(config, rope, scaling, kind);
  if (!(c.rope_attention_factor > 0) || std::isinf(c.rope_attention_factor))
    rope.refuse("multiplies queries and keys by ", c.rope_attention_factor,
                ", expected more than 0");
}

std::optional<double> turning_part(std::string_view type) {
  static constexpr std::pair<std::string_view, double> kParts[] = {
      {"nemotron", 0.5},  {"bamba", 0.5},       {"glm4_moe", 0.5},    {"phi3", 1},
      {"glm", 0.5},       {"glm4", 0.5},        {"phi", 0.5},         {"stablelm", 0.25},
      {"gpt_neox", 0.25}, {"persimmon", 0.5},   {"qwen3_next", 0.25}, {"qwen3_5_text", 0.25},
      {"minimax_m2", 1},  {"glm4_moe_lite", 1}, {"solar_open", 1}};
  const auto* const found =
      std::ranges::find(kParts, type, &std::pair<std::string_view, double>::first);
  return found == std::end(kParts) ? std::nullopt : std::optional(found->second);
}

// How a class scales where nothing is said; most do not.
static std::string_view usual_scaling(std::string_view type) {
  if (type == "gpt_oss")
    return R"({"rope_type":"yarn","factor":32,"beta_fast":32,"beta_slow":1,"truncate":false,)"
           R"("original_max_position_embeddings":4096})";
  if (type == "ministral3")
    return R"({"rope_type":"yarn","rope_theta":1000000,"factor":16,)"
           R"("original_max_position_embeddings":16384,"beta_fast":32,"beta_slow":1,"mscale_all_dim":1,"mscale":1,)"
           R"("llama_4_scaling_beta":0.1})";
  if (type == "apertus")
    return R"({"rope_type":"llama3","rope_theta":12000000,"factor":8,"low_freq_factor":1,)"
           R"("high_freq_factor":4,"original_max_position_embeddings":8192})";
  if (type == "cwm")
    return R"({"rope_type":"llama3","factor":16,"low_freq_factor":1,"high_freq_factor":4,)"
           R"("original_max_position_embeddings":8192})";
  return {};
}

void read_rope(const ConfigJson& json, HuggingFaceConfig& config, double usual_theta) {
  ModelConfig& c = config.model;
  constexpr const char* kPart = "partial_rotary_factor";
  const bool neox = json.is("gpt_neox");  // which has names of its own
  double theta = json.real_or(neox ? "rotary_emb_base" : "rope_theta", usual_theta);
  std::optional<double> usual_part = turning_part(json.model_type());
  if (json.is("minimax_m2") && json.has("rotary_dim")) {
    check_channels(json, c);
    const std::int64_t turning = json.size("rotary_dim"), channels = c.head_dim();
    if (turning < 1 || turning > channels)
      json.refuse("\"rotary_dim\" is ", turning, ", expected 1 to the ", channels,
                  " channels of a head");
    usual_part = rotary_percent_of(turning, channels);
  }
  double part = json.real_or(neox ? "rotary_pct" : kPart, usual_part.value_or(1));
  std::optional<JsonObject> scaling = find_rope_of_all(json);
  simdjson::dom::parser parser;
  if (const std::string_view usual = usual_scaling(json.model_type()); !scaling && !usual.empty())
    scaling.emplace(parser.parse(usual).value(), json.where());
  if (scaling && scaling->has("rope_theta")) theta = scaling->real("rope_theta");
  if (scaling && scaling->has(kPart)) part = scaling->real(kPart);
  if (usual_part)
    c.rotary_percent = part;
  else if (part != 1)
    config.notes.push_back(concat(json.where(), ": ", json_quoted(kPart), " is passed over, as by ",
                                  json.model_type(), " of transformers"));
  if (!(theta >= 1 && std::isfinite(theta)))
    json.refuse("\"rope_theta\" is ", theta, ", expected at least 1");
  c.rotary_base = theta;
  if (scaling) read_scaling(json, config, *scaling);
}

// --- Writing ------------------------------------------------------------------------------------

static bool are_same_positions(const ModelConfig& a, const ModelConfig& b) {
  return a.max_position_embeddings == b.max_position_embeddings && a.has_rope() && b.has_rope() &&
         a.rotary_base == b.rotary_base && a.rotary_percent == b.rotary_percent &&
         a.rotary_interpolation == b.rotary_interpolation &&
         a.use_rope_scaling == b.use_rope_scaling &&
         a.rope_scaling_factor == b.rope_scaling_factor &&
         a.rope_frequency_factors == b.rope_frequency_factors &&
         a.rope_attention_factor == b.rope_attention_factor;
}

std::optional<KeptPositions> positions_of(const JsonObject& before, const std::string& original,
                                          const ModelConfig& c) {
  if (!c.has_rope() || c.multi_latent_attention) return {};
  std::optional<JsonObject> rope = find_rope(before);
  if (!rope) return {};
  if (rope->has("full_attention")) rope = rope->object("full_attention");  // of layers of two kinds
  const std::string_view kind = rope->text_or("rope_type", rope->text_or("type", "default"));
  const ModelConfig stored = parse_hugging_face_config(original, "config.json").model;
  const bool ours = (kind == "default" || kind == "linear" || stored.use_rope_scaling) &&
                    c.hf_model_type != "ministral3";
  if (ours || !are_same_positions(stored, c)) return {};
  const bool given = before.has("max_position_embeddings"), stretched = rope->has("alpha");
  const double base = !stretched                 ? c.rotary_base
                      : rope->has("rope_theta")  ? rope->real("rope_theta")
                      : before.has("rope_theta") ? before.real("rope_theta")
                                                 : 10000;
  return KeptPositions{
      rope->json(),
      given ? before.number("max_position_embeddings", kMostSize) : c.max_position_embeddings,
      base};
}

// A Ministral 3 asks for both of any kind, and ours has no text behind these positions.
static void end_scaling(JsonWriter& json, const ModelConfig& c, bool says_original) {
  if (c.hf_model_type == "ministral3") {
    if (!says_original) json.member(kOriginal, c.max_position_embeddings);
    json.member(kScalingBeta, 0.0);
  }
  json.end_object();
}

// A factor for each pair, which transformers calls longrope, of texts of any length.
static void write_frequency_factors(JsonWriter& json, const ModelConfig& c) {
  if (c.use_rope_scaling || c.rotary_interpolation)
    refuse_setting("--rope-frequency-factors with another scaling");
  json.begin_object().member("rope_type", "longrope").member("factor", 1.0);
  json.member("attention_factor", c.rope_attention_factor);
  json.member("original_max_position_embeddings", c.max_position_embeddings);
  std::string factors = c.rope_frequency_factors;
  if (factors.empty())
    for (std::int64_t pair = 0; pair < c.rotary_dim() / 2; ++pair) factors += pair ? ",1.0" : "1.0";
  for (const char* name : {"short_factor", "long_factor"}) json.key(name).raw('[' + factors + ']');
  end_scaling(json, c, true);
}

void write_base(JsonWriter& json, std::string_view name, double base) {
  if (const auto whole = whole_number(base))
    json.member(name, *whole);
  else
    json.member(name, base);
}

void write_rope(JsonWriter& json, const ModelConfig& c, const std::optional<KeptPositions>& kept,
                bool scaled_by_default) {
  write_base(json, "rope_theta", kept ? kept->base : c.rotary_base);
  if (c.rotary_percent != 1) json.member("partial_rotary_factor", c.rotary_percent);
  json.key("rope_scaling");
  if (c.use_rope_scaling && c.rotary_interpolation)
    refuse_setting("--use-rope-scaling with --rotary-seq-len-interpolation-factor");
  if (kept)
    json.raw(kept->scaling);
  else if (!c.rope_frequency_factors.empty() || c.rope_attention_factor != 1)
    write_frequency_factors(json, c);
  else if (c.use_rope_scaling)
    end_scaling(json.begin_object()
                    .member("rope_type", "llama3")
                    .member("factor", c.rope_scaling_factor)
                    .member("low_freq_factor", 1.0)
                    .member("high_freq_factor", 4.0)
                    .member(kOriginal, 8192),
                c, true);
  else if (c.rotary_interpolation)
    end_scaling(
        json.begin_object().member("rope_type", "linear").member("factor", *c.rotary_interpolation),
        c, false);
  else if (scaled_by_default)
    end_scaling(json.begin_object().member("rope_type", "default"), c, false);
  else
    json.null();
}

}  // namespace mt
