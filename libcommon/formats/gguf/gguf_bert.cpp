#include "formats/gguf/gguf_bert.h"

#include "formats/gguf/gguf_tokenizer.h"
#include "formats/hugging_face/config_families.h"
#include "model/config/model_config.h"
#include "model/keys.h"

namespace mt {
namespace {

using enum PartOfRow;

constexpr std::string_view kName = "bert";
constexpr const char* kTypes = "token_types.weight";
constexpr std::int64_t kBehindPadding = 2;  // the first row of a RoBERTa's positions

constexpr ModuleName kWords[] = {
    {"embedding.word_embeddings", "token_embd"},
    {"embedding.position_embeddings", "position_embd"},
    {"embedding.tokentype_embeddings", "token_types"},
};
constexpr ModuleName kLayer[] = {
    {"self_attention.linear_qkv", "attn_q", queries},
    {"self_attention.linear_qkv", "attn_k", keys},
    {"self_attention.linear_qkv", "attn_v", values},
    {"self_attention.linear_proj", "attn_output"},
    {"pre_mlp_layernorm", "attn_output_norm"},
    {"mlp.linear_fc1", "ffn_up"},
    {"mlp.linear_fc2", "ffn_down"},
};

bool is_roberta(const ModelConfig& c) { return c.first_position > 0; }

}  // namespace

void check_gguf_bert(const ModelConfig& c) {
  if (c.bert_lm_head || c.has_task_head())
    fail(Exit::bad_config,
         "a BERT's head: llama.cpp's bert has none; --saver gguf takes models of "
         "embeddings, BertModel and those like it");
  if (is_roberta(c) && c.first_position != kBehindPadding)
    fail(Exit::bad_config, "--first-position ", c.first_position, ": llama.cpp's bert has ",
         kBehindPadding);
}

void add_gguf_bert(GgufKeyValues& values, const ModelConfig& c) {
  GgufSettingsWriter to(values, kName);
  to.size("block_count", c.num_layers);
  to.size("context_length", c.max_position_embeddings);
  to.size("embedding_length", c.hidden_size);
  to.size("feed_forward_length", c.ffn());
  to.size("vocab_size", c.vocab_size);
  to.size("attention.head_count", c.num_attention_heads);
  to.real("attention.layer_norm_epsilon", c.norm_epsilon);
  to.flag("attention.causal", false);
  values.integer("tokenizer.ggml.token_type_count",
                 static_cast<std::uint32_t>(std::max<std::int64_t>(1, c.token_types())));
}

std::string gguf_bert_warning(const ModelConfig& c) {
  return concat("llama.cpp computes a BERT's GeLU by tanh",
                c.bert_pooler ? ", and has no place for its pooler, which is left out" : "",
                is_roberta(c) ? ", and has no place for the positions of padding" : "");
}

std::string gguf_bert_type(const GgufReader& file) {
  if (file.find(kTypes) == nullptr) return "distilbert";
  const auto text = [&](const char* key) {
    return file.find_value(key) == nullptr ? std::string() : file.value(key).as_text(key);
  };
  const std::string model = text("tokenizer.ggml.model"), whole = text(kGgufHuggingFace);
  const auto is = [&](const char* kind) {
    return whole.find(concat("\"type\":\"", kind, "\"")) != std::string::npos;
  };
  if (model == "t5" || (model == "no_vocab" && is("Unigram"))) return "xlm-roberta";
  return model == "gpt2" || (model == "no_vocab" && is("BPE")) ? "roberta" : "bert";
}

void read_gguf_bert(JsonWriter& json, const GgufSettings& file) {
  const std::string type = gguf_bert_type(file.file());
  const bool distil = type == "distilbert", roberta = type == "roberta" || type == "xlm-roberta";
  json.key("architectures").begin_array().value(concat(post_norm_bert_class(type), "Model"));
  json.end_array();
  json.member(distil ? "n_layers" : "num_hidden_layers", file.size("block_count"));
  json.member(distil ? "dim" : "hidden_size", file.size("embedding_length"));
  json.member(distil ? "n_heads" : "num_attention_heads", file.size("attention.head_count"));
  json.member(distil ? "hidden_dim" : "intermediate_size", file.size("feed_forward_length"));
  json.member("max_position_embeddings",
              file.size("context_length") + (roberta ? kBehindPadding : 0));
  if (distil) return;
  json.member("type_vocab_size", file.file().at(kTypes).shape[0]);
  json.key("layer_norm_eps").raw(file.digits("attention.layer_norm_epsilon"));
}

std::vector<ForeignName> gguf_bert_tensors(const ModelConfig& c, const Param& row) {
  const RowPlace place = local_spec_place(row.place);
  if (place.stack == "pooler") return {};
  const auto behind = [&](std::int64_t layers) -> std::vector<ForeignName> {
    return {{layers == 0 ? concat("token_embd_norm.", place.param)
                         : concat("blk.", layers - 1, ".layer_output_norm.", place.param)}};
  };
  if (place.module == "input_layernorm") return behind(*place.layer);
  if (place.module == "final_layernorm") return behind(c.num_layers);
  if (place.layer) return names_in(kLayer, c, row, concat("blk.", *place.layer, "."));
  std::vector<ForeignName> names = names_in(kWords, c, row, "");
  if (names.empty()) fail(Exit::bad_config, row.name(), ": has no place in a GGUF file");
  if (is_cut_positions(c, row))
    names[0].transform = {
        pick_rows(row.shape[0], c.first_position, row.shape[0] - c.first_position)};
  return names;
}

bool is_cut_positions(const ModelConfig& c, const Param& row) {
  return c.family == ModelFamily::bert && is_roberta(c) &&
         row.place.module == "position_embeddings";
}

}  // namespace mt
