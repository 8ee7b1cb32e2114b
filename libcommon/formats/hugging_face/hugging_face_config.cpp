#include "formats/hugging_face/hugging_face_config.h"

#include <algorithm>

#include "base/allowance.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/delta_family.h"
#include "formats/hugging_face/layer_norm_families.h"

namespace mt {

// --- What a model is of -------------------------------------------------------------------------

static std::string_view first_architecture(const ConfigJson& json) {
  std::string_view name;
  if (!json.has("architectures")) return name;
  simdjson::dom::array names;
  if (json.member("architectures").get(names) || names.size() == 0 || names.at(0).get(name))
    json.refuse("\"architectures\": expected a list of names");
  return name;
}

static void read_names(const JsonObject& names, ModelConfig& c) {
  c.num_labels = std::ssize(names.names());
  bool named = false;
  std::string lines;
  for (std::int64_t i = 0; i < c.num_labels; ++i) {
    const std::string name(names.text(std::to_string(i)));
    if (name.empty() || name.find('\n') != name.npos)
      names.refuse("a label's name of ", name.empty() ? "no" : "several",
                   " lines is not supported");
    named |= name != concat("LABEL_", i);
    lines += (i == 0 ? "" : "\n") + name;
  }
  if (named) c.label_names = lines;
}

static void read_labels(const ConfigJson& json, ModelConfig& c) {
  c.num_labels = 2;
  if (json.has("id2label")) read_names(json.object("id2label"), c);
  // A score of one label is a number to transformers, too.
  const std::string_view problem = json.text_or("problem_type", "single_label_classification");
  const bool scores = problem == "regression" && c.num_labels == 1 && c.family != ModelFamily::vit;
  if (problem != "single_label_classification" && !scores)
    json.refuse("\"problem_type\" is ", json_quoted(problem),
                ", expected \"single_label_classification\"");
}

// The class that a config.json names, if it names one, is its type's only one that is read.
static void expect_architecture(const ConfigJson& json) {
  const std::string_view given = first_architecture(json),
                         known = find_config_family(json.model_type())->architecture;
  if (!given.empty() && given != known)
    json.refuse("architecture ", json_quoted(given), " is not supported, but ", known, " is");
}

// A ViT tells classes, or is the model without a head, as towers are.
static void read_image_head(const ConfigJson& json, ModelConfig& c) {
  const std::string_view architecture = first_architecture(json);
  if (c.is_tower()) {
    expect_architecture(json);
    c.vision_head = "none";
    c.vocab_size = c.num_classes;  // none that it knows of
    return;
  }
  const bool tells = architecture == "ViTForImageClassification";
  if (!tells && !architecture.empty() && architecture != "ViTModel")
    json.refuse("architecture ", json_quoted(architecture),
                " is not supported, but ViTForImageClassification and ViTModel are");
  c.vision_head = tells ? "linear" : "none";
  read_labels(json, c);
  if (c.num_labels == 0) json.refuse("\"id2label\" is empty, expected at least one class");
  c.vocab_size = c.num_classes = c.num_labels;  // all that it says
  if (!tells) c.label_names.clear();
}

// Which heads a BERT of the first kind has is said by the name of its class.
static void read_bert_heads(const ConfigJson& json, ModelConfig& c) {
  const std::string_view type = json.model_type(), given = first_architecture(json);
  const std::string name(post_norm_bert_class(type));
  c.bert_binary_head = given == name + "ForPreTraining" && type == "bert";
  c.bert_lm_head = c.bert_binary_head || given == name + "ForMaskedLM";
  if (type == "distilbert" && given.find("ForSequence") != given.npos)
    json.refuse("architecture ", json_quoted(given),
                " has a head with ReLU, which is not supported");
  if (given == name + "ForSequenceClassification" || given == name + "ForMultipleChoice") {
    c.bert_pooler = true;
    return;
  }
  if (!c.bert_lm_head && !given.empty() && given != name + "Model")
    json.refuse("architecture ", json_quoted(given), " is not supported, but ", name, "Model, ",
                name, "ForMaskedLM, ", name, "ForSequenceClassification and ", name,
                "ForMultipleChoice are");
}

// A model of a task is one by the name of its class; how many labels it has is said by their
// names alone, unless they are two.
static void read_task_head(const ConfigJson& json, ModelConfig& c) {
  if (c.family == ModelFamily::vit) return read_image_head(json, c);
  if (c.family == ModelFamily::llava) return expect_architecture(json);
  const std::string_view architecture = first_architecture(json);
  const bool bert = c.family == ModelFamily::bert;
  if (bert && is_post_norm_bert(json.model_type())) read_bert_heads(json, c);
  if (bert && architecture.ends_with("ForMultipleChoice")) {
    c.task_head = kMultichoiceHead;
    c.num_labels = 1;
  } else if (architecture.ends_with("ForSequenceClassification")) {
    c.task_head = bert ? kClassificationHead : kScoreHead;
    read_labels(json, c);
  }
}

[[noreturn]] static void refuse_makers_llava(const ConfigJson& json) {
  json.refuse(
      "model_type ", json_quoted(json.model_type()),
      " with an \"mm_vision_tower\" is a LLaVA in the form of its makers; transformers' own "
      "is read, llava with a \"vision_config\"");
}

// What models that transformers knows have and ours have not.
struct Lacking {
  std::string_view type, what;
};
static constexpr std::string_view kIndexed = "attention to keys that an indexer chooses",
                                  kConvolved = "layers that are short convolutions",
                                  kChunked = "attention within chunks",
                                  kOtherExperts =
                                      "experts that lie otherwise than those of a Qwen3-Next";
static constexpr Lacking kLacking[] = {
    {"minicpm3", "latent attention with longrope"},
    {"ernie4_5_moe", "biases that choose experts by a softmax"},
    {"phimoe", "routers that choose one expert after another among few (sparsemixer)"},
    {"jetmoe", "experts of attention"},
    {"longcat_flash", "experts that compute nothing, and layers with two attentions"},
    {"afmoe", "gates of attention by a matrix of their own"},
    {"cohere2_moe", "experts beside attention"},
    {"dbrx", "experts whose matrices lie in one of all"},
    {"minimax", "lightning attention"},
    {"deepseek_v32", kIndexed},
    {"glm_moe_dsa", kIndexed},
    {"lfm2", kConvolved},
    {"lfm2_moe", kConvolved},
    {"llama4", kChunked},
    {"llama4_text", kChunked},
    {"qwen3_5_moe", kOtherExperts},
    {"qwen3_5_moe_text", kOtherExperts}};

[[noreturn]] static void refuse_type(const ConfigJson& json) {
  if (json.is("mpnet") || json.is("deberta-v2") || json.is("modernbert"))
    json.refuse("model_type ", json_quoted(json.model_type()),
                " is an encoder that is not supported; ", post_norm_bert_types(), " are");
  for (const Lacking& lacking : kLacking)
    if (json.is(lacking.type))
      json.refuse("model_type ", json_quoted(json.model_type()), " has ", lacking.what,
                  ", which is not supported");
  if (json.is("clip") || json.is("siglip"))
    json.refuse("model_type ", json_quoted(json.model_type()),
                " reads texts, too: of its parts the tower of images is read, ", json.model_type(),
                "_vision_model");
  if (json.is("intern_vit_6b") || json.is("internvl_chat"))
    json.refuse("model_type ", json_quoted(json.model_type()), " is InternV",
                json.is("internvl_chat") ? "L" : "iT",
                " in the form of its makers; transformers' own is read, internvl",
                json.is("internvl_chat") ? "" : "_vision");
  if (json.is("llava_next") || json.is("llava_onevision") || json.is("llava_next_video"))
    json.refuse("model_type ", json_quoted(json.model_type()),
                " cuts an image into several by its sides, which is not supported; llava is");
  if (json.is("vipllava"))
    json.refuse(
        "model_type ", json_quoted(json.model_type()),
        " reads hidden states of several layers of its tower, which is not supported; llava "
        "is");
  if (json.has("mm_vision_tower")) refuse_makers_llava(json);
  if (json.is("zamba") || json.is("zamba2") || json.is("falcon_h1"))
    json.refuse("model_type ", json_quoted(json.model_type()),
                " has layers of a kind that Megatron's hybrids have not");
  std::string known;
  for (const ConfigFamily& family : kConfigFamilies) {
    const bool last = &family == std::end(kConfigFamilies) - 1;
    known += concat(known.empty() ? "" : last ? " or " : ", ", family.type);
    if (family.type == "megatron-bert") known += ", " + post_norm_bert_types();
    if (family.type == "gpt2") known += concat(", ", decoder_types(), ", ", layer_norm_types());
  }
  json.refuse("model_type ", json_quoted(json.model_type()), " is not known; expected ", known);
}

const ConfigFamily* find_config_family(std::string_view type) {
  const auto* const found = std::ranges::find(kConfigFamilies, type, &ConfigFamily::type);
  return found == std::end(kConfigFamilies) ? nullptr : found;
}

// A model that reads images, too; what its "text_config" is called, and the decoder that it is.
struct ImageReader {
  std::string_view type, text_type, decoder;
};
static constexpr ImageReader kImageReaders[] = {{"gemma3", "gemma3_text", "gemma3_text"},
                                                {"mistral3", "mistral", "mistral"},
                                                {"qwen2_vl", "qwen2_vl_text", "qwen2"},
                                                {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2"},
                                                {"qwen3_vl", "qwen3_vl_text", "qwen3"},
                                                {"qwen3_5", kQwen35, kQwen35},
                                                {"glm4v_moe", "glm4v_moe_text", "glm4_moe"},
                                                {"qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_moe"}};

// What other defaults than the decoder's stand for.
static void expect_sizes(const ConfigJson& text) {
  const auto expect = [&](std::initializer_list<const char*> names) {
    for (const char* const name : names)
      if (!text.has(name)) text.refuse("no ", json_quoted(name));
  };
  expect({"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
          "num_attention_heads", "num_key_value_heads", "max_position_embeddings", "rms_norm_eps"});
  if (text.is("glm4_moe")) expect({"attention_bias"});
  if (text.is("qwen3_moe")) expect({"num_experts_per_tok", "moe_intermediate_size"});
  if (text.is("qwen3_moe") && !text.has("num_local_experts")) expect({"num_experts"});
  const auto says_theta = [&](const char* member) {
    return text.has(member) && text.object(member).has("rope_theta");
  };
  if (!text.has("rope_theta") && !says_theta("rope_scaling") && !says_theta("rope_parameters"))
    text.refuse("no \"rope_theta\"");
}

// Older files of a Qwen say it all in one.
static HuggingFaceConfig read_text_part(const ConfigJson& json, const ImageReader& reader) {
  constexpr std::string_view kClass = "ForConditionalGeneration";
  if (const std::string_view name = first_architecture(json);
      !name.empty() && !name.ends_with(kClass))
    json.refuse("architecture ", json_quoted(name), " is not supported, but ...", kClass, " is");
  json.expect_causal();
  const bool renamed = reader.text_type != reader.decoder;
  const JsonObject& whole = json;
  const JsonObject part = json.has("text_config") || !renamed ? json.object("text_config") : whole;
  const std::string_view type = part.text_or("model_type", reader.text_type);
  const bool third = reader.type == "mistral3" && type == "ministral3";
  if (type != reader.text_type && type != reader.type && !third)
    part.refuse("model_type ", json_quoted(type), " is not supported in a ", reader.type,
                "; expected ", reader.text_type);
  const ConfigJson text = ConfigJson::as(part, third ? "ministral3" : reader.decoder);
  if (renamed) expect_sizes(text);
  HuggingFaceConfig config;
  read_decoder(text, config);
  config.fused_experts = reader.type == "qwen3_vl_moe";
  // Of a Qwen3-VL the weights of a token's experts are 1 together, and a GLM-4.5V's queries and
  // keys have no norms, whatever is said.
  if (text.is("qwen3_moe")) config.model.moe_router_pre_softmax = false;
  if (text.is("glm4_moe")) config.model.qk_layernorm = false;
  if (text.has("initializer_range")) config.model.init_method_std = text.real("initializer_range");
  if (!part.has("tie_word_embeddings") && json.has("tie_word_embeddings"))
    config.model.untie_embeddings_and_output_weights = !json.flag("tie_word_embeddings");
  config.of_texts = config.output_if_stored = true;
  config.notes.push_back(concat(json.where(), ": of a ", reader.type,
                                " the part that reads texts is the model; what reads images is "
                                "passed over"));
  return config;
}

static HuggingFaceConfig read_config(const ConfigJson& json) {
  HuggingFaceConfig config;
  const auto* const reader =
      std::ranges::find(kImageReaders, json.model_type(), &ImageReader::type);
  if (reader != std::end(kImageReaders)) return read_text_part(json, *reader);
  if (json.is("llava") && json.has("mm_vision_tower")) refuse_makers_llava(json);
  if (const ConfigFamily* const family = find_config_family(json.model_type()))
    family->read(json, config);
  else if (!decoder_architecture(json.model_type()).empty())
    read_decoder(json, config);
  else if (is_layer_norm_family(json.model_type()))
    read_layer_norm_family(json, config);
  else if (is_post_norm_bert(json.model_type()))
    read_post_norm_bert(json, config);
  else
    refuse_type(json);
  read_task_head(json, config.model);
  if (config.model.vocab_size == 0) config.model.vocab_size = json.size("vocab_size");
  if (json.has("initializer_range")) config.model.init_method_std = json.real("initializer_range");
  return config;
}

static std::optional<DType> dtype_of(const JsonObject& object) {
  const char* const name = object.has("dtype") ? "dtype" : "torch_dtype";
  std::string_view text = object.text_or(name, "auto");
  if (text == "auto") return {};
  if (text.starts_with("torch.")) text.remove_prefix(6);
  for (const DType known : {DType::f32, DType::f64, DType::bf16, DType::f16})
    if (text == name_of(known)) return known;
  object.refuse(json_quoted(name), " is ", json_quoted(text), ", expected a floating-point type");
}

// --- Texts of Python's, and tokens --------------------------------------------------------------

constexpr std::string_view kPythonNumbers[] = {"-Infinity", "Infinity", "NaN"};

static std::string as_object(std::string_view number) {
  return concat("{\"__float__\":\"", number, "\"}");
}

std::string without_python_numbers(const std::string& json) {
  std::string text;
  bool quoted = false;
  for (std::size_t at = 0; at < json.size();) {
    const std::string_view rest = std::string_view(json).substr(at);
    const auto* const number =
        std::ranges::find_if(kPythonNumbers, [&](auto n) { return rest.starts_with(n); });
    if (!quoted && number != std::end(kPythonNumbers)) {
      text += as_object(*number);
      at += number->size();
      continue;
    }
    const std::size_t taken = quoted && rest[0] == '\\' ? std::min<std::size_t>(2, rest.size()) : 1;
    quoted = quoted != (rest[0] == '"');
    text += rest.substr(0, taken);
    at += taken;
  }
  return text;
}

std::string with_python_numbers(std::string json) {
  for (const std::string_view number : kPythonNumbers) {
    const std::string object = as_object(number);
    for (std::size_t at = 0; (at = json.find(object, at)) != std::string::npos;)
      json.replace(at, object.size(), number);
  }
  return json;
}

std::vector<std::int32_t> token_ids_at(const char* member, const std::string& text,
                                       const std::string& path) {
  Allowance(text.size()).take_json(text, path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root)) fail_json(text, path, error);
  const JsonObject object(root, path);
  std::vector<std::int32_t> ids;
  if (!object.has(member)) return ids;
  const auto add = [&](simdjson::dom::element element) {
    std::int64_t id = -1;
    if (!element.get(id) && 0 <= id && id <= kMostSize)
      ids.push_back(static_cast<std::int32_t>(id));
  };
  const simdjson::dom::element ends = object.member(member);
  if (simdjson::dom::array list; !ends.get(list))
    for (const simdjson::dom::element one : list) add(one);
  else
    add(ends);
  return ids;
}

// --- The whole ----------------------------------------------------------------------------------

bool LackingBiases::has(const RowPlace& row) const {
  const std::string_view module = row.module;
  return row.param == std::string_view("bias") &&
         ((attention && module.starts_with("self_attention.linear")) ||
          (mlp && module.starts_with("mlp.linear")));
}

HuggingFaceConfig parse_hugging_face_config(const std::string& text, const std::string& path) {
  Allowance(text.size()).take_json(text, path);
  const std::string json = without_python_numbers(text);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, json).get(root)) fail_json(json, path, error);
  const JsonObject object(root, path);
  if (!object.has("model_type") && object.has("architecture") && object.has("mapping"))
    object.refuse("of a checkpoint of TensorRT-LLM's, which is written and not read; expected ",
                  "one that it was made of");
  HuggingFaceConfig config = read_config(ConfigJson(object));
  config.dtype = dtype_of(object);
  if (object.has("quantization_config"))
    config.quantization = object.object("quantization_config").json();
  config.output_if_stored |=
      config.model.family == ModelFamily::t5 && object.has("scale_decoder_outputs");
  return config;
}

}  // namespace mt
